"""Self-signed certificates for listeners, made for a test, in files of both kinds."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

STORE_PASSWORD = "store-secret"
_TIMEOUT_S = 10
_DAY = datetime.timedelta(days=1)


class SelfSigned(NamedTuple):
    """A key with its certificate. pem, pkcs12: files with both. certificate: DER."""

    pem: Path
    pkcs12: Path
    certificate: bytes


def create_self_signed(
    folder: Path, name: str, *, subject: str = "localhost", hosts: tuple[str, ...] = ("127.0.0.1",), days: int = 1
) -> SelfSigned:
    """Write the files of a new key. name: of the files. days: until its end, which may have been."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject_name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)])
    now = datetime.datetime.now(datetime.UTC)
    addresses = [x509.IPAddress(ipaddress.ip_address(host)) for host in hosts]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject_name)
        .issuer_name(subject_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 10 * _DAY)
        .not_valid_after(now + days * _DAY)
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    paths = folder / f"{name}.pem", folder / f"{name}.p12"
    key_pem = key.private_bytes(encoding, form, serialization.NoEncryption())
    paths[0].write_bytes(key_pem + made.public_bytes(encoding))
    locked = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    paths[1].write_bytes(pkcs12.serialize_key_and_certificates(b"broker", key, made, None, locked))
    return SelfSigned(*paths, made.public_bytes(serialization.Encoding.DER))


def fetch_certificate(address: str) -> bytes:
    """The certificate, DER, that the server at HOST:PORT presents."""
    host, port = address.rsplit(":", 1)
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((host, int(port)), timeout=_TIMEOUT_S))
