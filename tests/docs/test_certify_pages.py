"""The pages on certification: the first driver on its page is complete; names and options are current."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from mockbroker.certify import command as certify
from mockbroker.certify.driver.methods import METHODS
from mockbroker.certify.driver.names import CAPABILITIES, LOCAL_ERRORS
from mockbroker.certify.driver.settings import SETTINGS
from mockbroker.certify.verdicts import Verdict

ROOT = Path(__file__).parents[2]


def _text(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


@pytest.fixture
def first_driver(tmp_path: Path) -> str:
    """The command of the driver on the page."""
    [code] = re.findall(r"```python\n(.*?)```", _text("certify-drivers.md"), re.DOTALL)
    (tmp_path / "driver.py").write_text(code, encoding="utf-8")
    return f"{sys.executable} {tmp_path / 'driver.py'}"


@pytest.mark.client
def test_the_first_driver_passes_its_check(first_driver: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert certify.main(["--check-driver", "--driver", first_driver]) == 0, capsys.readouterr().out

    shown = capsys.readouterr().out.splitlines()
    block = re.findall(r"\$ mockbroker certify --check-driver.*?\n(.*?)```", _text("certify-drivers.md"), re.DOTALL)[0]
    example = [line for line in block.splitlines() if line.startswith(("ok", "left out"))]
    assert len(example) >= 6
    assert set(map(_without_version, example)) <= set(map(_without_version, shown))


def _without_version(line: str) -> str:
    return re.sub(r"\d+(\.\d+)+", "N", line)


@pytest.mark.client
def test_the_first_driver_plays_cases(first_driver: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--driver", first_driver, "--cases", "producing.retries.not-leader", "-o", str(tmp_path / "out")]

    assert certify.main(words) == 0
    assert "producing  1 OK" in capsys.readouterr().out


def test_the_page_for_drivers_names_everything_of_the_protocol() -> None:
    names = set(re.findall(r"`\.?([A-Za-z_0-9.]+)`", _text("certify-drivers.md")))

    assert set(METHODS) - names == set()
    assert SETTINGS - names == set()
    assert LOCAL_ERRORS - names == set()
    codecs = {f"compression.{codec}" for codec in ("gzip", "snappy", "lz4", "zstd")}
    assert CAPABILITIES - codecs - names == set()


def test_the_page_of_the_command_names_its_options_and_verdicts() -> None:
    options = set(re.findall(r"--[a-z-]+", certify.create_parser().format_help())) - {"--help", "--output"}
    text = _text("certify.md")

    assert options - set(re.findall(r"--[a-z-]+", text)) == set()
    assert [verdict for verdict in Verdict if not re.search(rf"^\| {verdict} \|", text, re.MULTILINE)] == []
