"""The state of every share partition over time, computed by Spark from the level `messages`: `share_timeline`.

    messages = spark.read.format("kafka_capture").load(files)
    flows = spark.read.format("kafka_capture").option("level", "flows").load(files)
    share_timeline(messages, flows).orderBy("group_id", "topic", "partition", "number").show()

The rules are those of `kwire.capture.share_timeline`, which returns the same rows without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from heapq import merge
from itertools import groupby, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.capture.share_timeline import (
    DELIVERY_COUNT_LIMIT,
    LOCK_DURATION_MS,
    PartitionTimeline,
    event_context,
    event_reader,
    iterate_timeline,
)
from kwire.capture.share_timeline.event_context import ContextEvent, EventContext
from kwire.capture.share_timeline.event_reader import ConnectionReader
from kwire.capture.share_timeline.events import Event, EventKind, event_sort_key
from kwire.capture.share_timeline.share_partition_machine import SharePartitionMachine
from kwire.registry import DEFAULT_EDITION

__all__ = ["local_timeline", "share_timeline"]

#: Limit of the names, configurations and deletions read from the captures; they are serialized to every task.
FACTS_MAX = 100_000

_BATCH_ROWS = 4_096
_PARTITION_KEY = ("group_id", "topic_id", "partition")
_TIME_COLUMNS = ("req_ts", "req_end_ts", "resp_ts", "resp_end_ts")
_FACT = "kind string, ts long, group_id string, topic_id string, topic string, partition int, value long, epoch long"
_EVENT = (
    "ts long, kind int, group_id string, topic_id string, partition int, member_id string, start long, complete int, "
    "note string, lock_ms int, error_code int, file string, conn_id string, correlation_id int, runs array<array<long>>"
)
_ROW = (
    "group_id string, topic string, topic_id string, partition int, ts long, number long, first_offset long, "
    "last_offset long, state string, delivery_count int, member_id string, cause string, is_inferred boolean, "
    "start_offset long, end_offset long, stored_start_offset long, delivery_complete_count long, available long, "
    "acquired long, acknowledged long, archived long, file string, conn_id string, correlation_id int"
)
_US = 1_000
_FLOW_COLUMNS = ("last_ts", "ended", "ended_by", "kind")


def share_timeline(
    messages: DataFrame,
    flows: DataFrame | None = None,
    *,
    delivery_count_limit: int = DELIVERY_COUNT_LIMIT,
    lock_duration_ms: int = LOCK_DURATION_MS,
    topics: Mapping[str, str] | None = None,
    edition: str = DEFAULT_EDITION,
) -> DataFrame:
    """The transitions of all share partitions; `number` is their order within each.

    Two small queries run immediately: for facts about many share partitions, and for the end of the capture. The rest
    is computed with the result. A task holds the sessions of one connection, or one share partition, at a time.
    Args: messages: the level `messages`, with bodies. flows: the level `flows`; without it, a session that ends with
        its connection is not detected. delivery_count_limit: for groups without a message that contains it.
        lock_duration_ms: where no response contains it, as in editions before 4.3. topics: names by id. edition: the
        one that the captures were read with.
    """
    known = _collect_context(messages, topics or {})
    limits = {"delivery_count_limit": delivery_count_limit, "lock_duration_ms": lock_duration_ms}
    work = partial(_transitions, known=known, until=_last_time(messages), limits=limits)
    events = _rows_of_connections(messages, flows).mapInArrow(partial(_events, edition=edition), _EVENT)
    order = (*_PARTITION_KEY, "ts", "kind", "file", "conn_id", "correlation_id")
    in_order = events.repartition(*_PARTITION_KEY).sortWithinPartitions(*order)
    return in_order.mapInArrow(work, _ROW).withColumn("ts", F.timestamp_micros("ts"))


def local_timeline(messages: pa.Table, flows: pa.Table, *, edition: str = DEFAULT_EDITION) -> pa.Table:
    """The same rows, computed in this process from Arrow tables of the levels."""
    timelines = iterate_timeline(_plain_rows_of_table(messages), _plain_rows_of_table(flows), edition=edition)
    rows = pa.Table.from_batches(_transition_batches(timelines), _ROWS_SCHEMA).combine_chunks()
    stamps = pc.cast(rows["ts"], pa.timestamp("us", tz="UTC"))
    return rows.set_column(rows.schema.get_field_index("ts"), "ts", stamps)


def _rows_of_connections(messages: DataFrame, flows: DataFrame | None) -> DataFrame:
    """The columns that are read of the messages, followed by the end of each connection."""
    shared = messages.filter(F.col("api_name").isin(*event_reader.APIS)).select(
        *(_micros(name).alias(name) if name.endswith("_ts") else F.col(name) for name in event_reader.COLUMNS),
        F.coalesce(_micros("req_ts"), F.lit(0)).alias("moment"),
        F.lit(0).alias("place"),
        *(F.lit(None).cast("string").alias(name) for name in ("ended", "ended_by")),
        F.lit(None).cast("long").alias("last_ts"),
    )
    if flows is not None:
        last_us = _micros("last_ts")
        ends = flows.filter(F.col("kind") == "kafka").select(
            *("file", "conn_id", "ended", "ended_by"),
            *(last_us.alias("moment"), F.lit(1).alias("place"), last_us.alias("last_ts")),
        )
        shared = shared.unionByName(ends, allowMissingColumns=True)
    return shared.repartition("conn_id").sortWithinPartitions("conn_id", "moment", "place", "correlation_id")


def _micros(name: str) -> Column:
    return F.unix_micros(name)


def _collect_context(messages: DataFrame, topics: Mapping[str, str]) -> EventContext:
    metadata = messages.filter(F.col("api_name").isin(*event_context.APIS)).select(
        "api_name", _micros("resp_ts").alias("resp_ts"), "body_request", "body_response"
    )
    # Leaders are repeated in many messages: one row for each is enough.
    repeated_ts = F.when(F.col("kind") != "leader", F.col("ts"))
    columns = [column.split(" ")[0] for column in _FACT.split(", ")]
    keys = [name for name in columns if name != "ts"]
    facts = metadata.mapInArrow(_facts, _FACT).groupBy(*keys, repeated_ts.alias("repeated_ts"))
    # If there are too many facts, leaders are dropped first: every topic has some, shared or not.
    distinct_facts = facts.agg(F.min("ts").alias("ts")).select(*columns).orderBy(F.col("kind") == "leader")
    rows = distinct_facts.limit(FACTS_MAX).collect()
    names = [ContextEvent("name", 0, topic_id=topic_id, topic=name) for topic_id, name in topics.items()]
    return EventContext([*names, *(ContextEvent(*row)._replace(ts=row["ts"] * _US) for row in rows)])


def _last_time(messages: DataFrame) -> int:
    last = messages.agg(*(F.max(_micros(name)) for name in _TIME_COLUMNS)).collect()[0]
    return max((moment * _US for moment in last if moment is not None), default=0)


# Functions that run in the workers, on plain rows. Spark's times are microseconds, those of the machine nanoseconds.


def _facts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    facts = (fact._asdict() for row in _plain_rows(batches) for fact in event_context.read_context_events(row))
    return _to_batches(({**fact, "ts": fact["ts"] // _US} for fact in facts), _FACTS_SCHEMA)


def _events(batches: Iterable[pa.RecordBatch], *, edition: str) -> Iterator[pa.RecordBatch]:
    reader = ConnectionReader(edition)
    events = (
        event
        for row in _plain_rows(batches)
        for event in (reader.read_flow_end(row) if row["place"] else reader.read_message(row))
    )
    rows = ({**event._asdict(), "ts": event.ts // _US, "kind": int(event.kind)} for event in events)
    return _to_batches(rows, _EVENTS_SCHEMA)


def _transitions(
    batches: Iterable[pa.RecordBatch], *, known: EventContext, until: int, limits: dict[str, int]
) -> Iterator[pa.RecordBatch]:
    return _transition_batches(_partition_timelines(_plain_rows(batches), known, until, limits))


def _partition_timelines(
    rows: Iterator[dict[str, Any]], known: EventContext, until: int, limits: dict[str, int]
) -> Iterator[PartitionTimeline]:
    for key, partition_rows in groupby(rows, key=lambda row: tuple(row[name] for name in _PARTITION_KEY)):
        group_id, topic_id, partition = key
        group_events = sorted(known.events_of_partition(group_id, topic_id, partition), key=event_sort_key)
        machine = SharePartitionMachine(**limits)
        transitions = machine.run(merge(map(_event, partition_rows), group_events, key=event_sort_key), until)
        yield PartitionTimeline(group_id, known.names.get(topic_id), topic_id, partition, transitions)


def _event(row: dict[str, Any]) -> Event:
    fields = {**row, "kind": EventKind(row["kind"]), "runs": tuple(map(tuple, row["runs"] or ()))}
    return Event(**fields)


def _plain_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """The rows as dicts, with times in nanoseconds."""
    for batch in batches:
        for row in batch.to_pylist():
            yield {name: _nanoseconds(value) if _is_time(name) else value for name, value in row.items()}


def _plain_rows_of_table(table: pa.Table) -> Iterator[dict[str, Any]]:
    names = [name for name in (*event_reader.COLUMNS, *_FLOW_COLUMNS, *_TIME_COLUMNS) if name in table.schema.names]
    columns = {name: table[name] for name in dict.fromkeys(names)}
    times = {name: pc.cast(column, pa.int64()) for name, column in columns.items() if _is_time(name)}
    return _plain_rows(pa.table({**columns, **times}).to_batches())


def _is_time(name: str) -> bool:
    return name == "ts" or name.endswith("_ts")


def _nanoseconds(us: int | None) -> int | None:
    return None if us is None else us * _US


def _transition_batches(timelines: Iterable[PartitionTimeline]) -> Iterator[pa.RecordBatch]:
    for *partition_key, transitions in timelines:
        remaining = iter(transitions)
        while chunk := list(islice(remaining, _BATCH_ROWS)):
            key_columns = ([value] * len(chunk) for value in partition_key)
            times, *others = zip(*chunk, strict=True)
            columns = (*key_columns, [ts // _US for ts in times], *others)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, _ROWS_SCHEMA, strict=True)]
            yield pa.record_batch(arrays, schema=_ROWS_SCHEMA)


def _to_batches(rows: Iterator[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while chunk := list(islice(rows, _BATCH_ROWS)):
        yield pa.RecordBatch.from_pylist(chunk, schema)


_ARROW = {
    "string": pa.string(),
    "long": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "array<array<long>>": pa.list_(pa.list_(pa.int64())),
}


def _schema(columns: str) -> pa.Schema:
    return pa.schema([(name, _ARROW[kind]) for name, kind in (column.split(" ") for column in columns.split(", "))])


_FACTS_SCHEMA, _EVENTS_SCHEMA, _ROWS_SCHEMA = _schema(_FACT), _schema(_EVENT), _schema(_ROW)
