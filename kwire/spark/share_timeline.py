"""`share_timeline`: the state of every share partition over time, computed by Spark from the level `messages`.

    messages = spark.read.format("kafka_capture").load(files)
    flows = spark.read.format("kafka_capture").option("level", "flows").load(files)
    share_timeline(messages, flows).orderBy("group_id", "topic", "partition", "number").show()

The rules are those of `kwire.capture.share_timeline`, which gives the same rows without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from heapq import merge
from itertools import groupby, islice
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.capture.share_timeline import DELIVERY_COUNT_LIMIT, LOCK_DURATION_MS, context, reading
from kwire.capture.share_timeline import share_timeline as plain_timeline
from kwire.capture.share_timeline.context import Context, Fact
from kwire.capture.share_timeline.events import Event, Kind, place_in_time
from kwire.capture.share_timeline.machine import SharePartitionMachine
from kwire.capture.share_timeline.reading import ConnectionReader
from kwire.registry import DEFAULT_EDITION

#: Names, limits and deletions that are read from the captures; they travel to every task.
FACTS_MAX = 100_000

_BATCH_ROWS = 4_096
_PLACE = ("group_id", "topic_id", "partition")
_MOMENTS = ("req_ts", "req_end_ts", "resp_ts", "resp_end_ts")
_FACT = "what string, ts long, group_id string, topic_id string, topic string, partition int, value long, epoch long"
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
_OF_FLOWS = ("last_ts", "ended", "ended_by", "kind")


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

    Two small questions are asked at once, for what concerns many share partitions and for the end of the capture; the
    rest is computed when the result is. A task holds one connection's sessions, or one share partition, at a time.
    Args: messages: the level `messages`, with bodies. flows: the level `flows`; without it a member that dies is not
        seen to end its session. delivery_count_limit: of groups of which no message tells it. lock_duration_ms: where
        no answer tells it, as in editions before 4.3. topics: names by id. edition: in which the captures were read.
    """
    known = _context(messages, topics or {})
    limits = {"delivery_count_limit": delivery_count_limit, "lock_duration_ms": lock_duration_ms}
    work = partial(_transitions, known=known, until=_until(messages), limits=limits)
    events = _rows_of_connections(messages, flows).mapInArrow(partial(_events, edition=edition), _EVENT)
    in_order = events.repartition(*_PLACE).sortWithinPartitions(
        *_PLACE, "ts", "kind", "file", "conn_id", "correlation_id"
    )
    return in_order.mapInArrow(work, _ROW).withColumn("ts", F.timestamp_micros("ts"))


