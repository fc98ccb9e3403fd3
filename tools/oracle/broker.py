"""Real brokers for as long as a `with` block lasts, on ports that the system chooses; `start-kafka` runs them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kwire import Client
from kwire.client import ClientError
from kwire.messages.metadata import MetadataRequest
from tools.oracle.jars import VERSION, jars

_HERE = Path(__file__).parent
_START_S = 120
_LOOK_S = 0.2


@contextmanager
def running(
    properties: Mapping[str, str], features: Iterable[str] = (), *, version: str = VERSION
) -> Iterator[Mapping[str, str]]:
    """A fresh broker of Kafka with these properties and feature levels; HOST:PORT of each of its listeners.

    Raises: RuntimeError with the end of its log when it does not come up, or when there are no jars.
    """
    names = [listener.split(":", 1)[0] for listener in properties.get("listeners", "PLAINTEXT:").split(",")]
    # The first port is that of PLAINTEXT, the next one the controller's; so `start-kafka` has it.
    port = free_ports([0, 1, *range(2, len(names) + 1)])
    others = (name for name in names if name != "PLAINTEXT")
    addresses = {"PLAINTEXT": f"127.0.0.1:{port}"} | {
        name: f"127.0.0.1:{port + 2 + index}" for index, name in enumerate(others)
    }
    with _folder(version) as folder:
        file = folder / "given.properties"
        given = {**properties, **(_listeners(addresses, port + 1) if len(names) > 1 else {})}
        file.write_text("".join(f"{name}={value}\n" for name, value in given.items()), "utf-8")
        plugins = _plugins(folder) if "metric.reporters" in properties else ""
        command = [str(_HERE / "start-kafka"), str(port), str(file), *features]
        with _started(command, folder, {"KAFKA_PLUGINS": plugins, "KAFKA_VERSION": version}) as log:
            _wait_for(addresses["PLAINTEXT"], log)
            yield addresses


@contextmanager
def running_cluster(properties: Path) -> Iterator[tuple[int, Path]]:
    """Three fresh brokers, told what a file says: the first one's port and the folder of `start-cluster`.

    Raises: RuntimeError as `running`.
    """
    port = free_ports([0, 1, 2, 9])
    with _folder() as folder, _started([str(_HERE / "start-cluster"), str(port), str(properties)], folder, {}) as log:
        for node in range(3):
            _wait_for(f"127.0.0.1:{port + node}", log)
        yield port, Path(log.read_text("utf-8").splitlines()[0])


@contextmanager
def _folder(version: str = VERSION) -> Iterator[Path]:
    jars(version)
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        yield Path(folder)


def _listeners(addresses: Mapping[str, str], controller_port: int) -> dict[str, str]:
    shown = ",".join(f"{name}://{address}" for name, address in addresses.items())
    return {"listeners": f"{shown},CONTROLLER://127.0.0.1:{controller_port}", "advertised.listeners": shown}


def _plugins(folder: Path) -> str:
    """Our own classes for a broker, compiled."""
    out = folder / "plugins"
    command = ["javac", "-nowarn", "-cp", f"{jars()}/*", "-d", str(out), str(_HERE / "TelemetryReceiver.java")]
    subprocess.run(command, check=True, timeout=_START_S, capture_output=True)
    return str(out)


@contextmanager
def _started(command: list[str], folder: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """A script beside this module and all that it starts, ended with the block; what it writes goes to the log."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(folder), **environment},
        )
    try:
        yield log
    finally:
        # The whole session: nobody needs what these brokers have in memory, so they need no time to end.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(address: str, log: Path) -> None:
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


def free_ports(distances: Collection[int]) -> int:
    """A port such that nobody listens at any of these distances from it."""
    for _ in range(100):
        with socket.socket() as chosen:
            chosen.bind(("127.0.0.1", 0))
            port: int = chosen.getsockname()[1]
        if all(_is_free(port + distance) for distance in distances):
            return port
    raise RuntimeError("no free ports beside each other")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True
