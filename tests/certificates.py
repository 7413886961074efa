"""Test certificates: a temporary authority with one server and one client certificate."""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import trustme

__all__ = ["Certificates", "certificates"]


@dataclass(frozen=True, slots=True)
class Certificates:
    """
    PEM files of one authority.

    Attributes:
        ca_pem: The authority's certificate.
        server_pem: Key and certificate for 127.0.0.1 and localhost.
        client_pem: Key and certificate of a client.
        asks_client: Whether the server should refuse clients without a certificate.
    """

    ca_pem: Path
    server_pem: Path
    client_pem: Path
    asks_client: bool


@contextlib.contextmanager
def certificates(*names: str, asks_client: bool = False) -> Iterator[Certificates]:
    """Create an authority, and let it issue both certificates; the server has further `names`."""
    authority = trustme.CA()
    with tempfile.TemporaryDirectory(prefix="rr-") as name:
        folder = Path(name)
        made = Certificates(
            folder / "ca.pem", folder / "server.pem", folder / "client.pem", asks_client
        )
        authority.cert_pem.write_to_path(str(made.ca_pem))
        server = authority.issue_cert("127.0.0.1", "localhost", *names)
        server.private_key_and_cert_chain_pem.write_to_path(str(made.server_pem))
        client = authority.issue_cert("client@example.org", common_name="client")
        client.private_key_and_cert_chain_pem.write_to_path(str(made.client_pem))
        yield made
