"""The checksum of record batches: where its function comes from."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kwire.records import checksum

#: The check value of CRC-32C in the catalogue of CRC algorithms, for the digits 1 to 9.
_DIGITS, _CHECK = b"123456789", 0xE3069283

_FIRST_USE = """
import sys
from kwire.records import checksum
before = set(sys.modules)
print(checksum.crc32c(b"123456789"), *set(sys.modules) - before)
"""
_AFTER_THE_PACKAGE = "import crc32c\nfrom kwire.records import checksum\nprint(checksum.crc32c is crc32c.crc32c)"


def _run(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def test_the_first_checksum_loads_nothing_but_an_extension() -> None:
    value, *loaded = _run(_FIRST_USE)

    assert int(value) == _CHECK
    assert set(loaded) <= {"_crc32c"}


def test_a_package_that_is_loaded_already_is_used() -> None:
    assert _run(_AFTER_THE_PACKAGE) == ["True"]


def test_without_an_extension_of_its_own_the_package_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum, "_EXTENSION", "_no_such_extension")
    monkeypatch.delitem(sys.modules, "crc32c", raising=False)
    monkeypatch.delitem(vars(checksum), "crc32c", raising=False)

    assert checksum.crc32c(_DIGITS) == _CHECK
    assert "crc32c" in sys.modules
