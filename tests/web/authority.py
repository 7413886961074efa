"""Certificate authority for tests, and certificate files as operators have them."""

import ssl
from pathlib import Path

import trustme


class Authority:
    """
    Authority that issues certificates for this machine.

    Attributes:
        file: Its own certificate, as PEM.
    """

    def __init__(self, folder: Path) -> None:
        self._ca = trustme.CA()
        self.file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def client(self) -> ssl.SSLContext:
        """Return a context that trusts only this authority."""
        return ssl.create_default_context(cafile=str(self.file))

    def server(self, *names: str) -> ssl.SSLContext:
        """Return a context that serves a certificate for these names."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert(*names).configure_cert(context)
        return context

    def write(self, cert: Path, key: Path, *names: str) -> None:
        """Issue a certificate for these names, and write it and its key to two files."""
        issued = self._ca.issue_cert(*names)
        key.write_bytes(issued.private_key_pem.bytes())
        cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
