"""The brokers of the benchmarks: how each is started and stopped."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.oracle.broker import find_free_ports
from tools.oracle.jars import NEWEST_VERSION

_HERE = Path(__file__).parent
_CHECKOUT = _HERE.parent.parent
_ORACLE = _HERE.parent / "oracle" / "start-kafka"
_TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class Peer:
    """A broker as a command; it prints its bootstrap list on the first line, or listens on `port`."""

    name: str
    command: tuple[str, ...]
    port: int | None = None


def mockbroker_peer() -> Peer:
    """mockbroker, with journal and all checks, as users run it."""
    return Peer("mockbroker", (installed_python(), "-m", "mockbroker", "--port", "0", "--log-level", "error"))


def installed_python() -> str:
    """The interpreter of an environment with the packages of this one, and of this checkout, as from wheels.

    Each start of Python runs the `.pth` files of its environment. Those of one for development (editable installs,
    coverage) import a fifth of what a broker loads; the only one here names the folders.
    """
    folder = Path(tempfile.gettempdir()) / "kwire-bench-python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    if not packages.is_dir():
        venv.create(folder, symlinks=True)
    (packages / "packages.pth").write_text(f"{_CHECKOUT}\n{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return str(folder / "bin" / "python")


def build_kfake(go: str) -> Peer:
    """franz-go's kfake, built by the Go tool chain."""
    source = hashlib.sha256((_HERE / "kfake" / "main.go").read_bytes() + (_HERE / "kfake" / "go.mod").read_bytes())
    binary = Path(tempfile.gettempdir()) / f"kwire-bench-kfake-{source.hexdigest()[:12]}"
    subprocess.run([go, "build", "-o", str(binary), "."], cwd=_HERE / "kfake", check=True, timeout=600)
    return Peer("kfake", (str(binary),))


def available_peers(*, with_kafka: bool = True) -> list[Peer]:
    """mockbroker, kfake where Go is installed, and Apache Kafka."""
    go = shutil.which("go")
    return [mockbroker_peer(), *([build_kfake(go)] if go else []), *([kafka_peer()] if with_kafka else [])]


def kafka_peer() -> Peer:
    """Apache Kafka from Maven, one node; its controller takes the port after."""
    port = find_free_ports([0, 1])
    return Peer(f"Apache Kafka {NEWEST_VERSION}", ("bash", str(_ORACLE), str(port)), port)


def start_broker(peer: Peer, *, has_own_group: bool = False) -> tuple[subprocess.Popen[str], str]:
    """The process and its bootstrap list: the one that it prints, or the address of its port.

    has_own_group: so that it can be killed with the processes that it has started. A Python process stores and finds
    its bytecode, as where it is installed, whatever the environment here says.
    """
    piped = subprocess.PIPE if peer.port is None else subprocess.DEVNULL
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "kwire-bench-bytecode")
    process = subprocess.Popen(
        peer.command,
        stdout=piped,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        start_new_session=has_own_group,
    )
    if peer.port is not None:
        return process, f"127.0.0.1:{peer.port}"
    assert process.stdout is not None
    bootstrap = process.stdout.readline().strip()
    if not bootstrap:
        raise RuntimeError(f"{peer.name} ended before it listened")
    return process, bootstrap


def stop_process(process: subprocess.Popen[str]) -> None:
    """End a process and close its pipe."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def kill_group(process: subprocess.Popen[str]) -> None:
    """Kill a process that was started with `has_own_group`, with its children, and close its pipe."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def peak_resident_size(process: subprocess.Popen[str]) -> int:
    """The most bytes of memory that a process has had in use; from /proc, so on Linux."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def resident_size(process: subprocess.Popen[str]) -> int:
    """Bytes of memory that a process has in use; from /proc, so on Linux."""
    pages = Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def wait_until_listening(bootstrap: str, process: subprocess.Popen[str]) -> None:
    """Return when a connection is accepted; raises TimeoutError or RuntimeError otherwise."""
    host, port = bootstrap.split(",", 1)[0].rsplit(":", 1)
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the broker at {bootstrap} ended with {process.returncode}")
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            time.sleep(0.001)
        else:
            return
    raise TimeoutError(f"nothing accepted at {bootstrap} within {_TIMEOUT_S:g} s")


@contextmanager
def run_broker(peer: Peer) -> Iterator[str]:
    """The bootstrap list of a broker that accepts connections, for as long as the block lasts."""
    process, bootstrap = start_broker(peer)
    try:
        wait_until_listening(bootstrap, process)
        yield bootstrap
    finally:
        stop_process(process)
