"""Records the packets of a port on the loopback interface with tcpdump, or with Wireshark's dumpcap."""

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
from kwire.capture.model import CaptureError
from kwire.capture.options import Options
from kwire.capture.reader import read_rows

_TIMEOUT_S = 20.0
#: The client id of the last connection: when it is in the file, everything before it is there too.
_LAST = "the-capture-ends-here"


def find_capture_tool() -> str | None:
    """Return the path of a usable capture program; None if there is none, or it lacks the permission."""
    tcpdump, dumpcap = shutil.which("tcpdump"), shutil.which("dumpcap")
    if tcpdump is not None and _may_capture():
        return tcpdump
    return dumpcap if dumpcap is not None and _lists_loopback(dumpcap) else None


def _may_capture() -> bool:
    """Whether this process and its children may capture packets."""
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    except (AttributeError, OSError):
        return False
    return True


def _lists_loopback(dumpcap: str) -> bool:
    """Whether dumpcap, which may have its own permissions, lists the loopback interface."""
    listed = subprocess.run([dumpcap, "-D"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    return listed.returncode == 0 and ". lo" in listed.stdout + listed.stderr


@contextmanager
def record_packets(port: int, path: Path, *, count: int = 1) -> Iterator[None]:
    """Capture `count` ports from a broker's port on while the block runs; at its end all packets are in the file."""
    program = find_capture_tool()
    assert program is not None
    # Packets are written at once; a large buffer stores those that come meanwhile.
    options = {
        "tcpdump": ["-U", "--immediate-mode", "-Z", getpass.getuser(), "-B", "16384", "-s", "0", "-w"],
        "dumpcap": ["-q", "-P", "-B", "16", "-w"],
    }
    tool_options = options[Path(program).name]
    command = [program, "-i", "lo", *tool_options, str(path)]
    ports = f"tcp portrange {port}-{port + count - 1}"
    command += ["-f", ports] if Path(program).name == "dumpcap" else [ports]
    path.unlink(missing_ok=True)
    with path.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        _wait_until(lambda: path.exists() and path.stat().st_size >= 24, "the capture begins")
        yield
        with Client(f"127.0.0.1:{port}", client_id=_LAST):
            pass
        _wait_until(lambda: _has_last_client(path), "the last packet is in the file")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(_TIMEOUT_S)


def _has_last_client(path: Path) -> bool:
    try:
        return any(
            row["client_id"] == _LAST and row["resp_ts"] for row in read_rows(path, "messages", Options(bodies=False))
        )
    except CaptureError:
        return False


def _wait_until(condition: Callable[[], bool], description: str) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {_TIMEOUT_S} s: {description}"
