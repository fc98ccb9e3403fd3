"""Running the projects of `examples` as their users do, each within a time limit and without anything left behind."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
#: How Maven, Go, npm and cargo report that a registry cannot be reached.
_OFFLINE = re.compile(
    r"Could not transfer artifact|UnknownHostException|no such host|dial tcp|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|"
    r"ETIMEDOUT|Could not resolve host|Couldn't resolve host|failed to download|network error"
)
#: Without the optimizing compiler a build by Maven takes half of the CPU time.
_MAVEN_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Processes:
    """A command `mockbroker` that records its process ids in a file."""

    def __init__(self, folder: Path) -> None:
        self._pids = folder / "pids"
        self.command = folder / "mockbroker"
        broker = shlex.join([sys.executable, "-m", "mockbroker.cli"])
        script = f'#!/bin/sh\necho $$ >> {shlex.quote(str(self._pids))}\nexec {broker} "$@"\n'
        self.command.write_text(script, encoding="utf-8")
        self.command.chmod(0o755)

    def started(self) -> list[int]:
        """The ids of all processes that were started."""
        return [int(line) for line in self._pids.read_text().split()] if self._pids.exists() else []

    def running(self) -> list[int]:
        """The ids of those that have not ended."""
        return [pid for pid in self.started() if _is_running(pid)]


def run_project(
    folder: Path,
    *commands: list[str],
    processes: Processes,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run commands in the folder of a project, and check that no process of them is left.

    Skips the test if a registry cannot be reached; with CI=true that is a failure. Returns: what they have written.
    """
    env = {**os.environ, **(environment or {}), "MOCKBROKER": str(processes.command)}
    env["PYTHONPATH"] = str(EXAMPLES.parent)
    written = "".join(run_command(command, folder, env=env, timeout_s=timeout_s) for command in commands)

    assert processes.started(), written
    assert processes.running() == []
    return written


def run_command(command: list[str], folder: Path, *, timeout_s: float, env: Mapping[str, str] | None = None) -> str:
    """Run one command, and end all that it started. Skips the test as `run_project` does. env: added to the test's own.

    Returns: what it has written.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={"MAVEN_OPTS": _MAVEN_OPTIONS, **os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        written, _ = process.communicate(timeout=timeout_s)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode and _OFFLINE.search(written) and os.environ.get("CI") != "true":
        pytest.skip(f"{command[0]} cannot reach its registry")
    assert process.returncode == 0, written
    return written


def find_cargo() -> str:
    """The path of cargo. Without cargo 1.85 and a linker the test is skipped, also in CI, which does not install it."""
    cargo = shutil.which("cargo")
    if cargo is None or shutil.which("cc") is None:
        pytest.skip("needs cargo and cc, which this machine does not have")
    done = subprocess.run([cargo, "--version"], capture_output=True, text=True, timeout=60, check=False)
    version = re.match(r"cargo (\d+)\.(\d+)", done.stdout)
    if version is None or tuple(map(int, version.groups())) < (1, 85):
        pytest.skip(f"needs cargo 1.85, not {done.stdout.strip() or done.stderr.strip()}")
    return cargo


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
