"""Which implementation a process uses, and that it says so."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest

from kwire import accelerator
from kwire.codec_table import Codec
from kwire.package_version import version_line
from kwire.registry import codec_of_name


@pytest.mark.parametrize("value", ["1", "yes"])
def test_kwire_pure_switches_the_extension_off(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("KWIRE_PURE", value)

    assert accelerator.find_native() is None


@pytest.mark.parametrize("value", ["0", ""])
def test_other_values_do_not(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    found = ModuleType("native")
    monkeypatch.setattr(found, "INTERFACE", accelerator.INTERFACE, raising=False)
    monkeypatch.setenv("KWIRE_PURE", value)
    monkeypatch.setattr(accelerator, "import_module", lambda name: found)

    assert accelerator.find_native() is found


def test_an_extension_of_other_sources_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ModuleType("native")
    found.__file__ = "native.so"
    monkeypatch.delenv("KWIRE_PURE", raising=False)
    monkeypatch.setattr(accelerator, "import_module", lambda name: found)

    with pytest.raises(ImportError, match=r"native.so has interface None, kwire needs \d+: .* Install kwire again"):
        accelerator.find_native()


def test_an_extension_that_is_not_built_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.delenv("KWIRE_PURE", raising=False)
    monkeypatch.setattr(accelerator, "import_module", fail)

    assert accelerator.find_native() is None


def test_an_extension_that_cannot_be_loaded_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError("undefined symbol: PyOther", name=name)

    monkeypatch.delenv("KWIRE_PURE", raising=False)
    monkeypatch.setattr(accelerator, "import_module", fail)

    with pytest.raises(ImportError, match="undefined symbol"):
        accelerator.find_native()


def test_a_process_with_kwire_pure_reads_and_writes_by_python_code() -> None:
    code = (
        "import kwire; from kwire.registry import codec_of_name; from kwire.package_version import version_line; "
        "codec = codec_of_name('MetadataRequest'); "
        "message = kwire.decode('MetadataRequest', 12, bytes.fromhex('00010000')); "
        "assert codec.readers is codec.pure_readers and codec.writers is codec.pure_writers; "
        "print(kwire.encode(message, 12).hex(), version_line('kwire'))"
    )
    environment = {**os.environ, "KWIRE_PURE": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)

    assert done.stdout.startswith("00010000 kwire"), done.stderr
    assert done.stdout.endswith("pure Python codec\n")


def test_the_version_says_which_is_in_use() -> None:
    word = "compiled" if accelerator.is_accelerated() else "pure Python"

    assert version_line("kwire").endswith(f", {word} codec")


def test_a_class_of_another_layout_is_read_by_python_code_with_a_warning() -> None:
    if accelerator.NATIVE is None:
        pytest.skip("the accelerator is not built, or KWIRE_PURE is set")

    class Other:
        """Has a dictionary instead of slots."""

        __struct_fields__ = ("unknown_tagged_fields",)

    codec = codec_of_name("MetadataRequest")
    native = accelerator.NATIVE.MessageCodec(
        lambda: (Other, True, 0, (), (), (), "__dict__"), codec.pure_readers[12], codec.pure_writers[12]
    )
    raw = bytes.fromhex("00010000")

    with pytest.warns(RuntimeWarning, match=r"kwire: a message is read and written by Python code: .*Other"):
        message, end = native.read(raw, 0)

    assert (type(message), end, native.is_planned) == (codec.message, 4, False)
    assert native.encode(message) == b"".join(native.write(message)) == raw


def test_a_codec_needs_its_functions() -> None:
    if accelerator.NATIVE is None:
        pytest.skip("the accelerator is not built, or KWIRE_PURE is set")
    with pytest.raises(TypeError):
        accelerator.NATIVE.MessageCodec()
    with pytest.raises(ZeroDivisionError):
        accelerator.NATIVE.MessageCodec(lambda: 1 // 0, len, len).read(b"", 0)
    with pytest.raises(ValueError, match="a description is a tuple"):
        accelerator.NATIVE.MessageCodec(lambda: None, len, len).read(b"", 0)


def test_the_codec_of_a_message_cannot_be_changed() -> None:
    codec: Codec = codec_of_name("MetadataRequest")

    with pytest.raises(AttributeError):
        codec.readers = {}  # type: ignore[misc]