def local_timeline(messages: pa.Table, flows: pa.Table, *, edition: str = DEFAULT_EDITION) -> pa.Table:
    """The same of levels that this process has already."""
    made = plain_timeline(_local(messages), _local(flows), edition=edition)
    rows = pa.Table.from_pylist([{**row, "ts": cast(int, row["ts"]) // _US} for row in made], _ROWS_SCHEMA)
    stamps = pc.cast(rows["ts"], pa.timestamp("us", tz="UTC"))
    return rows.set_column(rows.schema.get_field_index("ts"), "ts", stamps)


def _rows_of_connections(messages: DataFrame, flows: DataFrame | None) -> DataFrame:
    """What is read of the messages, and each connection's end behind them."""
    shared = messages.filter(F.col("api_name").isin(*reading.APIS)).select(
        *(_micros(name).alias(name) if name.endswith("_ts") else F.col(name) for name in reading.COLUMNS),
        F.coalesce(_micros("req_ts"), F.lit(0)).alias("moment"),
        F.lit(0).alias("place"),
        *(F.lit(None).cast("string").alias(name) for name in ("ended", "ended_by")),
        F.lit(None).cast("long").alias("last_ts"),
    )
    if flows is not None:
        ends = flows.filter(F.col("kind") == "kafka").select(
            "file",
            "conn_id",
            _micros("last_ts").alias("moment"),
            F.lit(1).alias("place"),
            *("ended", "ended_by"),
            _micros("last_ts").alias("last_ts"),
        )
        shared = shared.unionByName(ends, allowMissingColumns=True)
    return shared.repartition("conn_id").sortWithinPartitions("conn_id", "moment", "place", "correlation_id")


def _micros(name: str) -> Column:
    return F.unix_micros(name)


def _context(messages: DataFrame, topics: Mapping[str, str]) -> Context:
    told = messages.filter(F.col("api_name").isin(*context.APIS)).select(
        "api_name", _micros("resp_ts").alias("resp_ts"), "body_request", "body_response"
    )
    # Who leads is told again and again: once is enough.
    again = F.when(F.col("what") != "leader", F.col("ts"))
    columns = [column.split(" ")[0] for column in _FACT.split(", ")]
    each = told.mapInArrow(_facts, _FACT).groupBy(*(name for name in columns if name != "ts"), again.alias("again"))
    found = each.agg(F.min("ts").alias("ts")).select(*columns).limit(FACTS_MAX).collect()
    names = [Fact("name", 0, topic_id=topic_id, topic=name) for topic_id, name in topics.items()]
    return Context([*names, *(Fact(*row)._replace(ts=row["ts"] * _US) for row in found)])


def _until(messages: DataFrame) -> int:
    last = messages.agg(*(F.max(_micros(name)) for name in _MOMENTS)).collect()[0]
    return max((moment * _US for moment in last if moment is not None), default=0)


# What runs in the workers: plain rows in, plain rows out. Spark's times are microseconds, ours nanoseconds.


def _facts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    made = (fact._asdict() for row in _plain(batches) for fact in context.facts(row))
    return _in_batches(({**fact, "ts": fact["ts"] // _US} for fact in made), _FACTS_SCHEMA)


def _events(batches: Iterable[pa.RecordBatch], *, edition: str) -> Iterator[pa.RecordBatch]:
    reader = ConnectionReader(edition)
    made = (event for row in _plain(batches) for event in (reader.end(row) if row["place"] else reader.read(row)))
    return _in_batches(
        ({**event._asdict(), "ts": event.ts // _US, "kind": int(event.kind)} for event in made), _EVENTS_SCHEMA
    )


def _transitions(
    batches: Iterable[pa.RecordBatch], *, known: Context, until: int, limits: dict[str, int]
) -> Iterator[pa.RecordBatch]:
    return _in_batches(_told(_plain(batches), known, until, limits), _ROWS_SCHEMA)


def _told(
    rows: Iterator[dict[str, Any]], known: Context, until: int, limits: dict[str, int]
) -> Iterator[dict[str, Any]]:
    for key, mine in groupby(rows, key=lambda row: tuple(row[name] for name in _PLACE)):
        group_id, topic_id, partition = key
        place = {"group_id": group_id, "topic": known.names.get(topic_id), "topic_id": topic_id, "partition": partition}
        wide = sorted(known.events(group_id, topic_id, partition), key=place_in_time)
        machine = SharePartitionMachine(**limits)
        for transition in machine.run(merge(map(_event, mine), wide, key=place_in_time), until):
            yield {**place, **transition._asdict(), "ts": transition.ts // _US}


def _event(row: dict[str, Any]) -> Event:
    fields = {**row, "kind": Kind(row["kind"]), "runs": tuple(map(tuple, row["runs"] or ()))}
    return Event(**fields)


def _plain(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """The rows as dicts, with their times in nanoseconds."""
    for batch in batches:
        for row in batch.to_pylist():
            yield {name: _nanoseconds(value) if _is_time(name) else value for name, value in row.items()}


def _local(table: pa.Table) -> Iterator[dict[str, Any]]:
    wanted = [name for name in (*reading.COLUMNS, *_OF_FLOWS, *_MOMENTS) if name in table.schema.names]
    columns = {name: table[name] for name in dict.fromkeys(wanted)}
    plain = {
        name: pc.cast(column, pa.int64()) if pa.types.is_timestamp(column.type) else column
        for name, column in columns.items()
    }
    return _plain(pa.table(plain).to_batches())


def _is_time(name: str) -> bool:
    return name == "ts" or name.endswith("_ts")


def _nanoseconds(us: int | None) -> int | None:
    return None if us is None else us * _US


def _in_batches(rows: Iterator[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
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
