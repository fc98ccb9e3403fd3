"""The same facts counted three times: from what clients printed, from the journal, from the capture by Spark."""

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
    from tools.demo.members import Told

ACK_NAMES = {0: "gap", 1: "accept", 2: "release", 3: "reject", 4: "renew"}


@dataclass
class Counts:
    """Deliveries of each record, by (partition, offset); the highest delivery count of each; acknowledgements taken."""

    deliveries: Counter[tuple[int, int]] = field(default_factory=Counter)
    delivery_count: dict[tuple[int, int], int] = field(default_factory=dict)
    acknowledged: Counter[str] = field(default_factory=Counter)

    def deliver(self, partition: int, offset: int, count: int, *, times: int = 1) -> None:
        """A record went to a member with this delivery count."""
        self.deliveries[partition, offset] += times
        self.delivery_count[partition, offset] = max(count, self.delivery_count.get((partition, offset), 0))

    def difference(self, other: Counts) -> list[str]:
        """What the other counted otherwise, as sentences; at most ten."""
        found = [
            f"partition {partition}, offset {offset}: {mine} deliveries here, {theirs} there"
            for (partition, offset) in sorted(self.deliveries.keys() | other.deliveries.keys())
            if (mine := self.deliveries[partition, offset]) != (theirs := other.deliveries[partition, offset])
        ]
        found += [
            f"partition {key[0]}, offset {key[1]}: delivery count {self.delivery_count.get(key)} here, "
            f"{other.delivery_count.get(key)} there"
            for key in sorted(self.delivery_count.keys() | other.delivery_count.keys())
            if self.delivery_count.get(key) != other.delivery_count.get(key)
        ]
        found += [
            f"{self.acknowledged[name]} times {name} here, {other.acknowledged[name]} there"
            for name in sorted(self.acknowledged.keys() | other.acknowledged.keys())
            if self.acknowledged[name] != other.acknowledged[name]
        ]
        return found[:10]


def from_clients(told: Iterable[Told]) -> Counts:
    """What the consumer processes printed."""
    counts = Counts()
    for one in told:
        for (partition, offset, count), times in one.deliveries.items():
            counts.deliver(partition, offset, count, times=times)
        counts.acknowledged += one.acknowledged
    return counts


def from_journal(exchanges: Iterable[Exchange]) -> Counts:
    """What the broker's journal holds: acquisitions it answered, acknowledgements it answered without an error."""
    counts = Counts()
    for exchange in exchanges:
        request, response = exchange.request, exchange.response
        if isinstance(request, ShareFetchRequest) and isinstance(response, ShareFetchResponse):
            _count_fetch(counts, request, response)
        if isinstance(request, ShareAcknowledgeRequest) and isinstance(response, ShareAcknowledgeResponse):
            _count_acknowledge(counts, request, response)
    return counts


def _count_fetch(counts: Counts, request: ShareFetchRequest, response: ShareFetchResponse) -> None:
    errors = {}
    for topic in response.responses:
        for row in topic.partitions:
            errors[topic.topic_id, row.partition_index] = row.acknowledge_error_code
            for acquired in row.acquired_records:
                for offset in range(acquired.first_offset, acquired.last_offset + 1):
                    counts.deliver(row.partition_index, offset, acquired.delivery_count)
    for wanted in request.topics:
        for partition in wanted.partitions:
            if errors.get((wanted.topic_id, partition.partition_index)) == ErrorCode.NONE:
                for batch in partition.acknowledgement_batches:
                    _count_types(counts, batch.first_offset, batch.last_offset, batch.acknowledge_types)


def _count_acknowledge(counts: Counts, request: ShareAcknowledgeRequest, response: ShareAcknowledgeResponse) -> None:
    errors = {
        (topic.topic_id, row.partition_index): row.error_code
        for topic in response.responses
        for row in topic.partitions
    }
    for topic in request.topics:
        for partition in topic.partitions:
            if errors.get((topic.topic_id, partition.partition_index)) == ErrorCode.NONE:
                for batch in partition.acknowledgement_batches:
                    _count_types(counts, batch.first_offset, batch.last_offset, batch.acknowledge_types)


def _count_types(counts: Counts, first: int, last: int, types: tuple[int, ...]) -> None:
    """One type stands for the whole range, several stand for one offset each."""
    size = last - first + 1
    for kind in types if len(types) > 1 else types * size:
        counts.acknowledged[ACK_NAMES[kind]] += 1


def from_capture(acquired: DataFrame, acks: DataFrame) -> Counts:
    """What Spark finds in the decoded capture."""
    from kwire.spark import analyses

    counts = Counts()
    for row in analyses.delivery_counts(acquired).collect():
        counts.deliver(row["partition"], row["offset"], row["delivery_count_max"], times=row["deliveries"])
    for row in analyses.acknowledgements(acks).collect():
        if not row["refused"]:
            counts.acknowledged[row["ack_name"]] += row["records"]
    return counts
