"""Certificates that the strictest clients accept."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from mockbroker import ConfigError
from mockbroker.security.certificates import Authority, create_certificates, keep_authority
from mockbroker.security.client_security import ClientSecurity


def shake_hands(client: ssl.SSLContext, broker: ssl.SSLContext, host: str) -> None:
    """A TLS handshake in memory. Raises: ssl.SSLError."""
    to_client, to_broker = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_broker, server_hostname=host),
        broker.wrap_bio(to_broker, to_client, server_side=True),
    ]
    for _ in range(4):  # Each round answers the other side; TLS 1.3 needs three.
        for side in list(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                continue
    assert sides == []


def test_a_client_and_a_broker_that_check_strictly_accept_each_other(tmp_path: Path) -> None:
    """As Python's contexts do since 3.13."""
    made = create_certificates(tmp_path, host="kafka.test")
    client = ssl.create_default_context(cafile=made.authority)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.load_cert_chain(made.client, made.client_key)
    broker = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=made.authority)
    broker.verify_flags |= ssl.VERIFY_X509_STRICT
    broker.verify_mode = ssl.CERT_REQUIRED
    broker.load_cert_chain(made.broker)

    for host in ("localhost", "127.0.0.1", "::1", "kafka.test"):
        shake_hands(client, broker, host)


def _kept(folder: Path) -> bytes:
    return keep_authority(folder).pem


def test_a_folder_keeps_its_authority_for_its_owner_only(tmp_path: Path) -> None:
    first = _kept(tmp_path)

    assert _kept(tmp_path) == first == (tmp_path / "ca.pem").read_bytes()
    assert (tmp_path / "ca.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"damaged", Authority.create().key_pem])
def test_a_key_that_does_not_fit_is_refused_with_its_folder(tmp_path: Path, content: bytes) -> None:
    _kept(tmp_path)
    (tmp_path / "ca.key").write_bytes(content)

    with pytest.raises(ConfigError, match=r"the authority cannot be used: .*; delete the folder") as refused:
        _kept(tmp_path)
    assert str(tmp_path) in str(refused.value)


def test_an_authority_that_is_about_to_end_is_replaced(tmp_path: Path) -> None:
    ending = Authority.create(days=10)
    (tmp_path / "ca.key").write_bytes(ending.key_pem)
    (tmp_path / "ca.pem").write_bytes(ending.pem)

    assert _kept(tmp_path) != ending.pem
    assert not keep_authority(tmp_path).is_ending


@pytest.mark.parametrize("name", ["ca.key", "ca.pem"])
def test_no_link_is_followed(tmp_path: Path, name: str) -> None:
    folder, elsewhere = tmp_path / "tls", tmp_path / "elsewhere"
    folder.mkdir()
    _kept(folder)
    (folder / name).rename(elsewhere)
    (folder / name).symlink_to(elsewhere)

    with pytest.raises(ConfigError, match="cannot be used"):
        _kept(folder)


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tls").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigError, match="symbolic link"):
        ClientSecurity(tls="auto", kept_folder=tmp_path / "tls").create_files()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_files_that_are_replaced_are_not_written_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / "broker.pem").symlink_to(victim)
    (tmp_path / "client.pem.new").symlink_to(victim)
    create_certificates(tmp_path)

    assert victim.read_text() == "kept"
    assert not (tmp_path / "broker.pem").is_symlink()
