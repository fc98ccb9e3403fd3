"""JKS stores that `keytool` made: keys, certificates, passwords, and damaged files."""

from __future__ import annotations

import hashlib
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_der_private_key
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.security.java_key_store import InvalidKeyStore, is_java_key_store, read_java_key_store
from tests.support.java_stores import KEY_PASSWORD, STORE_PASSWORD, add_key, add_trusted, export_certificate

pytestmark = pytest.mark.slow

_PUBLIC = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two keys and a trusted certificate."""
    path = tmp_path_factory.mktemp("stores") / "store.jks"
    add_key(path, "broker", algorithm="RSA")
    add_key(path, "second")
    other = path.with_name("other.jks")
    add_key(other, "authority")
    add_trusted(path, "trusted", export_certificate(other, "authority"))
    return path


def _seal(content: bytes, password: str = STORE_PASSWORD) -> bytes:
    """A store with a correct digest."""
    return content + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + content).digest()


def test_keys_belong_to_their_certificates(store: Path) -> None:
    content = read_java_key_store(store.read_bytes(), STORE_PASSWORD)

    assert sorted(key.alias for key in content.keys) == ["broker", "second"]
    for entry in content.keys:
        key = load_der_private_key(entry.decrypt(KEY_PASSWORD), None)
        certificate = x509.load_der_x509_certificate(entry.certificates[0])
        assert key.public_key().public_bytes(*_PUBLIC) == certificate.public_key().public_bytes(*_PUBLIC)
        assert certificate.subject.rfc4514_string() == f"CN={entry.alias}"
        assert repr(entry) == f"PrivateKeyEntry({entry.alias!r}, ***)"


def test_trusted_certificates_and_those_of_keys_are_anchors(store: Path) -> None:
    content = read_java_key_store(store.read_bytes(), STORE_PASSWORD)
    subjects = {x509.load_der_x509_certificate(data).subject.rfc4514_string() for data in content.anchors}

    assert [alias for alias, _ in content.trusted] == ["trusted"]
    assert subjects == {"CN=authority", "CN=broker", "CN=second"}


def test_without_a_password_the_integrity_is_not_checked(store: Path) -> None:
    data = bytearray(store.read_bytes())
    data[-1] ^= 1

    assert len(read_java_key_store(bytes(data), None).keys) == 2
    with pytest.raises(InvalidKeyStore, match="a wrong password, or a damaged store"):
        read_java_key_store(bytes(data), STORE_PASSWORD)


@pytest.mark.parametrize("password", ["", "store-secre", "store-secret ", "\ud800"])
def test_a_wrong_password_is_refused_and_not_shown(store: Path, password: str) -> None:
    data = store.read_bytes()
    with pytest.raises(InvalidKeyStore, match="a wrong password, or a damaged store"):
        read_java_key_store(data, password)

    [first, _] = read_java_key_store(data, STORE_PASSWORD).keys
    with pytest.raises(InvalidKeyStore, match=f"a wrong password of the key '{first.alias}'") as refused:
        first.decrypt(password)
    assert STORE_PASSWORD not in str(refused.value)


def test_a_password_may_have_any_characters(tmp_path: Path) -> None:
    path = tmp_path / "store.jks"
    add_key(path, "broker", key_password="schlüssel-€")
    [entry] = read_java_key_store(path.read_bytes(), STORE_PASSWORD).keys

    assert load_der_private_key(entry.decrypt("schlüssel-€"), None)


def test_a_jceks_store_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "store.jceks"
    add_key(path, "broker", kind="JCEKS")
    data = path.read_bytes()

    assert is_java_key_store(data)
    with pytest.raises(
        InvalidKeyStore, match="JCEKS stores are not supported; `keytool -importkeystore` converts them"
    ):
        read_java_key_store(data, STORE_PASSWORD)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a JKS store"),
        (b"\xfe\xed\xfe\xed", "cut off"),
        (struct.pack(">III", 0xFEEDFEED, 3, 0), "version 3"),
        (struct.pack(">III", 0xFEEDFEED, 2, 1), "cut off: 4 bytes are missing"),
        (struct.pack(">III", 0xFEEDFEED, 2, 0) + b"x", "1 bytes after the last entry"),
        (struct.pack(">IIIIH1sQ", 0xFEEDFEED, 2, 1, 3, 1, b"a", 0), "entries of the type 3"),
        (struct.pack(">IIIIH1sQH3s", 0xFEEDFEED, 2, 1, 2, 1, b"a", 0, 3, b"PGP"), "certificates of the type 'PGP'"),
        (struct.pack(">IIIIH1sQI", 0xFEEDFEED, 2, 1, 1, 1, b"a", 0, 2**32 - 1), "cut off: 4294967295 bytes"),
        (struct.pack(">IIIIH1sQII", 0xFEEDFEED, 2, 1, 1, 1, b"a", 0, 0, 2**32 - 1), "cut off"),
    ],
)
def test_a_damaged_store_is_refused_with_its_reason(content: bytes, reason: str) -> None:
    with pytest.raises(InvalidKeyStore, match=reason):
        read_java_key_store(_seal(content) if content[4:] else content, STORE_PASSWORD)


def test_certificates_of_version_1_have_no_type() -> None:
    content = struct.pack(">IIIIH1sQI3s", 0xFEEDFEED, 1, 1, 2, 1, b"a", 0, 3, b"DER")

    assert read_java_key_store(_seal(content), STORE_PASSWORD).trusted == (("a", b"DER"),)


@given(data=st.data())
def test_any_change_of_a_store_is_found(store: Path, data: st.DataObject) -> None:
    content = bytearray(store.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))

    with pytest.raises(InvalidKeyStore):
        read_java_key_store(bytes(content), STORE_PASSWORD)


@given(data=st.data())
def test_changed_bytes_below_a_correct_digest_are_read_or_refused(store: Path, data: st.DataObject) -> None:
    content = bytearray(store.read_bytes()[:-20])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(0, len(content)))])

    with suppress(InvalidKeyStore):
        for entry in read_java_key_store(_seal(cut), STORE_PASSWORD).keys:
            assert entry.decrypt(KEY_PASSWORD)
