"""The readers of captures that are measured beside each other: each as a command, timed by the CPU that it takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
#: What a reader of latency and errors asks for, of tshark and of us.
TSHARK_FIELDS = (
    "frame.number",
    "kafka.api_key",
    "kafka.api_version",
    "kafka.correlation_id",
    "kafka.client_id",
    "kafka.error",
)
FEW = ("req_packet", "api_key", "api_version", "correlation_id", "client_id", "error_code")
HEADERS = (
    *("conn_id", "client_id", "api_key", "api_name", "api_version", "correlation_id", "req_packet", "resp_packet"),
    *("req_ts", "resp_ts", "latency_us", "req_bytes", "resp_bytes"),
)


class Tool(NamedTuple):
    """A reader: what it is called, what it does, and its command; `{file}` and `{port}` are put in."""

    name: str
    does: str
    command: tuple[str, ...]

    def on(self, file: Path, port: int) -> list[str]:
        """The command for one capture."""
        return [part.replace("{file}", str(file)).replace("{port}", str(port)) for part in self.command]


def tshark(does: str, *options: str) -> Tool:
    """The tshark that is installed. Raises: FileNotFoundError."""
    path = shutil.which("tshark")
    if path is None:
        raise FileNotFoundError("tshark is not installed")
    name = "tshark " + " ".join(options[:2])
    return Tool(name, does, (path, "-r", "{file}", "-d", "tcp.port=={port},kafka", *options))


def tshark_version() -> str:
    """As it tells it itself."""
    out = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True).stdout
    return out.split("(Wireshark) ")[-1].split()[0].rstrip(".")


def ours(does: str, what: str) -> Tool:
    """kwire, reading rows as record batches that nobody keeps."""
    return Tool("kwire", does, (sys.executable, "-m", "tools.bench.capture_reader", what, "{file}"))


def dpkt() -> Tool | None:
    """dpkt, in a folder of its own for the time of the benchmark; None where it cannot be had."""
    folder = Path(tempfile.gettempdir()) / "kwire-bench-dpkt"
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "dpkt==1.9.8"]
    if not folder.exists() and subprocess.run(command, check=False).returncode:
        return None
    reader = (sys.executable, "-m", "tools.bench.capture_reader", "dpkt", "{file}", str(folder))
    return Tool("dpkt 1.9.8", "IP and TCP headers of each packet, nothing of Kafka", reader)


def run(command: list[str]) -> float:
    """Run it; CPU seconds of user and system together. Raises: CalledProcessError."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime


def most_memory(file: Path) -> float:
    """What was resident at most while we decoded every body of a capture, MiB. Raises: CalledProcessError."""
    command = ours("", "memory").on(file, 0)
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT).stdout)


def use_one_core() -> None:
    """This process and all that it starts stay on one core, where the system allows that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
