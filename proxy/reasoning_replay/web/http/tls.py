"""TLS certificate of the clients' port: reloaded when its files change, without a restart."""

import contextlib
import ssl
from pathlib import Path

from reasoning_replay.adapters.telemetry.log import Log

_Stamp = tuple[tuple[int, int, int], ...]


class Certificate:
    """
    A certificate and its key, in two files that another program may renew.

    Attributes:
        context: Server context; each new connection uses the current content of the files.
    """

    def __init__(self, cert_file: str, key_file: str, log: Log) -> None:
        """
        Read both files.

        Raises:
            OSError: They cannot be read, or do not match; the text names the cause and the way out.
        """
        self._files = (Path(cert_file), Path(key_file))
        self._log = log
        self._stamp = self._read_stamp()
        self._newest = self.context = self._read()
        # OpenSSL calls it in every handshake, with or without a server name.
        self.context.sni_callback = self._choose

    def reload(self) -> bool:
        """
        Read both files again; return whether they have changed.

        Raises:
            OSError: They are invalid, and the old pair stays in use; the text names the way out.
        """
        stamp = self._read_stamp()
        has_changed, self._stamp = stamp != self._stamp, stamp
        self._newest = self._read()
        return has_changed

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        self._reload_if_changed()
        connection.context = self._newest

    def _reload_if_changed(self) -> None:
        """Reload the files if they have changed; if they are invalid, the old pair stays in use."""
        if self._read_stamp() == self._stamp:
            return
        try:
            self.reload()
            self._log.info("tls_reloaded", cert_file=str(self._files[0]))
        except OSError as error:
            self._log.warning("tls_unchanged", reason=str(error))

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        cert_file, key_file = self._files
        try:
            # Without a password for the key: OpenSSL would prompt for it on a terminal.
            context.load_cert_chain(cert_file, key_file, password=lambda: "")
        except OSError as error:
            reason = getattr(error, "reason", None) or error.strerror or "it cannot be read"
            raise OSError(
                f"tls_cert_file {cert_file} and tls_key_file {key_file} are not a certificate with "
                f"its key ({reason}); name two PEM files, the key without a password"
            ) from error
        return context

    def _read_stamp(self) -> _Stamp:
        """Return the state of both files; links are followed, because Kubernetes swaps them."""
        with contextlib.suppress(OSError):
            found = [path.stat() for path in self._files]
            return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in found)
        return ()  # a file is missing; `_read` reports which one
