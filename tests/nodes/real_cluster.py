"""`RealCluster`: three real nodes for the scenarios, which stop and start."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from kwire import Client
from kwire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.nodes.scenario_client import SocketConnection, wait_in_real_time


class RealCluster:
    """The brokers of `start-cluster`, in the folder that it prints."""

    def __init__(self, port: int, folder: Path) -> None:
        self._port = port
        self._folder = folder

    def connect(self, node: int) -> SocketConnection:
        """A new connection to a node."""
        return SocketConnection(self._address(node))

    def pass_time(self, duration_s: float) -> None:
        """Wait in real time."""
        wait_in_real_time(duration_s)

    def now_s(self) -> float:
        """The clock of the machine, in seconds."""
        return time.monotonic()

    def time_ms(self) -> int:
        """The clock of the machine, which the brokers use."""
        return time.time_ns() // 1_000_000

    def _address(self, node: int) -> str:
        return f"127.0.0.1:{self._port + node}"

    def stop(self, node: int) -> None:
        """Stop a node cleanly."""
        self._end(node, signal.SIGTERM)

    def kill(self, node: int) -> None:
        """Kill a node."""
        self._end(node, signal.SIGKILL)

    def _end(self, node: int, how: signal.Signals) -> None:
        process = int((self._folder / f"PID.{node}").read_text())
        os.kill(process, how)
        while _is_alive(process):
            wait_in_real_time(0.1)

    def pause(self, node: int) -> None:
        """Let a node stand still."""
        os.kill(int((self._folder / f"PID.{node}").read_text()), signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Let a paused node go on."""
        os.kill(int((self._folder / f"PID.{node}").read_text()), signal.SIGCONT)

    def start(self, node: int) -> None:
        """Start a node again."""
        (self._folder / f"RUN.{node}").touch()

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Move the replica to the first place, and elect the preferred leader."""
        others = [node for node in (1, 2) if node != to]
        row = ReassignableTopic(topic, [ReassignablePartition(partition, (to, *others))])
        with Client(self._address(0)) as client:
            client.send(AlterPartitionReassignmentsRequest(timeout_ms=10_000, topics=[row]))
            wait_in_real_time(0.3)
            client.send(ElectLeadersRequest(0, [TopicPartitions(topic, (partition,))], 10_000))


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
