"""The attributes and texts of errors."""

from __future__ import annotations

import json
import pickle
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

import kwire
import mockbroker
from kwire import errors
from kwire.errors import MissingExtra, SchemaError, Truncated, WireError, install_command


def test_errors_have_path_offset_and_text() -> None:
    cut = Truncated("A.b[2].c", 41, 4, 3)

    assert (cut.path, cut.at, cut.need, cut.have) == ("A.b[2].c", 41, 4, 3)
    assert str(cut) == "A.b[2].c at byte 41: needs 4 bytes, but 3 are left"
    assert isinstance(cut, WireError)
    assert isinstance(cut, ValueError)
    assert str(SchemaError("f.json", "M", "A.B", "reason")) == "f.json: M.A.B: reason"
    assert install_command("spark") in str(MissingExtra("A report", "spark"))


def _install(monkeypatch: pytest.MonkeyPatch, direct_url: object) -> None:
    """Let the package be installed with this direct_url.json; None: without one."""
    text = None if direct_url is None else json.dumps(direct_url)
    monkeypatch.setattr(metadata.Distribution, "read_text", lambda *_: text, raising=False)
    monkeypatch.setattr(metadata.PathDistribution, "read_text", lambda *_: text)


def test_the_command_for_an_extra_names_the_checkout_that_was_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "a checkout"
    folder.mkdir()
    _install(monkeypatch, {"url": folder.as_uri(), "dir_info": {}})
    assert install_command("control") == f"pip install '{folder}[control]'"
    _install(monkeypatch, {"url": folder.as_uri(), "dir_info": {"editable": True}})
    assert install_command("control") == f"pip install -e '{folder}[control]'"


@pytest.mark.parametrize("direct_url", [None, {"url": "https://example.test/kwire.whl"}, {"url": "file:///gone"}])
def test_the_command_for_an_extra_names_the_package_where_there_is_no_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, direct_url: object
) -> None:
    _install(monkeypatch, direct_url)
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "site-packages" / "kwire" / "errors.py"))

    assert install_command("control") == "pip install 'kwire[control]'"


@pytest.mark.parametrize("package", [kwire, mockbroker])
def test_public_exceptions_have_the_name_by_which_they_are_imported(package: ModuleType) -> None:
    public = [getattr(package, name) for name in package.__all__]
    exceptions = [value for value in public if isinstance(value, type) and issubclass(value, BaseException)]

    assert len(exceptions) > 3
    assert {value.__module__ for value in exceptions} == {package.__name__}
    for value in exceptions:
        assert pickle.loads(pickle.dumps(value)) is value
