"""`import kwire`: every public name exists, and its module is imported on first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kwire

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", kwire.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(kwire, name).__name__ == name


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        getattr(kwire, "nonsense")  # noqa: B009 - a type checker rejects the attribute.


def test_the_public_names_are_listed() -> None:
    assert set(kwire.__all__) <= set(dir(kwire))


def test_importing_the_package_loads_none_of_its_parts() -> None:
    code = (
        "import sys, kwire;"
        "found = [name for name in sys.modules if name.startswith(('kwire.', 'msgspec'))];"
        "sys.exit(str(found) if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)

    assert (done.stderr, done.returncode) == ("", 0)
