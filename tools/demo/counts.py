"""Deliveries and acknowledgements, counted from the output of clients, from the journal, and from the capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from kwire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kwire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mockbroker.journal import Exchange
    from tools.demo.members import MemberOutput

ACK_NAMES = {0: "gap", 1: "accept", 2: "release", 3: "reject", 4: "renew"}


@dataclass
class Counts:
    """Deliveries by (partition, offset), the highest delivery count of each record, and acknowledgements."""

    deliveries: Counter[tuple[int, int]] = field(default_factory=Counter)
    delivery_count: dict[tuple[int, int], int] = field(default_factory=dict)
    acknowledged: Counter[str] = field(default_factory=Counter)

    def deliver(self, partition: int, offset: int, count: int, *, times: int = 1) -> None:
        """Count a delivery of a record with this delivery count."""
        self.deliveries[partition, offset] += times
        self.delivery_count[partition, offset] = max(count, self.delivery_count.get((partition, offset), 0))

    def difference(self, other: Counts) -> list[str]:
        """The differences from other counts, as sentences; at most ten."""
        differences = [
            f"partition {partition}, offset {offset}: {count} deliveries here, {other_count} there"
            for (partition, offset) in sorted(self.deliveries.keys() | other.deliveries.keys())
            if (count := self.deliveries[partition, offset]) != (other_count := other.deliveries[partition, offset])
        ]
        differences += [
            f"partition {key[0]}, offset {key[1]}: delivery count {self.delivery_count.get(key)} here, "
            f"{other.delivery_count.get(key)} there"
            for key in sorted(self.delivery_count.keys() | other.delivery_count.keys())
            if self.delivery_count.get(key) != other.delivery_count.get(key)
        ]
        differences += [
            f"{self.acknowledged[name]} times {name} here, {other.acknowledged[name]} there"
            for name in sorted(self.acknowledged.keys() | other.acknowledged.keys())
            if self.acknowledged[name] != other.acknowledged[name]
        ]
        return differences[:10]


def count_client_output(outputs: Iterable[MemberOutput]) -> Counts:
    """Counts of the output of the consumer processes."""
    counts = Counts()
    for output in outputs:
        for (partition, offset, count), times in output.deliveries.items():
            counts.deliver(partition, offset, count, times=times)
        counts.acknowledged += output.acknowledged
    return counts


def count_journal(exchanges: Iterable[Exchange]) -> Counts:
    """Counts of the broker's journal: acquired records, and acknowledgements without an error."""
    counts = Counts()
    for exchange in exchanges:
        request, response = exchange.request, exchange.response
        errors: dict[tuple[bytes, int], int] = {}
        if isinstance(request, ShareFetchRequest) and isinstance(response, ShareFetchResponse):
            for topic in response.responses:
                for row in topic.partitions:
                    errors[topic.topic_id, row.partition_index] = row.acknowledge_error_code
                    for acquired in row.acquired_records:
                        for offset in range(acquired.first_offset, acquired.last_offset + 1):
                            counts.deliver(row.partition_index, offset, acquired.delivery_count)
            _count_acknowledgements(counts, request, errors)
        if isinstance(request, ShareAcknowledgeRequest) and isinstance(response, ShareAcknowledgeResponse):
            for answer in response.responses:
                errors |= {(answer.topic_id, row.partition_index): row.error_code for row in answer.partitions}
            _count_acknowledgements(counts, request, errors)
    return counts


def _count_acknowledgements(
    counts: Counts, request: ShareFetchRequest | ShareAcknowledgeRequest, errors: dict[tuple[bytes, int], int]
) -> None:
    """Count the acknowledgements of the partitions without an error; `errors` is by topic id and partition."""
    for topic in request.topics:
        for partition in topic.partitions:
            if errors.get((topic.topic_id, partition.partition_index)) == ErrorCode.NONE:
                for batch in partition.acknowledgement_batches:
                    # A single type applies to the whole range, several apply to one offset each.
                    types, size = batch.acknowledge_types, batch.last_offset - batch.first_offset + 1
                    counts.acknowledged.update(ACK_NAMES[kind] for kind in (types if len(types) > 1 else types * size))


def count_capture(acquired: DataFrame, acks: DataFrame) -> Counts:
    """Counts of the decoded capture, by Spark."""
    from kwire.spark import analyses

    counts = Counts()
    for row in analyses.delivery_counts(acquired).collect():
        counts.deliver(row["partition"], row["offset"], row["delivery_count_max"], times=row["deliveries"])
    for row in analyses.acknowledgements(acks).collect():
        if not row["refused"]:
            counts.acknowledged[row["ack_name"]] += row["records"]
    return counts
