"""Timeline of share partitions: the state changes of their records, reconstructed from the traffic of a capture.

    for row in share_timeline(read_rows(path, "messages"), read_rows(path, "flows")):
        print(row["ts"], row["group_id"], row["first_offset"], row["last_offset"], row["state"], row["cause"])

It needs the JSON bodies of the level `messages`. `kwire.spark.analyses.share_timeline` computes the same with Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from kwire.capture.model import Row
from kwire.capture.share_timeline import event_context, event_reader
from kwire.capture.share_timeline.event_context import ContextEventSet, EventContext, read_context_events
from kwire.capture.share_timeline.event_reader import ConnectionReader
from kwire.capture.share_timeline.events import CAUSES, Event, MessageRow, Transition, event_sort_key
from kwire.capture.share_timeline.share_partition_machine import (
    DELIVERY_COUNT_LIMIT,
    LOCK_DURATION_MS,
    SharePartitionMachine,
)
from kwire.registry import DEFAULT_EDITION

__all__ = [
    "APIS",
    "CAUSES",
    "DELIVERY_COUNT_LIMIT",
    "LOCK_DURATION_MS",
    "PartitionTimeline",
    "Transition",
    "iterate_timeline",
    "share_timeline",
]

#: The APIs whose messages are read; rows of other APIs can be omitted.
APIS = tuple(dict.fromkeys((*event_reader.APIS, *event_context.APIS)))
_TIME_COLUMNS = ("req_ts", "req_end_ts", "resp_ts", "resp_end_ts")


class PartitionTimeline(NamedTuple):
    """The transitions of one share partition, in order of time. topic: None if no message names it."""

    group_id: str
    topic: str | None
    topic_id: str | None
    partition: int
    transitions: Iterable[Transition]

    def rows(self) -> Iterator[Row]:
        """Each transition as a row, with the share partition."""
        *key, transitions = self
        partition_columns = dict(zip(self._fields, key, strict=False))
        return ({**partition_columns, **transition._asdict()} for transition in transitions)


def share_timeline(
    messages: Iterable[MessageRow],
    flows: Iterable[MessageRow] = (),
    *,
    delivery_count_limit: int = DELIVERY_COUNT_LIMIT,
    lock_duration_ms: int = LOCK_DURATION_MS,
    topics: Mapping[str, str] | None = None,
    edition: str = DEFAULT_EDITION,
) -> list[Row]:
    """The transitions of all share partitions in some captures, by group, topic and partition, in order of time.

    Args: as of `iterate_timeline`.
    """
    timelines = iterate_timeline(
        messages,
        flows,
        delivery_count_limit=delivery_count_limit,
        lock_duration_ms=lock_duration_ms,
        topics=topics,
        edition=edition,
    )
    return [row for timeline in timelines for row in timeline.rows()]


def iterate_timeline(
    messages: Iterable[MessageRow],
    flows: Iterable[MessageRow] = (),
    *,
    delivery_count_limit: int = DELIVERY_COUNT_LIMIT,
    lock_duration_ms: int = LOCK_DURATION_MS,
    topics: Mapping[str, str] | None = None,
    edition: str = DEFAULT_EDITION,
) -> Iterator[PartitionTimeline]:
    """The same transitions, share partition by share partition: only those of one are in memory.

    Args: messages: rows of the level `messages`, with bodies. flows: rows of the level `flows`; without them, a
        session that ends with its connection is not detected. delivery_count_limit: for groups without a message that
        contains it. lock_duration_ms: if no response contains it, as in editions before 4.3. topics: names by id, for
        topics that no message names. edition: the one that the captures were read with.
    """
    share_rows: list[MessageRow] = []
    context_events = ContextEventSet()
    last_ts = 0
    for row in messages:
        for context_event in read_context_events(row):
            context_events.add(context_event)
        last_ts = max(last_ts, *(row[column] or 0 for column in _TIME_COLUMNS))
        if row["api_name"] in event_reader.APIS:
            share_rows.append(row)
    context = EventContext(context_events)
    context.names = {**(topics or {}), **context.names}
    events_by_partition: dict[tuple[str, str, int], list[Event]] = defaultdict(list)
    for event in read_events(share_rows, flows, edition):
        events_by_partition[event.group_id, event.topic_id or "", event.partition or 0].append(event)

    def partition_order(key: tuple[str, str, int]) -> tuple[str, str, str, int]:
        group_id, topic_id, partition = key
        return str(group_id), str(context.names.get(topic_id) or ""), str(topic_id), partition

    for key in sorted(events_by_partition, key=partition_order):
        group_id, topic_id, partition = key
        machine = SharePartitionMachine(delivery_count_limit=delivery_count_limit, lock_duration_ms=lock_duration_ms)
        all_events = chain(events_by_partition.pop(key), context.events_of_partition(group_id, topic_id, partition))
        transitions = machine.run(sorted(all_events, key=event_sort_key), last_ts)
        yield PartitionTimeline(group_id, context.names.get(topic_id), topic_id, partition, transitions)


def read_events(messages: Iterable[MessageRow], flows: Iterable[MessageRow], edition: str) -> Iterator[Event]:
    """The events of all connections, connection by connection."""
    reader = ConnectionReader(edition)
    rows_by_connection: dict[str, list[tuple[int, int, int, MessageRow]]] = defaultdict(list)
    for row in messages:
        rows_by_connection[row["conn_id"]].append((row["req_ts"] or 0, 0, row["correlation_id"] or 0, row))
    for row in flows:
        if row["conn_id"] in rows_by_connection:
            rows_by_connection[row["conn_id"]].append((row["last_ts"], 1, 0, row))
    for connection_rows in rows_by_connection.values():
        for _, is_end, _, row in sorted(connection_rows, key=lambda entry: entry[:3]):
            yield from reader.read_flow_end(row) if is_end else reader.read_message(row)
