"""The brokers that are measured beside each other: how each is started, and found again when it should end."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.oracle.jars import VERSION

_HERE = Path(__file__).parent
_ORACLE = _HERE.parent / "oracle" / "start-kafka"
_PATIENCE_S = 90.0


@dataclass(frozen=True, slots=True)
class Peer:
    """A broker as a command; it prints its bootstrap list on the first line, or listens on `port`."""

    name: str
    command: tuple[str, ...]
    port: int | None = None


def mockbroker() -> Peer:
    """Ours, with the journal and every check that users have."""
    return Peer("mockbroker", (sys.executable, "-m", "mockbroker.cli", "--port", "0", "--log-level", "error"))


def kfake(go: str) -> Peer:
    """franz-go's kfake, built here with its own tool chain."""
    binary = Path(tempfile.gettempdir()) / "kwire-bench-kfake"
    subprocess.run([go, "build", "-o", str(binary), "."], cwd=_HERE / "kfake", check=True, timeout=600)
    return Peer("kfake", (str(binary),))


def kafka() -> Peer:
    """Apache Kafka from Maven, one node; its controller takes the port after."""
    port = _free_port_pair()
    return Peer(f"Apache Kafka {VERSION}", ("bash", str(_ORACLE), str(port)), port)


def _free_port_pair() -> int:
    """A port whose successor is free too, as far as a moment's look can tell."""
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise RuntimeError("no two free ports beside each other")


def start(peer: Peer) -> tuple[subprocess.Popen[str], str]:
    """The process, and its bootstrap list as soon as it is printed; of one that prints none, its address."""
    piped = subprocess.PIPE if peer.port is None else subprocess.DEVNULL
    process = subprocess.Popen(peer.command, stdout=piped, stderr=subprocess.DEVNULL, text=True)
    if peer.port is not None:
        return process, f"127.0.0.1:{peer.port}"
    assert process.stdout is not None
    bootstrap = process.stdout.readline().strip()
    if not bootstrap:
        raise RuntimeError(f"{peer.name} ended before it listened")
    return process, bootstrap


def stop(process: subprocess.Popen[str]) -> None:
    """End a process and let go of its pipe."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def wait_until_it_answers(bootstrap: str, process: subprocess.Popen[str]) -> None:
    """Return when a connection is accepted; TimeoutError or RuntimeError when that does not come about."""
    host, port = bootstrap.split(",", 1)[0].rsplit(":", 1)
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the broker at {bootstrap} ended with {process.returncode}")
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            time.sleep(0.001)
        else:
            return
    raise TimeoutError(f"nothing accepted at {bootstrap} within {_PATIENCE_S:g} s")


@contextmanager
def running(peer: Peer) -> Iterator[str]:
    """The bootstrap list of a broker that accepts connections, for as long as the block lasts."""
    process, bootstrap = start(peer)
    try:
        wait_until_it_answers(bootstrap, process)
        yield bootstrap
    finally:
        stop(process)
