"""What goes over a port of the loopback interface, captured by tcpdump, or by Wireshark's dumpcap."""

from __future__ import annotations

import getpass
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kwire import Client
from kwire.capture.options import Options
from kwire.capture.pipeline import rows
from kwire.capture.values import CaptureError

_PATIENCE_S = 20.0
#: The client id of the last connection, by which it is known that everything before it is in the file.
_LAST = "the-capture-ends-here"


def tool() -> str | None:
    """The program that captures here; None where there is none, or where it may not."""
    tcpdump, dumpcap = shutil.which("tcpdump"), shutil.which("dumpcap")
    if tcpdump is not None and _may_listen():
        return tcpdump
    return dumpcap if dumpcap is not None and _knows_loopback(dumpcap) else None


def _may_listen() -> bool:
    """Whether this process, and so what it starts, may see packets."""
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    except (AttributeError, OSError):
        return False
    return True


def _knows_loopback(dumpcap: str) -> bool:
    """Whether dumpcap, which may have rights of its own, lists the loopback interface."""
    listed = subprocess.run([dumpcap, "-D"], capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    return listed.returncode == 0 and ". lo" in listed.stdout + listed.stderr


@contextmanager
def listening(port: int, path: Path, *, count: int = 1) -> Iterator[None]:
    """Capture a broker's port, or so many in a row, for as long as the block lasts; at its end nothing is missing."""
    program = tool()
    assert program is not None
    # Packets are handed on at once, and a large buffer keeps those that come meanwhile.
    ways = {
        "tcpdump": ["-U", "--immediate-mode", "-Z", getpass.getuser(), "-B", "16384", "-s", "0", "-w"],
        "dumpcap": ["-q", "-P", "-B", "16", "-w"],
    }
    way = ways[Path(program).name]
    command = [program, "-i", "lo", *way, str(path)]
    ports = f"tcp portrange {port}-{port + count - 1}"
    command += ["-f", ports] if Path(program).name == "dumpcap" else [ports]
    path.unlink(missing_ok=True)
    with path.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        _until(lambda: path.exists() and path.stat().st_size >= 24, "the capture begins")
        yield
        with Client(f"127.0.0.1:{port}", client_id=_LAST):
            pass
        _until(lambda: _has_last(path), "the last packet is in the file")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(_PATIENCE_S)


def _has_last(path: Path) -> bool:
    try:
        return any(
            row["client_id"] == _LAST and row["resp_ts"] for row in rows(path, "messages", Options(bodies=False))
        )
    except CaptureError:
        return False


def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {_PATIENCE_S} s: {what}"
