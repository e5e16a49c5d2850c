"""A certificate authority made on the spot, and files of certificates that it has issued."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import trustme

HOSTS = ("127.0.0.1", "localhost", "login.microsoftonline.com")


@dataclass(frozen=True)
class Certificate:
    """A certificate with its key: two PEM files."""

    chain: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """What a server needs to serve with it."""
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        found.load_cert_chain(self.chain, self.key)
        return found


class Authority:
    """An authority whose own certificate is the file `bundle`, for REQUESTS_CA_BUNDLE."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._ca = folder, trustme.CA()
        self.bundle = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.bundle))

    def issue(self, *hosts: str, expired: bool = False, rsa: bool = False) -> Certificate:
        """A certificate for these hosts. expired: its last day was in 2020. rsa: its key is as Entra ID wants it."""
        end = datetime(2020, 1, 1, tzinfo=UTC) if expired else None
        issued = self._ca.issue_cert(
            *(hosts or HOSTS),
            not_before=datetime(2019, 1, 1, tzinfo=UTC),
            not_after=end,
            key_type=trustme.KeyType.RSA if rsa else trustme.KeyType.ECDSA,
        )
        name = "-".join((*hosts, "expired" if expired else "good"))
        chain, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(key))
        return Certificate(chain, key)
