"""A pseudo-terminal of a given size, with a `kwire` process in it."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """`kwire` with stdin, stdout and stderr on a pseudo-terminal; its output is read as it arrives."""

    def __init__(
        self, *words: str, columns: int = 120, environment: Mapping[str, str] | None = None, stdout: int | None = None
    ) -> None:
        """`stdout`: a file descriptor for the output instead of the terminal."""
        self._master, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        removed = ("COLUMNS", "LINES", "NO_COLOR", "TERM")
        kept = {name: value for name, value in os.environ.items() if name not in removed}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kwire.cli.main", *words],
            stdin=inner,
            stdout=inner if stdout is None else stdout,
            stderr=inner,
            cwd=ROOT,
            env={**kept, "TERM": "xterm-256color", **(environment or {})},
        )
        os.close(inner)
        # A character may arrive in two parts.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = ""

    def read_until(self, expected: str, *, times: int = 1) -> str:
        """Read until the text occurs `times` times; returns all output so far."""
        while self.text.count(expected) < times:
            came = self._read()
            assert came, f"{expected!r} was not printed: {self.text!r}"
        return self.text

    def finish(self) -> tuple[int, str]:
        """The exit code, and all output with plain line ends."""
        while self._read():
            pass
        os.close(self._master)
        return self.process.wait(), self.text.replace("\r\n", "\n")

    def _read(self) -> bool:
        try:
            came = os.read(self._master, 65_536)
        except OSError:
            # No process has the terminal open any more.
            came = b""
        self.text += self._decoder.decode(came)
        return bool(came)


def without_colours(text: str) -> str:
    """The text without escape sequences of colours."""
    return _COLOURS.sub("", text)
