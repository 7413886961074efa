"""TLS certificate of the clients' port, read again when its files change."""

import contextlib
import ssl
from pathlib import Path

from reasoning_replay.adapters.telemetry.log import Log

__all__ = ["Certificate"]

_Stamp = tuple[tuple[int, int, int], ...]


class Certificate:
    """
    A certificate and its key, in two files that are renewed from outside.

    Attributes:
        context: For a server; each new connection gets the certificate that the files hold by then.
    """

    def __init__(self, cert_file: str, key_file: str, log: Log) -> None:
        """
        Read both files.

        Raises:
            OSError: They cannot be read, or do not match; the text says which and what to do.
        """
        self._files = (Path(cert_file), Path(key_file))
        self._log = log
        self._stamp = self._read_stamp()
        try:
            self._newest = self.context = self._read()
        except OSError as error:
            raise OSError(self._complaint(error)) from error
        # OpenSSL calls it in every handshake, with a server name or without.
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        self._reload_if_changed()
        connection.context = self._newest

    def _reload_if_changed(self) -> None:
        """Read the files again if they have changed; a broken pair leaves the old one in use."""
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._newest = self._read()
        except OSError as error:
            self._log.warning("tls_unchanged", reason=self._complaint(error))
        else:
            self._log.info("tls_reloaded", cert_file=str(self._files[0]))

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(*self._files, password=lambda: "")  # never ask a terminal for it
        return context

    def _read_stamp(self) -> _Stamp:
        """Return what changes with the files; links are followed, as Kubernetes swaps them."""
        with contextlib.suppress(OSError):
            found = [path.stat() for path in self._files]
            return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in found)
        return ()  # a file is missing; reading them says which

    def _complaint(self, error: OSError) -> str:
        reason = getattr(error, "reason", None) or error.strerror or "it cannot be read"
        cert_file, key_file = self._files
        return (
            f"tls_cert_file {cert_file} and tls_key_file {key_file} are no certificate with its "
            f"key ({reason}); name two PEM files, the key without a password"
        )
