"""Contents of the simulated cluster's logs: offsets with records, markers, and aborted transactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.storage.partition_log import PartitionLog


@dataclass(slots=True)
class LogContents:
    """One log as it was read last. Offsets below the start of the log are in none of the sets.

    present: offsets with a record, markers included; control records that store the state of share partitions are not.
    aborted: offsets of aborted transactions. markers: where transactions end. lost: offsets whose record was removed
    by compaction, alone or with its aborted batch: from this log or, as each replica compacts its own, from that of a
    former leader. Only committed records are compacted, so that no other record gets the offset. A follower that lagged
    longer than delete.retention.ms has records that the tombstones removed elsewhere.
    """

    present: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    markers: set[int] = field(default_factory=set)
    start: int = 0
    end: int = 0


class LogContentsReader:
    """Reads a log again when it has changed. find_log: the log of a partition, None if there is none."""

    def __init__(self, find_log: Callable[[TopicPartitionKey], PartitionLog | None]) -> None:
        self._find_log = find_log
        self._contents: dict[TopicPartitionKey, LogContents] = {}
        self._versions: dict[TopicPartitionKey, tuple[object, ...]] = {}

    def forget_versions(self) -> None:
        """Read all logs again: they were opened by another process, perhaps with less in them, or not yet compacted."""
        self._versions.clear()
        for contents in self._contents.values():
            contents.lost.clear()

    def read_contents(self, partition_key: TopicPartitionKey) -> LogContents:
        """The contents of a log; those read last if the topic was deleted."""
        contents = self._contents.setdefault(partition_key, LogContents())
        log = self._find_log(partition_key)
        if log is not None:
            aborted = log.aborted_transactions(0, log.end_offset)
            version = (log.start_offset, log.end_offset, log.segments.cleaned_to, len(aborted), log.size)
            if self._versions.get(partition_key) != version:
                self._versions[partition_key] = version
                _update_contents(log, contents)
        return contents


def _update_contents(log: PartitionLog, contents: LogContents) -> None:
    headers = [(batch, batch.header()) for batch in log.batches_below(log.end_offset)]
    visible = [batch for batch, header in headers if header.is_transactional or not header.is_control]
    present = {record.offset for batch in visible for record in batch.records()}
    contents.markers = {batch.base_offset for batch, header in headers if header.is_transactional and header.is_control}
    transactional = [(batch, header) for batch, header in headers if header.is_transactional and not header.is_control]
    for transaction in log.aborted_transactions(0, log.end_offset):
        offsets = range(transaction.first_offset, transaction.last_offset + 1)
        for batch, header in transactional:
            if header.producer_id == transaction.producer_id and batch.base_offset in offsets:
                contents.aborted.update(range(batch.base_offset, batch.last_offset + 1))
    contents.start, contents.end = log.start_offset, log.end_offset
    lost_before = {offset for offset in contents.lost if offset >= log.start_offset}
    contents.lost = (set(range(log.start_offset, log.end_offset)) - present) | lost_before
    contents.present = present - contents.lost
