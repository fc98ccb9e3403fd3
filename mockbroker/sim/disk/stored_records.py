"""`StoredRecords`: the batches that were acknowledged to clients; none of them may be missing or different."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from kwire.records import parse_header
from mockbroker.sim.simulated_topics import COMPACTED_TOPIC
from mockbroker.sim.violation import Violation
from mockbroker.state.metadata.topics import Topic, TopicPartitionKey
from mockbroker.state.storage.partition_log import PartitionLog

#: From the attributes on a batch is stored as it was produced: before them are offset, length, leader epoch and CRC.
_PRODUCED_FROM = 17


class StoredRecords:
    """Follows all topics. find_log: the log of a partition, None if its topic does not exist."""

    def __init__(
        self, find_log: Callable[[TopicPartitionKey], PartitionLog | None], count: Callable[[str], None]
    ) -> None:
        self._find_log = find_log
        self._count = count
        # By partition and base offset the bytes that do not change, and the name of the topic.
        self._batches: dict[TopicPartitionKey, dict[int, bytes]] = {}
        self._names: dict[TopicPartitionKey, str] = {}
        self._deleted: set[str] = set()

    def record_acknowledged(self, topic: Topic, partition_index: int, base_offset: int, batch: bytes) -> None:
        """A producer with acks=all has got this offset for a batch."""
        self._count("batch acknowledged")
        key = (topic.topic_id, partition_index)
        self._names[key] = topic.name
        self._batches.setdefault(key, {})[base_offset] = batch[_PRODUCED_FROM:]

    def start_deletion(self, topic: str) -> None:
        """An administrator deletes a topic: from now on it may be missing."""
        self._deleted.add(topic)

    def check_all(self) -> None:
        """Compare the logs with what was acknowledged. Raises: Violation."""
        for key, batches in list(self._batches.items()):
            log = self._find_log(key)
            if log is None:
                self._forget_topic(key)
            else:
                self._check_log(key, log, batches)

    def _forget_topic(self, key: TopicPartitionKey) -> None:
        del self._batches[key]
        name = self._names.pop(key)
        if name not in self._deleted:
            raise Violation(f"{name}-{key[1]} does not exist any more, with all of its acknowledged records")

    def _check_log(self, key: TopicPartitionKey, log: PartitionLog, batches: dict[int, bytes]) -> None:
        name, cleaned_to = self._names[key], log.segments.cleaned_to or 0
        for offset in [offset for offset in batches if offset < max(log.start_offset, cleaned_to)]:
            del batches[offset]  # Deleted, or perhaps compacted: they may be there again after a crash, or not.
        for offset, data in batches.items():
            if name == COMPACTED_TOPIC and log.end_offset > offset:
                continue  # How far it is compacted may not have been on the disk when the machine crashed.
            stored = next(islice(log.batches_from(offset), 1), None)
            where = f"{name}-{key[1]} offset {offset}, which was acknowledged"
            if stored is None or stored.base_offset != offset:
                raise Violation(f"{where}: not in the log of {log.start_offset} to {log.end_offset}")
            if bytes(stored.raw)[_PRODUCED_FROM:] != data:
                raise Violation(f"{where}: another batch is stored there, {parse_header(bytes(stored.raw))}")
