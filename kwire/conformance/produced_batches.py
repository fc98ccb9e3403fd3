"""The batches of idempotent producers in Produce requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from kwire import uuids
from kwire.errors import WireError
from kwire.records.reader import read_batches

#: Sequences wrap from the largest int32 to 0.
_SEQUENCES = 1 << 31

#: Producer id and epoch, topic (name, or id where the request has none), partition, first sequence, checksum.
BatchKey = tuple[int, int, str | bytes, int, int, int]


class ProducedBatch(NamedTuple):
    """A batch with a sequence. topic: its name, or its id where the request has no name."""

    producer_id: int
    producer_epoch: int
    topic: str | bytes
    partition: int
    sequence: int
    record_count: int
    crc: int

    @property
    def key(self) -> BatchKey:
        """Equal for a batch that is sent again unchanged."""
        return (self.producer_id, self.producer_epoch, self.topic, self.partition, self.sequence, self.crc)

    @property
    def next_sequence(self) -> int:
        """The sequence of the record behind it."""
        return (self.sequence + self.record_count) % _SEQUENCES

    def __str__(self) -> str:
        topic = self.topic if isinstance(self.topic, str) else uuids.to_text(self.topic)
        return f"sequence {self.sequence} of producer {self.producer_id} to {topic}-{self.partition}"


def is_ahead(sequence: int, expected: int) -> bool:
    """Whether a sequence is after the expected one, on the circle of sequences."""
    return 0 < (sequence - expected) % _SEQUENCES < _SEQUENCES // 2


def produced_batches(request: msgspec.Struct | None) -> Iterator[ProducedBatch]:
    """The batches with a sequence, in the order of the request; damaged ones end those of their partition."""
    for topic in () if request is None else cast("Any", request).topic_data:
        for partition in topic.partition_data:
            try:
                for batch in read_batches(partition.records or b"", verify=False):
                    if batch.magic == 2 and batch.producer_id >= 0 and batch.base_sequence >= 0 and batch.count > 0:
                        yield ProducedBatch(
                            batch.producer_id,
                            batch.producer_epoch,
                            topic.name or topic.topic_id,
                            partition.index,
                            batch.base_sequence,
                            batch.count,
                            batch.crc,
                        )
            except WireError:
                continue  # The capture's own issues, and the broker's answer, name damaged records.
