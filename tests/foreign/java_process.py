"""A virtual machine that runs JUnit tests, with the line protocol of `java/Channel.java` on its standard streams."""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from tests.foreign.clusters import ClusterControl
from tests.foreign.results import Result, Status

_EXTENSION = "ExternalClusterExtension"
_TEST_TIMEOUT_S = 60
#: A test without an answer for so long ends the virtual machine: twice Kafka's longest time limit.
_SILENCE_MAX_S = 240.0
_COMPILE_TIMEOUT_S = 180


class JavaProcess:
    """Runs tests in a virtual machine, which is started on first use and again after a test that did not end.

    classes: of `compile_sources`. jars: of Kafka's tests. control: carries out the tests' requests for clusters; None:
    the tests start Kafka's own clusters.
    """

    def __init__(self, classes: Path, jars: Path, control: ClusterControl | None) -> None:
        self._class_path = f"{classes}:{jars}/*"
        self._control = control
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader: threading.Thread | None = None
        self._log: IO[str] | None = None

    def run(self, selector: str) -> Iterator[Result]:
        """Run the tests of a class, or CLASS#METHOD(TYPES). Yields: their results, as the tests end."""
        self._start()
        self._write({"run": selector})
        while True:
            message = self._read()
            if message is None:
                yield Result(
                    selector,
                    Status.FAILED,
                    0.0,
                    f"no answer within {_SILENCE_MAX_S:.0f} s, or the virtual machine ended\n{self._end()}",
                )
                return
            if "done" in message:
                return
            if "cluster" in message:
                assert self._control is not None
                self._write(self._control.carry_out(message))
            else:
                text = message["message"]
                yield Result(message["test"], Status(message["status"]), message["duration_s"], text)

    def close(self) -> None:
        """End the virtual machine and the cluster."""
        self._end()

    def _start(self) -> None:
        if self._process is not None:
            return
        properties = {
            "junit.jupiter.extensions.autodetection.enabled": "true",
            "junit.jupiter.extensions.autodetection.exclude": "org.apache.kafka.*",
            "foreign.real": str(self._control is None).lower(),
            "junit.jupiter.execution.timeout.default": f"{_TEST_TIMEOUT_S}s",
        }
        options = [
            "-Xshare:auto",
            "-XX:TieredStopAtLevel=1",
            *(f"-D{name}={value}" for name, value in properties.items()),
        ]
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            ["java", *options, "-cp", self._class_path, "RunTests"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
        )
        self._lines = queue.SimpleQueue()
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=_forward, args=(self._process.stdout, self._lines), daemon=True)
        self._reader.start()

    def _end(self) -> str:
        """End the virtual machine and the cluster. Returns: the end of its log."""
        if self._control is not None:
            self._control.close()
        process, self._process = self._process, None
        if process is None:
            return ""
        assert self._log is not None
        assert self._reader is not None
        process.kill()
        process.wait()
        self._reader.join()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()
        self._log.seek(0)
        text = self._log.read()
        self._log.close()
        return text[-2000:]

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        print(json.dumps(message), file=self._process.stdin, flush=True)

    def _read(self) -> dict[str, Any] | None:
        """The next message; None when none comes in time, or when the virtual machine has ended."""
        try:
            line = self._lines.get(timeout=_SILENCE_MAX_S)
        except queue.Empty:
            return None
        if line is None:
            return None
        message: dict[str, Any] = json.loads(line)
        return message


def _forward(lines: IO[str], target: queue.SimpleQueue[str | None]) -> None:
    for line in lines:
        target.put(line)
    target.put(None)


def compile_sources(sources: Sequence[Path], jars: Path, target: Path) -> None:
    """Compile the sources, and register the extension. Raises: RuntimeError with the compiler's output."""
    command = ["javac", "-d", str(target), "-proc:none", "-cp", f"{jars}/*", *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"javac failed:\n{done.stderr}")
    services = target / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.junit.jupiter.api.extension.Extension").write_text(f"{_EXTENSION}\n", "utf-8")
