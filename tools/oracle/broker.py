"""Real brokers for as long as a `with` block lasts, on ports that the system chooses; `start-kafka` runs them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kwire import Client
from kwire.client import ClientError
from kwire.messages.metadata import MetadataRequest

_HERE = Path(__file__).parent
_START_S = 90
_LOOK_S = 0.2


@contextmanager
def running(properties: Mapping[str, str], features: Iterable[str] = ()) -> Iterator[str]:
    """A fresh broker of Kafka 4.3.0 with these properties and feature levels; its HOST:PORT.

    Raises: RuntimeError with the end of its log when it does not come up.
    """
    port = free_ports(2)
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        file = Path(folder) / "given.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), "utf-8")
        with started([str(_HERE / "start-kafka"), str(port), str(file), *features], Path(folder)) as log:
            address = f"127.0.0.1:{port}"
            wait_for(address, log)
            yield address


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[Path]:
    """A script of this folder and all that it starts, ended with the block; what it writes goes to the log."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )
    try:
        yield log
    finally:
        # The whole session: nobody needs what these brokers have in memory, so they need no time to end.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(address: str, log: Path) -> None:
    """Return when the broker at this address answers."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        try:
            with Client(address, timeout_s=5) as client:
                if client.send(MetadataRequest(topics=[])).brokers:
                    return
        except (ClientError, OSError):
            pass
        time.sleep(_LOOK_S)
    raise RuntimeError(f"no broker at {address} within {_START_S} s:\n{log.read_text('utf-8', 'replace')[-4000:]}")


def free_ports(count: int, *, offsets: Iterable[int] = ()) -> int:
    """A port that nobody listens on, and nobody on those behind it, or at these distances."""
    for _ in range(100):
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            if all(_is_free(port + more) for more in offsets or range(1, count)):
                return port
    raise RuntimeError(f"no {count} free ports beside each other")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True
