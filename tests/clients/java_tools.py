"""Kafka's own command-line tools, from the jars of the release, as processes with a time limit."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import needs
from tools.oracle.jars import jars

_PATIENCE_S = 90
_SHELL = Path(__file__).parent / "java" / "ToolShell.java"


class Shell:
    """Tools that run one after another in one virtual machine, so that it starts once."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, tool: str, *arguments: str) -> str:
        """Run the class of a tool, and return what it wrote to stdout; it fails the test when the tool fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(tool, *arguments, sep="\t", file=self._process.stdin, flush=True)
        written: list[str] = []
        for line in self._process.stdout:
            if line.startswith("\0"):
                text = "".join(written).strip()
                assert line == "\x000\n", f"{tool} ended with {line[1:].strip()}:\n{text}"
                return text
            written.append(line)
        raise AssertionError(f"the virtual machine ended within {tool}:\n{''.join(written)}")


@contextmanager
def shell() -> Iterator[Shell]:
    """A virtual machine for tools, killed when it has not ended in time."""
    needs.tool("javac")  # A runtime alone does not run a source file.
    command = [needs.tool("java"), "-XX:TieredStopAtLevel=1", "-cp", f"{jars(maven=needs.tool('mvn'))}/*", str(_SHELL)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TZ": "UTC"},
    )
    alarm = threading.Timer(_PATIENCE_S, process.kill)
    alarm.start()
    try:
        with process:
            yield Shell(process)
    finally:
        alarm.cancel()


def run(tool: str, *arguments: str, given: str = "", beside: Sequence[Path] = (), instead: Sequence[Path] = ()) -> str:
    """Run the class of a tool, and return what it wrote to stdout; it fails the test when the tool fails.

    beside: jars that the release's tools do without. instead: jars in place of the release's own.
    """
    classes = ":".join(map(str, instead or (jars(maven=needs.tool("mvn")) / "*", *beside)))
    command = [needs.tool("java"), "-XX:TieredStopAtLevel=1", "-cp", classes]
    done = subprocess.run(
        [*command, tool, *arguments], input=given, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
    )
    assert done.returncode == 0, f"{tool} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
