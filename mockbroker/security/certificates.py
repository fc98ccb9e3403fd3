"""A certificate authority with certificates for brokers on this machine and for one client, made for a test."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kwire.errors import MissingExtra

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_DAY = datetime.timedelta(days=1)
_VALID_DAYS = 30


class Certificates(NamedTuple):
    """The paths of PEM files.

    authority: the certificate of the authority, which clients trust. broker: key and certificate of all brokers, valid
    for localhost, 127.0.0.1, ::1 and the host that was given. client, client_key: a certificate of User:CN=client, for
    brokers that request one; client_store: both in one file.
    """

    authority: Path
    broker: Path
    client: Path
    client_key: Path
    client_store: Path


def create_certificates(folder: Path, *, host: str | None = None) -> Certificates:
    """Write new keys and certificates into a folder. host: of the brokers, besides the names of this machine.

    Raises: MissingExtra without the package cryptography.
    """
    try:
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise MissingExtra("tls=auto", "tls") from error
    authority_key, broker_key, client_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    authority = _sign("mockbroker CA", authority_key, authority_key, issuer="mockbroker CA", is_authority=True)
    broker = _sign("localhost", broker_key, authority_key, issuer="mockbroker CA", host=host)
    client = _sign("client", client_key, authority_key, issuer="mockbroker CA")
    texts = {
        "ca.pem": _certificate_text(authority),
        "broker.pem": _key_text(broker_key) + _certificate_text(broker),
        "client.pem": _certificate_text(client),
        "client.key": _key_text(client_key),
        "client-store.pem": _key_text(client_key) + _certificate_text(client),
    }
    for name, text in texts.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_bytes(text)
    return Certificates(*(folder / name for name in texts))


def _sign(
    name: str,
    key: EllipticCurvePrivateKey,
    signing_key: EllipticCurvePrivateKey,
    *,
    issuer: str,
    is_authority: bool = False,
    host: str | None = None,
) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    def distinguished(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    now = datetime.datetime.now(datetime.UTC)
    hosts = [_general_name(text) for text in ("localhost", "127.0.0.1", "::1", *([host] if host else []))]
    identifier = x509.SubjectKeyIdentifier.from_public_key(signing_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(distinguished(name))
        .issuer_name(distinguished(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _VALID_DAYS * _DAY)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(_key_usage(is_authority=is_authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier(identifier.digest, None, None), critical=False)
        .sign(signing_key, hashes.SHA256())
    )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    """What the key may do. Python 3.13 and other strict clients refuse an authority without it (RFC 5280, 4.2.1.3)."""
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate_text(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_text(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
