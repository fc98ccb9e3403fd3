"""The batches of idempotent producers in Produce requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from kwire.conformance.model import SEQUENCES, ObservedExchange, ProducedBatch
from kwire.errors import WireError
from kwire.records.reader import read_batches


def is_ahead(sequence: int, expected: int) -> bool:
    """Whether a sequence is after the expected one, on the circle of sequences."""
    return 0 < (sequence - expected) % SEQUENCES < SEQUENCES // 2


def batches_of(exchange: ObservedExchange) -> Iterable[ProducedBatch]:
    """The batches of a Produce request."""
    return produced_batches(exchange.request) if exchange.batches is None else exchange.batches


def remove_records(message: msgspec.Struct | None) -> None:
    """Remove the records of a Produce request, or of a Fetch or ShareFetch response, which hold its frame in memory."""
    fields = cast("Any", message)
    for topic in getattr(fields, "topic_data", ()) or getattr(fields, "responses", ()):
        for partition in getattr(topic, "partition_data", ()) or getattr(topic, "partitions", ()):
            if hasattr(partition, "records"):
                partition.records = b""


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
