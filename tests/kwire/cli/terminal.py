"""A terminal of a chosen size, with a process in it."""

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
    """`kwire` with its output, errors and input in a pseudo-terminal; what it writes is read as it comes."""

    def __init__(
        self, *words: str, columns: int = 120, environment: Mapping[str, str] | None = None, stdout: int | None = None
    ) -> None:
        """`stdout`: where its output goes instead."""
        self._master, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        kept = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR", "TERM")
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kwire.cli.main", *words],
            stdin=inner,
            stdout=inner if stdout is None else stdout,
            stderr=inner,
            cwd=ROOT,
            env={**kept, "TERM": "xterm-256color", **(environment or {})},
        )
        os.close(inner)
        # A character may come in two pieces.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = ""

    def read_until(self, wanted: str, *, times: int = 1) -> str:
        """All that has come, as soon as the wanted text is in it so many times."""
        while self.text.count(wanted) < times:
            came = self._read()
            assert came, f"{wanted!r} did not come: {self.text!r}"
        return self.text

    def finish(self) -> tuple[int, str]:
        """The exit code, and all that came; line ends are plain."""
        while self._read():
            pass
        os.close(self._master)
        return self.process.wait(), self.text.replace("\r\n", "\n")

    def _read(self) -> bool:
        try:
            came = os.read(self._master, 65_536)
        except OSError:
            # The last process that had the terminal open is gone.
            came = b""
        self.text += self._decoder.decode(came)
        return bool(came)


def without_colours(text: str) -> str:
    """The text as a pipe would have it."""
    return _COLOURS.sub("", text)
