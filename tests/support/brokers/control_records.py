"""The control records of share partitions in a log, and the log itself."""

from __future__ import annotations

from mockbroker import Cluster
from mockbroker.persisters.control_records.control_batches import decode_control_record
from mockbroker.persisters.control_records.recorded_state import ShareCheckpoint, ShareDelta
from mockbroker.state.storage.partition_log import PartitionLog
from tests.support.brokers.draft_members import TOPIC


def find_log(cluster: Cluster, topic: str = TOPIC) -> PartitionLog:
    """The log of a topic's only partition, on its leader."""

    def look(server: object) -> PartitionLog:
        state = server.core.state  # type: ignore[attr-defined]
        known = state.metadata.topic(topic)
        return state.nodes[known.partitions[0].leader].logs.find_log(known.topic_id, 0)  # type: ignore[no-any-return]

    return cluster.run(look)


def control_records(cluster: Cluster, topic: str = TOPIC) -> list[tuple[int, str, ShareCheckpoint | ShareDelta]]:
    """Offset, group and content of each."""
    found = []
    for batch in find_log(cluster, topic).batches_from(0):
        if batch.is_hidden:
            assert batch.header().is_control
            (record,) = batch.records()
            fact = decode_control_record(record)
            assert fact is not None
            found.append((batch.base_offset, *fact))
    return found


def describe_control_records(cluster: Cluster, topic: str = TOPIC) -> list[str]:
    """One line for each, with states as in KIP-932: "131 delta 1 <130 100-109 2/1"."""
    lines = []
    for offset, _, fact in control_records(cluster, topic):
        words = [f"{one.first}-{one.last} {one.state}/{one.delivery_count}" for one in fact.batches]
        if isinstance(fact, ShareCheckpoint):
            head = f"{offset} checkpoint {fact.epoch} {fact.start}-{fact.end}"
        else:
            head = f"{offset} delta {fact.epoch} <{fact.back_offset}"
        lines.append(" ".join([head, *words]))
    return lines
