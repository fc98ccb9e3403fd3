"""Stores of Java that `keytool` makes for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support import needs

STORE_PASSWORD, KEY_PASSWORD = "store-secret", "key-secret"
_TIMEOUT_S = 60


def keytool(store: Path, *arguments: str, password: str = STORE_PASSWORD, kind: str = "JKS") -> None:
    """Run `keytool` with a store. The test is skipped without it."""
    command = [needs.tool("keytool"), *arguments, "-keystore", str(store), "-storetype", kind, "-storepass", password]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout


def add_key(
    store: Path, alias: str, *, algorithm: str = "EC", key_password: str = KEY_PASSWORD, kind: str = "JKS"
) -> None:
    """Add a key with a self-signed certificate for 127.0.0.1, whose subject is CN and the alias."""
    size = {"EC": ("-groupname", "secp256r1"), "RSA": ("-keysize", "2048")}[algorithm]
    key = ("-genkeypair", "-alias", alias, "-dname", f"CN={alias}", "-keyalg", algorithm, *size, "-validity", "2")
    keytool(store, *key, "-ext", "san=ip:127.0.0.1", "-keypass", key_password, kind=kind)


def export_certificate(store: Path, alias: str) -> bytes:
    """The certificate of an alias, DER."""
    target = store.with_suffix(f".{alias}.der")
    keytool(store, "-exportcert", "-alias", alias, "-file", str(target))
    return target.read_bytes()


def add_trusted(store: Path, alias: str, certificate: bytes) -> None:
    """Add a trusted certificate, DER."""
    source = store.with_suffix(f".{alias}.in")
    source.write_bytes(certificate)
    keytool(store, "-importcert", "-noprompt", "-alias", alias, "-file", str(source))
