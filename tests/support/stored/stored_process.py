"""`StoredProcess`: the command `mockbroker` as a process with a data directory, which is ended, killed and started."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

_TIMEOUT_S = 60


class StoredProcess:
    """A cluster of one node in a process of its own. After a restart it has the address that it had before."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self._arguments = arguments
        self._port = "0"
        self.bootstrap = ""
        self.start()

    def start(self) -> None:
        """Start the process, and wait for its first line."""
        command = [sys.executable, "-m", "mockbroker", "--data-dir", str(self.folder), "--port", self._port]
        log = (self.folder.parent / "mockbroker.log").open("a")
        with log:
            self._process = subprocess.Popen(
                [*command, *self._arguments], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        self.bootstrap = self._process.stdout.readline().strip()
        assert self.bootstrap, self.log()
        self._port = self.bootstrap.rpartition(":")[2]

    def log(self) -> str:
        """What all processes have logged."""
        return (self.folder.parent / "mockbroker.log").read_text()

    def restart(self, number: signal.Signals) -> None:
        """End the process by a signal, and start it again."""
        self._process.send_signal(number)
        code = self._process.wait(_TIMEOUT_S)
        assert code == (-number if number == signal.SIGKILL else 0)
        self._close()
        self.start()

    def _close(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(_TIMEOUT_S)
        self._close()
