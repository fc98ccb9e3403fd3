"""Runs brokers of Apache Kafka for the duration of a `with` block, on free ports, by the script `start-kafka`."""

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
from tools.oracle.jars import NEWEST_VERSION, fetch_jars

_HERE = Path(__file__).parent
_START_TIMEOUT_S = 120
_POLL_S = 0.2
#: Properties that name a plugin of this folder.
_JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
_PLUGINS = ("metric.reporters", "group.streams.topology.description.plugin.class")


@contextmanager
def run_broker(
    properties: Mapping[str, str], features: Iterable[str] = (), *, version: str = NEWEST_VERSION
) -> Iterator[Mapping[str, str]]:
    """A new Kafka broker with these properties and feature levels; HOST:PORT of each of its listeners.

    Raises: RuntimeError with the end of its log when it does not start, or when there are no jars.
    """
    names = [listener.split(":", 1)[0] for listener in properties.get("listeners", "PLAINTEXT:").split(",")]
    # `start-kafka` uses the first port for PLAINTEXT and the next one for the controller.
    port = find_free_ports([0, 1, *range(2, len(names) + 1)])
    addresses = {"PLAINTEXT": f"127.0.0.1:{port}"}
    for other_port, name in enumerate((name for name in names if name != "PLAINTEXT"), start=port + 2):
        addresses[name] = f"127.0.0.1:{other_port}"
    with _temporary_folder(version) as folder:
        file = folder / "given.properties"
        all_properties = {**properties, **(_listener_properties(addresses, port + 1) if len(names) > 1 else {})}
        file.write_text("".join(f"{name}={value}\n" for name, value in all_properties.items()), "utf-8")
        plugins = _compile_plugins(folder, version, [properties[name] for name in _PLUGINS if name in properties])
        command = [str(_HERE / "start-kafka"), str(port), str(file), *features]
        environment = {"KAFKA_PLUGINS": plugins, "KAFKA_VERSION": version, **_java_options(properties)}
        with _run_script(command, folder, environment) as log:
            _wait_until_ready(addresses["PLAINTEXT"], log)
            yield addresses


@contextmanager
def run_cluster(properties: Path, *, version: str = NEWEST_VERSION) -> Iterator[tuple[int, Path]]:
    """Three new brokers with the properties of a file: the port of the first, and the folder of `start-cluster`.

    Raises: RuntimeError as `run_broker`.
    """
    port = find_free_ports([0, 1, 2, 9])
    command = [str(_HERE / "start-cluster"), str(port), str(properties)]
    with _temporary_folder(version) as folder, _run_script(command, folder, {"KAFKA_VERSION": version}) as log:
        for node in range(3):
            _wait_until_ready(f"127.0.0.1:{port + node}", log)
        yield port, Path(log.read_text("utf-8").splitlines()[0])


@contextmanager
def _temporary_folder(version: str) -> Iterator[Path]:
    fetch_jars(version)
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        yield Path(folder)


def _listener_properties(addresses: Mapping[str, str], controller_port: int) -> dict[str, str]:
    listeners = ",".join(f"{name}://{address}" for name, address in addresses.items())
    return {"listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller_port}", "advertised.listeners": listeners}


def _java_options(properties: Mapping[str, str]) -> dict[str, str]:
    """The option of the virtual machine without which Kafka opens no JWKS; none for other brokers."""
    urls = ",".join(value for name, value in properties.items() if name.endswith(_JWKS_URL))
    return {"JAVA_TOOL_OPTIONS": f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}"} if urls else {}


def _compile_plugins(folder: Path, version: str, names: Collection[str]) -> str:
    """Compile the broker plugins with these names; returns their class path, empty without plugins."""
    if not names:
        return ""
    out = folder / "plugins"
    classes = f"{fetch_jars(version)}/*"
    command = ["javac", "-nowarn", "-cp", classes, "-d", str(out), *(str(_HERE / f"{name}.java") for name in names)]
    subprocess.run(command, check=True, timeout=_START_TIMEOUT_S, capture_output=True)
    return str(out)


@contextmanager
def _run_script(command: list[str], folder: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Run a script of this folder, and end it and all its processes with the block; its output goes to the log."""
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
        # The whole session. The brokers' state is not needed any more, so they are not shut down cleanly.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_until_ready(address: str, log: Path) -> None:
    """Return when the broker at this address responds."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            with Client(address, timeout_s=5) as client:
                if client.send(MetadataRequest(topics=[])).brokers:
                    return
        except (ClientError, OSError):
            pass
        time.sleep(_POLL_S)
    end_of_log = log.read_text("utf-8", "replace")[-4000:]
    raise RuntimeError(f"no broker at {address} within {_START_TIMEOUT_S} s:\n{end_of_log}")


def find_free_ports(distances: Collection[int]) -> int:
    """A port for which the ports at all these distances are free."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if all(_is_free(port + distance) for distance in distances):
            return port
    raise RuntimeError("no adjacent free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True
