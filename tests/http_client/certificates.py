"""An authority for one test, and what it vouches for."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

DAY = timedelta(days=1)


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


class Authority:
    """Signs certificates; whoever is given ``path`` trusts them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = named("an authority of the tests")
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.path = folder / f"authority-{id(self)}.pem"
        self.path.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def server(self, *names: str, until: timedelta = DAY) -> ssl.SSLContext:
        """What a server needs to be one of these names."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(named(names[0]))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * DAY)
            .not_valid_after(now + until)
            .add_extension(x509.SubjectAlternativeName([alternative(one) for one in names]), False)
            .sign(self._key, hashes.SHA256())
        )
        path = self._folder / f"server-{id(key)}.pem"
        path.write_bytes(
            made.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
