"""`KafkaProcess`: a real Apache Kafka that is killed and started again, the reference for what clients may expect."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from pathlib import Path

from kwire import Client
from kwire.client import ClientError
from kwire.messages.metadata import MetadataRequest
from tools.oracle.broker import find_free_ports
from tools.oracle.jars import NEWEST_VERSION, fetch_jars

_LIMIT_S = 120.0
_PAUSE_S = 0.1
_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
_LOG_TAIL_SIZE = 4_000
_PROPERTIES = """\
process.roles=broker,controller
node.id=0
controller.quorum.voters=0@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
num.partitions={partition_count}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=3
group.initial.rebalance.delay.ms=0
group.share.heartbeat.interval.ms=100
group.share.min.heartbeat.interval.ms=100
"""


class KafkaProcess:
    """One node, broker and controller, with its data in a folder. Its methods are those of `BrokerProcess`.

    data: the log directory of a broker with the id 0, None for a new one. settings: further lines of its properties.
    """

    #: A Java process that SIGTERM has ended.
    clean_codes = (0, 143)

    def __init__(
        self,
        folder: Path,
        *,
        partition_count: int,
        version: str = NEWEST_VERSION,
        data: Path | None = None,
        settings: str = "",
    ) -> None:
        self._libraries = f"{fetch_jars(version)}/*"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        port = find_free_ports([0, 1])
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self._properties = folder / "server.properties"
        self._properties.write_text(
            _PROPERTIES.format(
                port=port, controller_port=port + 1, data=data or folder / "data", partition_count=partition_count
            )
            + settings
        )
        self._log = folder / "kafka.log"
        if data is not None:
            return
        with self._log.open("ab") as log:
            command = self._command("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(self._properties))
            subprocess.run(command, check=True, timeout=_LIMIT_S, stdout=log, stderr=log)

    def _command(self, *arguments: str) -> list[str]:
        return ["java", "-Xmx768m", "-XX:TieredStopAtLevel=1", "-cp", self._libraries, *arguments]

    def start(self) -> float:
        """Start it, and wait until it answers. Returns: the seconds that this took."""
        started_s = time.monotonic()
        with self._log.open("ab") as log:
            command = self._command("kafka.Kafka", str(self._properties))
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while not self._answers():
            # Connections are refused at once; without a pause, half of a small machine would do nothing but connect.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PAUSE_S)
            if self._process.poll() is not None or time.monotonic() - started_s > _LIMIT_S:
                self.kill()
                raise RuntimeError(f"Kafka does not answer; the end of its log:\n{self.log_tail()}")
        return time.monotonic() - started_s

    def _answers(self) -> bool:
        try:
            with Client(self.bootstrap_servers, timeout_s=5) as client:
                return bool(client.send(MetadataRequest(topics=[])).brokers)
        except (ClientError, OSError):
            return False

    def kill(self) -> None:
        """End it by SIGKILL, if it runs."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it by SIGTERM. Returns: its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(how)
        try:
            return process.wait(_LIMIT_S)
        finally:
            process.kill()
            process.wait()

    def find_errors(self) -> list[str]:
        """A real Kafka logs errors of many kinds: none counts."""
        return []

    def log_tail(self) -> str:
        """The end of the log of all starts."""
        return self._log.read_bytes()[-_LOG_TAIL_SIZE:].decode(errors="replace")
