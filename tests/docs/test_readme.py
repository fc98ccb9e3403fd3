"""The code on the README runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
CAPTURE = Path(__file__).parents[1] / "captures" / "small_share.pcap"


def _run(*command: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=170, cwd=cwd, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_example_test_passes(tmp_path: Path) -> None:
    (block,) = (block for block in BLOCKS if "def test_" in block)
    (tmp_path / "test_example.py").write_text(block, encoding="utf-8")

    assert "1 passed" in _run("-m", "pytest", "-q", "test_example.py", cwd=tmp_path)


@pytest.mark.parametrize("block", [block for block in BLOCKS if "def test_" not in block and "spark" not in block])
def test_an_example_runs(block: str, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(block, encoding="utf-8")

    assert _run("example.py", cwd=tmp_path)


@pytest.mark.spark
def test_the_spark_example_runs(tmp_path: Path) -> None:
    (block,) = (block for block in BLOCKS if "spark" in block)
    (tmp_path / "traffic.pcapng").write_bytes(CAPTURE.read_bytes())
    (tmp_path / "example.py").write_text(block, encoding="utf-8")

    assert "ShareFetch" in _run("example.py", cwd=tmp_path)


def test_every_command_on_the_page_is_one_that_the_programs_know() -> None:
    text = README.read_text(encoding="utf-8")
    known = subprocess.run(
        [sys.executable, "-m", "kwire.cli.main", "--help"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    used = set(re.findall(r"^    kwire (\w+)", text, re.MULTILINE))

    assert used
    assert {command for command in used if command not in known} == set()
