"""A simulated consumer that commits offsets, and compares what is committed with what was acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from kwire.error_codes import ErrorCode
from kwire.messages import offset_commit as commit
from kwire.messages import offset_fetch as fetch
from mockbroker.sim.disk.retrying_client import RetryingClient
from mockbroker.sim.disk.sequence_writer import TOPIC
from mockbroker.sim.simulated_cluster import SimulatedCluster
from mockbroker.sim.violation import Violation
from mockbroker.state.metadata.topics import CoordinatorKind

GROUP = "offsets-on-disk"


class OffsetWriter(RetryingClient):
    """Commits increasing offsets for one partition."""

    name = "the writer of offsets"

    def __init__(self, cluster: SimulatedCluster, rng: Random) -> None:
        super().__init__(cluster, rng)
        self._acknowledged = -1
        self._sent = -1

    def step(self) -> str:
        """Commit the next offset, or ask for the committed one."""
        if self._rng.random() < 0.3:
            self.fetch_offset(GROUP, TOPIC, lambda offset: self._check_offset(offset, self._acknowledged, self._sent))
            return "asks for its offset"
        self._sent += 1
        offset = self._sent

        def on_committed(response: commit.OffsetCommitResponse) -> None:
            code = response.topics[0].partitions[0].error_code
            if not code:
                self._count("offset promised")
                self._acknowledged = offset

        row = commit.OffsetCommitRequestPartition(0, offset)
        request = commit.OffsetCommitRequest(GROUP, topics=[commit.OffsetCommitRequestTopic(TOPIC, partitions=[row])])
        self._send(self._cluster.coordinator(CoordinatorKind.GROUP, GROUP), request, 8, on_committed)
        return f"commits {offset}"

    def check(self) -> None:
        """Compare at the end. Raises: Violation."""
        self.check_group(GROUP, TOPIC, self._acknowledged, self._sent)

    def check_group(self, group_id: str, topic: str, lowest: int, highest: int) -> None:
        """Compare the committed offset of partition 0 with bounds, -1 for none. Raises: Violation."""
        found: list[int] = []
        self.fetch_offset(group_id, topic, found.append)
        self._cluster.advance(1_000)
        if not found:
            raise Violation(f"{group_id} has no coordinator that returns its offsets")
        self._check_offset(found[0], lowest, highest, group_id)

    def fetch_offset(self, group_id: str, topic: str, use: Callable[[int], None]) -> None:
        """Ask the coordinator of a group for its offset of partition 0; `use` is not called after an error."""

        def on_fetched(response: fetch.OffsetFetchResponse) -> None:
            groups = [group for group in response.groups if not group.error_code]
            rows = [row for group in groups for one in group.topics for row in one.partitions]
            if not response.error_code and rows and rows[0].error_code == ErrorCode.NONE:
                use(rows[0].committed_offset)

        topics = [fetch.OffsetFetchRequestTopics(topic, partition_indexes=(0,))]
        request = fetch.OffsetFetchRequest(
            groups=[fetch.OffsetFetchRequestGroup(group_id, topics=topics)], require_stable=True
        )
        self._send(self._cluster.coordinator(CoordinatorKind.GROUP, group_id), request, 8, on_fetched)

    def _check_offset(self, offset: int, lowest: int, highest: int, group_id: str = GROUP) -> None:
        if not lowest <= offset <= highest:
            raise Violation(f"{group_id}: {offset} is committed, not between {lowest} and {highest}")
