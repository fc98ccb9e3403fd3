"""Record the stories on a real cluster.

`tools/oracle/start-cluster PORT tests/nodes/cluster.properties` starts one, and prints its folder; then
`python -m tests.nodes.record PORT FOLDER [NAME...]`. The stories of tests/nodes/balance_story.py need a cluster that is
told what is in tests/nodes/balanced.properties as well, and are recorded only by their names.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from kwire import Client
from kwire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.nodes.stories import BALANCED, STORIES, tell
from tests.nodes.teller import Socket, let_pass

ANSWERS = Path(__file__).parent / "answers"


class RealCluster:
    """The brokers of `start-cluster`, in the folder that it prints."""

    def __init__(self, port: int, folder: Path) -> None:
        self._port = port
        self._folder = folder

    def connect(self, node: int) -> Socket:
        """A new connection to a node."""
        return Socket(self._address(node))

    def let_pass(self, duration_s: float) -> None:
        """Let real time pass."""
        let_pass(duration_s)

    def now_s(self) -> float:
        """The machine's clock."""
        return time.monotonic()

    def time_ms(self) -> int:
        """The brokers have the same clock."""
        return time.time_ns() // 1_000_000

    def _address(self, node: int) -> str:
        return f"127.0.0.1:{self._port + node}"

    def stop(self, node: int) -> None:
        """End a node cleanly."""
        self._end(node, signal.SIGTERM)

    def kill(self, node: int) -> None:
        """End a node at once."""
        self._end(node, signal.SIGKILL)

    def _end(self, node: int, how: signal.Signals) -> None:
        process = int((self._folder / f"PID.{node}").read_text())
        os.kill(process, how)
        while _is_alive(process):
            let_pass(0.1)

    def start(self, node: int) -> None:
        """Start it again."""
        (self._folder / f"RUN.{node}").touch()

    def move(self, topic: str, partition: int, to: int) -> None:
        """Put the replica first, and have the preferred one elected."""
        others = [node for node in (1, 2) if node != to]
        row = ReassignableTopic(topic, [ReassignablePartition(partition, (to, *others))])
        with Client(self._address(0)) as client:
            client.send(AlterPartitionReassignmentsRequest(timeout_ms=10_000, topics=[row]))
            let_pass(0.3)
            client.send(ElectLeadersRequest(0, [TopicPartitions(topic, (partition,))], 10_000))


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def main(port: str, folder: str, *names: str) -> None:
    """Record all stories that need no cluster of their own, or those that are named."""
    ANSWERS.mkdir(exist_ok=True)
    venue = RealCluster(int(port), Path(folder))
    for name in names or [name for name in STORIES if name not in BALANCED]:
        seen = tell(name, venue)
        (ANSWERS / f"{name}.json").write_text(json.dumps(seen, indent=1) + "\n")
        print(name, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
