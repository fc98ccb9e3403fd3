"""A certificate authority, and the files with certificates for brokers on this machine and for clients."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kwire.errors import MissingExtra
from mockbroker.config.keys import ConfigError
from mockbroker.security.certificate_files import read_own_file, write_own_file

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_DAY = datetime.timedelta(days=1)
_VALID_DAYS = 30
#: Of an authority that is kept in a data directory.
_KEPT_DAYS = 3650
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_AUTHORITY_NAME = "mockbroker CA"


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


class Validity(NamedTuple):
    """Since when and until when a certificate is valid, in days from now."""

    from_days: int = -1
    to_days: int = _VALID_DAYS


VALID, EXPIRED, NOT_YET_VALID = Validity(), Validity(-_VALID_DAYS, -1), Validity(1, _VALID_DAYS)


class KeyPair(NamedTuple):
    """A private key with its certificate, in PEM."""

    key: bytes
    certificate: bytes

    def __repr__(self) -> str:
        return "KeyPair(***)"


class Authority:
    """A certificate authority. key: its private key."""

    def __init__(self, key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, name: str = _AUTHORITY_NAME, *, days: int = _VALID_DAYS) -> Authority:
        """A new one. Raises: MissingExtra without the package cryptography."""
        key = _new_key()
        return cls(key, _sign(name, key, key, issuer=_subject(name), validity=Validity(to_days=days), hosts=None))

    @property
    def pem(self) -> bytes:
        """Its certificate."""
        return _certificate_text(self._certificate)

    @property
    def key_pem(self) -> bytes:
        """Its private key."""
        return _key_text(self._key)

    @property
    def is_ending(self) -> bool:
        """Whether it ends before the certificates that it signs now."""
        return self._certificate.not_valid_after_utc < datetime.datetime.now(datetime.UTC) + _VALID_DAYS * _DAY

    def issue(self, name: str, hosts: Iterable[str], validity: Validity = VALID) -> KeyPair:
        """A new key with a certificate. name: the CN of its subject. Raises: ValueError for a host that is no name."""
        key = _new_key()
        signed = _sign(name, key, self._key, issuer=self._certificate.subject, validity=validity, hosts=hosts)
        return KeyPair(_key_text(key), _certificate_text(signed))


def create_certificates(folder: Path, *, host: str | None = None) -> Certificates:
    """Write new keys and certificates of a new authority into a folder. host: of the brokers, besides this machine's.

    Raises: MissingExtra without the package cryptography.
    """
    return write_certificates(folder, Authority.create(), host=host)


def certificate_paths(folder: Path) -> Certificates:
    """Where the files of a folder are."""
    names = ("ca.pem", "broker.pem", "client.pem", "client.key", "client-store.pem")
    return Certificates(*(folder / name for name in names))


def write_certificates(folder: Path, authority: Authority, *, host: str | None) -> Certificates:
    """Write certificates of an authority for brokers and a client. Raises: OSError."""
    paths = certificate_paths(folder)
    broker = authority.issue("localhost", broker_hosts(host))
    client = authority.issue("client", broker_hosts(None))
    texts = (
        authority.pem,
        broker.key + broker.certificate,
        client.certificate,
        client.key,
        client.key + client.certificate,
    )
    for path, text in zip(paths, texts, strict=True):
        write_own_file(path, text)
    return paths


def keep_authority(folder: Path) -> Authority:
    """The authority that a folder keeps, a new one if it has none, or one that is about to end.

    Raises: ConfigError for files that cannot be used.
    """
    certificate_path, key_path = folder / "ca.pem", folder / "ca.key"
    try:
        certificate, key = read_own_file(certificate_path), read_own_file(key_path)
        if certificate is not None and key is not None:
            kept = _load_authority(certificate, key)
            if not kept.is_ending:
                return kept
        made = Authority.create(days=_KEPT_DAYS)
        write_own_file(key_path, made.key_pem)
        write_own_file(certificate_path, made.pem)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{folder}: the authority cannot be used: {error}; delete the folder for a new one"
        ) from error
    return made


def broker_hosts(host: str | None) -> tuple[str, ...]:
    """The names of the brokers: those of this machine, and another one."""
    return (*_LOCAL_HOSTS, *([host] if host else []))


def _load_authority(certificate: bytes, key: bytes) -> Authority:
    """Raises: ValueError, TypeError for anything but a certificate with its key on an elliptic curve."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    loaded, private = x509.load_pem_x509_certificate(certificate), load_pem_private_key(key, None)
    if not isinstance(private, EllipticCurvePrivateKey) or private.public_key() != loaded.public_key():
        raise ValueError("ca.key is not the key of ca.pem")
    return Authority(private, loaded)


def check_package() -> None:
    """Raises: MissingExtra without the package cryptography."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise MissingExtra("tls=auto", "tls") from error


def _new_key() -> EllipticCurvePrivateKey:
    check_package()
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _subject(name: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _sign(
    name: str,
    key: EllipticCurvePrivateKey,
    signing_key: EllipticCurvePrivateKey,
    *,
    issuer: x509.Name,
    validity: Validity,
    hosts: Iterable[str] | None,
) -> x509.Certificate:
    """A signed certificate. hosts: None for that of an authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    now, is_authority = datetime.datetime.now(datetime.UTC), hosts is None
    names = [_general_name(text) for text in (_LOCAL_HOSTS if hosts is None else hosts)]
    identifier = x509.SubjectKeyIdentifier.from_public_key(signing_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + validity.from_days * _DAY)
        .not_valid_after(now + validity.to_days * _DAY)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
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
