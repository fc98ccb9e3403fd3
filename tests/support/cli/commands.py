"""Runs of `kwire` in this process."""

from __future__ import annotations

import io

import pytest

from kwire.cli.main import main

Capsys = pytest.CaptureFixture[str]
#: Exit code, lines of stdout, and stderr.
Shown = tuple[int, list[str], str]


class TerminalStream(io.StringIO):
    """A stream that reports that it is a terminal."""

    def isatty(self) -> bool:
        return True


def run_kwire(capsys: Capsys, *words: object) -> Shown:
    """Run a command with these arguments."""
    code = main([*map(str, words)])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err
