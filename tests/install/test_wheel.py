"""The wheel, alone in a fresh environment: what a user gets from `pip install kwire`, without a checkout in sight."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kwire import Client
from kwire.messages.metadata import MetadataRequest

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "tests" / "captures" / "small_share.pcap"
CORE = {"kwire", "msgspec", "construct", "crc32c", "lz4", "zstandard", "cramjam", "xxhash", "google-re2"}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of an environment that holds the wheel and what it requires."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = _build_wheel(folder, {})
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder / "env"))
    binaries = folder / "env" / "bin"
    # Compiled are only the modules that the commands import.
    _run(*_pip(binaries), "install", "--disable-pip-version-check", "--no-compile", str(wheel), cwd=folder)
    return binaries


def _pip(binaries: Path) -> list[str]:
    """The command of pip for the environment, which has none of its own: installing it takes longer than the rest."""
    return [sys.executable, "-m", "pip", "--python", str(binaries / "python")]


def _build_wheel(folder: Path, environment: dict[str, str]) -> Path:
    """Built outside the checkout: what an earlier build left behind must not get into this wheel."""
    elsewhere = folder / "setup.cfg"
    elsewhere.write_text(f"[build]\nbuild_base = {folder / 'build'}\n", encoding="utf-8")
    command = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    _run(sys.executable, "-m", "pip", *command, environment={"DIST_EXTRA_CONFIG": str(elsewhere), **environment})
    (wheel,) = folder.glob("kwire-*.whl")
    return wheel


def _run(*command: str, cwd: Path | None = None, environment: dict[str, str] | None = None) -> str:
    env = {**os.environ, **(environment or {})}
    env.pop("PYTHONPATH", None)  # Packages found there would pass for installed ones.
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd, env=env, check=False)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_nothing_but_the_core_comes_along(binaries: Path, tmp_path: Path) -> None:
    listed = _run(*_pip(binaries), "list", "--format=freeze", cwd=tmp_path)

    assert {line.split("==")[0] for line in listed.splitlines()} <= CORE


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_with_a_compiler_the_codec_is_compiled(binaries: Path, tmp_path: Path) -> None:
    text = _run(str(binaries / "kwire"), "--version", cwd=tmp_path, environment={"KWIRE_PURE": "0"})

    assert text.endswith(", compiled codec\n")


def test_without_a_compiler_the_codec_is_pure_python(tmp_path: Path) -> None:
    wheel = _build_wheel(tmp_path, {"CC": str(tmp_path / "no-compiler"), "KWIRE_PURE": "0"})
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "packages")
    code = (
        "import sys; sys.path.insert(0, 'packages'); import kwire; from kwire.package_version import version_line; "
        "print(kwire.__file__, kwire.decode('MetadataRequest', 12, bytes.fromhex('00010000')), version_line('kwire'))"
    )
    text = _run(sys.executable, "-P", "-c", code, cwd=tmp_path, environment={"KWIRE_PURE": "0"})

    assert text.startswith("packages") or str(tmp_path) in text
    assert "allow_auto_topic_creation=True" in text
    assert text.endswith(", pure Python codec\n")


def test_it_describes_messages(binaries: Path, tmp_path: Path) -> None:
    text = _run(str(binaries / "kwire"), "describe", "ShareFetchRequest", cwd=tmp_path)

    assert "ShareSessionEpoch" in text


def test_it_has_the_drafts_of_kip_932_too(binaries: Path, tmp_path: Path) -> None:
    text = _run(str(binaries / "kwire"), "describe", "ShareDeltaKey", "--edition", "kip932-r3", cwd=tmp_path)

    assert "DeltaIndex" in text


def test_decoding_a_capture_names_the_command_that_installs_what_it_needs(binaries: Path, tmp_path: Path) -> None:
    command = [str(binaries / "kwire"), "decode", "--format", "tree", str(CAPTURE)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)

    assert done.returncode == 2
    assert "kwire[captures]" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_it_has_the_files_of_the_live_page(binaries: Path, tmp_path: Path) -> None:
    code = "import mockbroker, os; print(*os.listdir(os.path.dirname(mockbroker.__file__) + '/control/page'))"
    installed = _run(str(binaries / "python"), "-c", code, cwd=tmp_path).split()

    assert sorted(installed) == sorted(path.name for path in (ROOT / "mockbroker" / "control" / "page").iterdir())


def test_it_serves(binaries: Path, tmp_path: Path) -> None:
    command = [str(binaries / "mockbroker"), "--port", "0", "--topic", "orders:2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert process.stdout is not None
        with Client(process.stdout.readline().strip()) as client:
            names = [topic.name for topic in client.send(MetadataRequest(topics=None)).topics]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=15)
    finally:
        process.kill()
        process.communicate()

    assert names == ["orders"]
    assert process.returncode == 0


def test_what_needs_an_extra_names_the_command_that_installs_it(binaries: Path, tmp_path: Path) -> None:
    code = f"import kwire; kwire.read_capture({str(CAPTURE)!r})"
    done = subprocess.run(
        [str(binaries / "python"), "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )

    assert done.returncode != 0
    assert "pip install" in done.stderr
    assert "kwire[captures]" in done.stderr
