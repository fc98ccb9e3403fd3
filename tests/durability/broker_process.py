"""`BrokerProcess`: the command `mockbroker` on one folder and one port, killed and started again."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

#: How long a start or an end may take, on a busy machine too.
_LIMIT_S = 120.0
_LOG_TAIL_SIZE = 4_000


class BrokerProcess:
    """The command, and a file with its log.

    arguments: of the command, besides the port. port: 0 lets the first start choose one, which later starts use again.
    """

    #: Exit codes after SIGTERM.
    clean_codes = (0,)

    def __init__(self, arguments: Sequence[str], log: Path, *, port: int = 0) -> None:
        self._arguments = list(arguments)
        self._log = log
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap_servers = ""

    def start(self) -> float:
        """Start it, and wait until it listens. Returns: the seconds that this took.

        Raises: RuntimeError, with the end of the log, if it ends instead or does not listen in time.
        """
        command = [sys.executable, "-m", "mockbroker", "--port", str(self._port), *self._arguments]
        started_s = time.monotonic()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        stdout = self._process.stdout
        assert stdout is not None
        readable, _, _ = select.select([stdout], [], [], _LIMIT_S)
        line = stdout.readline().decode().strip() if readable else ""
        if not line:
            self.kill()
            raise RuntimeError(f"the broker does not listen; the end of its log:\n{self.log_tail()}")
        self.bootstrap_servers = line
        self._port = int(line.split(",")[0].rsplit(":", 1)[1])
        return time.monotonic() - started_s

    def kill(self) -> None:
        """End it by SIGKILL, if it runs."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it by SIGTERM. Returns: its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(how)
        try:
            return process.wait(_LIMIT_S)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def find_errors(self) -> list[str]:
        """Errors in the log of all starts that no end of a process and no lost connection explains."""
        lines = self._log.read_text(errors="replace").splitlines()
        return [f"the log has {line!r}" for line in lines if " ERROR " in line or line.startswith("Traceback")]

    def log_tail(self) -> str:
        """The end of the log of all starts."""
        return self._log.read_bytes()[-_LOG_TAIL_SIZE:].decode(errors="replace")
