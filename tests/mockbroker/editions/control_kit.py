"""The control records of share-partitions in a log, as they lie there, and the log itself."""

from __future__ import annotations

from mockbroker import Cluster
from mockbroker.persisters.control_batches import from_record
from mockbroker.state.log import PartitionLog
from mockbroker.state.share_chain import Checkpoint, Delta
from tests.mockbroker.editions.draft_kit import TOPIC


def log_of(cluster: Cluster, topic: str = TOPIC) -> PartitionLog:
    """The log of a topic's only partition, on its leader."""

    def look(server: object) -> PartitionLog:
        state = server.core.state  # type: ignore[attr-defined]
        known = state.metadata.topic(topic)
        return state.nodes[known.partitions[0].leader].logs.get(known.topic_id, 0)  # type: ignore[no-any-return]

    return cluster.run(look)


def control_records(cluster: Cluster, topic: str = TOPIC) -> list[tuple[int, str, Checkpoint | Delta]]:
    """Offset, group and content of each."""
    found = []
    for batch in log_of(cluster, topic).from_offset(0):
        if batch.hidden:
            assert batch.header().is_control
            (record,) = batch.records()
            fact = from_record(record)
            assert fact is not None
            found.append((batch.base_offset, *fact))
    return found


def told(cluster: Cluster, topic: str = TOPIC) -> list[str]:
    """Each in a line, with states as in KIP-932: "131 delta 1 <130 100-109 2/1"."""
    lines = []
    for offset, _, fact in control_records(cluster, topic):
        words = [f"{one.first}-{one.last} {one.state}/{one.delivery_count}" for one in fact.batches]
        if isinstance(fact, Checkpoint):
            head = f"{offset} checkpoint {fact.epoch} {fact.start}-{fact.end}"
        else:
            head = f"{offset} delta {fact.epoch} <{fact.back_offset}"
        lines.append(" ".join([head, *words]))
    return lines
