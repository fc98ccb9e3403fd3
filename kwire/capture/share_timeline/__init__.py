"""The state of share partitions over time, rebuilt from the traffic of a capture alone.

    for row in share_timeline(rows(path, "messages"), rows(path, "flows")):
        print(row["ts"], row["group_id"], row["first_offset"], row["last_offset"], row["state"], row["cause"])

It needs the JSON bodies of the level `messages`. `kwire.spark.share_timeline` does the same with DataFrames.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from kwire.capture.rows import Row
from kwire.capture.share_timeline import context, reading
from kwire.capture.share_timeline.context import Context, Facts, facts
from kwire.capture.share_timeline.events import CAUSES, Event, Told, Transition, place_in_time
from kwire.capture.share_timeline.machine import DELIVERY_COUNT_LIMIT, LOCK_DURATION_MS, SharePartitionMachine
from kwire.capture.share_timeline.reading import ConnectionReader
from kwire.registry import DEFAULT_EDITION

__all__ = ["APIS", "CAUSES", "DELIVERY_COUNT_LIMIT", "LOCK_DURATION_MS", "Transition", "share_timeline"]

#: The APIs whose messages tell anything here; rows of others may be left out.
APIS = tuple(dict.fromkeys((*reading.APIS, *context.APIS)))
_MOMENTS = ("req_ts", "req_end_ts", "resp_ts", "resp_end_ts")


def share_timeline(
    messages: Iterable[Told],
    flows: Iterable[Told] = (),
    *,
    delivery_count_limit: int = DELIVERY_COUNT_LIMIT,
    lock_duration_ms: int = LOCK_DURATION_MS,
    topics: Mapping[str, str] | None = None,
    edition: str = DEFAULT_EDITION,
) -> list[Row]:
    """The transitions of all share partitions in some captures, by group, topic and partition, each in its order.

    Args: messages: rows of the level `messages`, with bodies. flows: rows of the level `flows`; without them a member
        that dies is not seen to end its session. delivery_count_limit: of groups of which no message tells it.
        lock_duration_ms: where no answer tells it, as in editions before 4.3. topics: names by id, for topics that no
        message names. edition: in which the captures were read.
    """
    found: list[Told] = []
    told = Facts()
    until = 0
    for row in messages:
        for fact in facts(row):
            told.add(fact)
        until = max(until, *(row[moment] or 0 for moment in _MOMENTS))
        if row["api_name"] in reading.APIS:
            found.append(row)
    known = Context(told)
    known.names = {**(topics or {}), **known.names}
    by_place: dict[tuple[str, str, int], list[Event]] = defaultdict(list)
    for event in events(found, flows, edition):
        by_place[event.group_id, event.topic_id or "", event.partition or 0].append(event)
    made: list[Row] = []
    for (group_id, topic_id, partition), mine in by_place.items():
        place = {"group_id": group_id, "topic": known.names.get(topic_id), "topic_id": topic_id, "partition": partition}
        machine = SharePartitionMachine(delivery_count_limit=delivery_count_limit, lock_duration_ms=lock_duration_ms)
        told_of = machine.run(
            sorted(chain(mine, known.events(group_id, topic_id, partition)), key=place_in_time), until
        )
        made += [{**place, **transition._asdict()} for transition in told_of]
    made.sort(key=lambda row: (str(row["group_id"]), str(row["topic"] or ""), str(row["topic_id"]), row["partition"]))
    return made


def events(messages: Iterable[Told], flows: Iterable[Told], edition: str = DEFAULT_EDITION) -> Iterator[Event]:
    """The events of all connections, one connection after the other."""
    reader = ConnectionReader(edition)
    of_connections: dict[str, list[tuple[int, int, int, Told]]] = defaultdict(list)
    for row in messages:
        of_connections[row["conn_id"]].append((row["req_ts"] or 0, 0, row["correlation_id"] or 0, row))
    for row in flows:
        if row["conn_id"] in of_connections:
            of_connections[row["conn_id"]].append((row["last_ts"], 1, 0, row))
    for mine in of_connections.values():
        for _, is_end, _, row in sorted(mine, key=lambda each: each[:3]):
            yield from reader.end(row) if is_end else reader.read(row)
