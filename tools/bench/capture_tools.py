"""The readers of captures that `capture` compares: the command of each, and its CPU time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
#: The fields for latency and errors, in tshark and in kwire.
_KAFKA_FIELDS = ("api_key", "api_version", "correlation_id", "client_id", "error")
TSHARK_FIELDS = ("frame.number", *(f"kafka.{field}" for field in _KAFKA_FIELDS))
FEW = ("req_packet", "api_key", "api_version", "correlation_id", "client_id", "error_code")
HEADERS = (
    *("conn_id", "client_id", "api_key", "api_name", "api_version", "correlation_id", "req_packet", "resp_packet"),
    *("req_ts", "resp_ts", "latency_us", "req_bytes", "resp_bytes"),
)


class Tool(NamedTuple):
    """A reader: its name, what it reads, and its command with `{file}` and `{port}`."""

    name: str
    does: str
    command: tuple[str, ...]

    def on(self, file: Path, port: int) -> list[str]:
        """The command for one capture."""
        return [part.replace("{file}", str(file)).replace("{port}", str(port)) for part in self.command]


def tshark_tool(does: str, *options: str) -> Tool:
    """The installed tshark. Raises: FileNotFoundError."""
    path = shutil.which("tshark")
    if path is None:
        raise FileNotFoundError("tshark is not installed")
    command = (path, "-r", "{file}", "-d", "tcp.port=={port},kafka", *options)
    return Tool("tshark " + " ".join(options[:2]), does, command)


def tshark_version() -> str:
    """The version that tshark prints."""
    out = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True).stdout
    return out.split("(Wireshark) ")[-1].split()[0].rstrip(".")


def kwire_tool(does: str, what: str) -> Tool:
    """kwire, reading rows as record batches and discarding them."""
    return Tool("kwire", does, (sys.executable, "-m", "tools.bench.capture_reader", what, "{file}"))


def dpkt_tool() -> Tool | None:
    """dpkt, installed in a temporary folder; None if it cannot be installed."""
    folder = Path(tempfile.gettempdir()) / "kwire-bench-dpkt"
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "dpkt==1.9.8"]
    if not folder.exists() and subprocess.run(command, check=False).returncode:
        return None
    reader = (sys.executable, "-m", "tools.bench.capture_reader", "dpkt", "{file}", str(folder))
    return Tool("dpkt 1.9.8", "IP and TCP headers of each packet, nothing of Kafka", reader)


def run(command: list[str]) -> float:
    """Run a command; return the CPU seconds of user and system. Raises: CalledProcessError."""
    null = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=null, stderr=null, cwd=ROOT, env=_environment()) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime


def _environment() -> dict[str, str]:
    """A Python process stores and finds its bytecode, as where it is installed, whatever the environment here says."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "kwire-bench-bytecode")}


def peak_memory(file: Path) -> float:
    """Peak resident memory of kwire decoding every body of a capture, MiB. Raises: CalledProcessError."""
    command = kwire_tool("", "memory").on(file, 0)
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT).stdout)


def first_table(file: Path) -> tuple[float, float]:
    """CPU seconds of the import of Arrow, and of the first table of a process. Raises: CalledProcessError."""
    command = kwire_tool("", "first").on(file, 0)
    # The first run stores the bytecode.
    outs = [
        subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT, env=_environment()).stdout
        for _ in range(2)
    ]
    arrow, table = map(float, outs[-1].split())
    return arrow, table


def use_one_core() -> None:
    """Run this process and its children on one core, if the system supports it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
