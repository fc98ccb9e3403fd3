"""Completion in bash, with the functions that argcomplete defines there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import tool

pytest.importorskip("argcomplete", reason="needs argcomplete, which is not installed")

ROOT = Path(__file__).parents[2]
#: Defines the completion of a command, and calls it as bash does when TAB is pressed after the line.
SCRIPT = """\
eval "$(register-python-argcomplete "$1")"
COMP_LINE="$2" COMP_POINT=${#2} COMP_TYPE=9 COMP_WORDS=($2) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_python_argcomplete "$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completions(line: str) -> list[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [tool("bash"), "-c", SCRIPT, "bash", line.split(maxsplit=1)[0], line]
    done = subprocess.run(
        command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60, cwd=ROOT, check=True
    )
    return [word.strip() for word in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kwire de", ["decode", "describe"]),
        ("kwire decode --format js", ["jsonl"]),
        ("mockbroker --cont", ["--control", "--control-token", "--controller-port"]),
        ("mockbroker pro", ["proxy"]),
        ("mockbroker proxy --upstream-", ["--upstream-tls-ca"]),
    ],
)
def test_bash_completes_commands_options_and_values(line: str, expected: list[str]) -> None:
    assert sorted(completions(line)) == expected
