"""The tables of a report: every analysis once, as DataFrames that are built when they are used."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.capture.rows.columns import LEVELS as LEVEL_COLUMNS
from kwire.capture.share_timeline import event_context, event_reader
from kwire.registry import DEFAULT_EDITION, api_name
from kwire.report import client_notes, local_tables
from kwire.report.lazy_tables import LazyTable, LazyTables, TableBuilder
from kwire.spark import analyses
from kwire.spark.analyses.conformance import API_VERSIONS
from kwire.spark.analyses.rebalances import API_KEYS
from kwire.spark.analyses.share_timeline import local_timeline, share_timeline

# The APIs whose bodies are used by analyses; bodies of other APIs are not rendered.
APIS_WITH_BODIES = (*{*map(api_name, (*API_KEYS, API_VERSIONS)), *event_reader.APIS, *event_context.APIS},)

_MESSAGE_COLUMNS = [column.name for column in LEVEL_COLUMNS["messages"] if not column.name.startswith("body_")]
_DETAIL_COLUMNS = [column.name for column in LEVEL_COLUMNS["messages"] if column.name != "issues"]
# By the field of `Levels`: the level to read, and additional options.
LEVEL_OPTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "messages": ("messages", {"columns": ",".join(_MESSAGE_COLUMNS)}),
    "details": (
        "messages",
        {"columns": ",".join(_DETAIL_COLUMNS), "filter": f"api in ({', '.join(APIS_WITH_BODIES)})"},
    ),
    "partitions": ("partitions", {}),
    "acquired": ("share_acquired", {}),
    "acks": ("share_acks", {}),
    "flows": ("flows", {}),
    "records": ("records", {}),
}

# Size limit of captures that are decoded in this process, bytes: Spark would read them in one task as well.
LOCAL_SIZE_MAX = 16 * 1024 * 1024

# Number of records whose deliveries are drawn line by line.
RECORD_LINES_MAX = 16


@dataclass(frozen=True)
class Levels:
    """The levels of some captures. `details`: the messages of the APIs in `APIS_WITH_BODIES`, with their bodies.

    `records` is None unless the content of records was requested. `local_tables`: levels that were decoded in this
    process, by name. `notes`: the conformance notes about captures that were decoded in this process.
    """

    messages: DataFrame
    details: DataFrame
    partitions: DataFrame
    acquired: DataFrame
    acks: DataFrame
    flows: DataFrame
    records: DataFrame | None = None
    local_tables: Mapping[str, pa.Table] = field(default_factory=dict)
    notes: pa.Table | None = None
    edition: str = DEFAULT_EDITION

    def unpersist(self) -> None:
        """Release the cached rows of all levels."""
        for level_field in fields(self):
            level = getattr(self, level_field.name)
            if isinstance(level, DataFrame):
                level.unpersist()

    def breaches(self, deliveries: DataFrame) -> DataFrame:
        """Breaches of rules. deliveries: the result of `attempts`.

        Those of clients in large captures are found by queries, which know fewer rules.
        """
        if self.notes is None:
            return analyses.conformance(self.messages, self.details, self.partitions, deliveries)
        notes = local_tables.to_data_frame(self.messages.sparkSession, self.notes)
        return analyses.message_breaches(self.messages).unionByName(notes)

    def timeline(self) -> DataFrame:
        """The timeline of all share partitions."""
        if not self.local_tables:
            return share_timeline(self.details, self.flows, edition=self.edition)
        transitions = local_timeline(self.local_tables["details"], self.local_tables["flows"], edition=self.edition)
        return local_tables.to_data_frame(self.details.sparkSession, transitions)


def read_levels(spark: SparkSession, files: Sequence[str], options: Mapping[str, str] | None) -> Levels:
    """The levels of these files; each is decoded once."""
    level_options = {name: {**(options or {}), **more, "level": level} for name, (level, more) in LEVEL_OPTIONS.items()}
    edition = (options or {}).get("edition", DEFAULT_EDITION)
    if (options or {}).get("payload") != "true":
        del level_options["records"]
    if fits_size(files, LOCAL_SIZE_MAX):
        decoded = {name: local_tables.read_table(files, texts) for name, texts in level_options.items()}
        frames: dict[str, Any] = {name: local_tables.to_data_frame(spark, table) for name, table in decoded.items()}
        notes = client_notes.read_notes(files, options)
        return Levels(**frames, local_tables=decoded, notes=notes, edition=edition)
    # Several analyses use the same rows, and decoding is expensive; records are read once, for a few of them.
    levels: dict[str, Any] = {}
    for name, texts in level_options.items():
        rows = spark.read.format("kafka_capture").options(**texts).load(list(files))
        levels[name] = rows if name == "records" else rows.persist()
    return Levels(**levels, edition=edition)


def fits_size(files: Sequence[str], size_max: int) -> bool:
    """Whether all of these are files of this machine with a total size of at most `size_max` bytes."""
    sizes = [os.path.getsize(file) for file in files if os.path.isfile(file)]
    return len(sizes) == len(files) and sum(sizes) <= size_max


def build_tables(levels: Levels, *, start_us: int, step_us: int, has_shares: bool) -> LazyTables[DataFrame]:
    """Every table of the report by name; time bins begin at `start_us` and are `step_us` long.

    Building a DataFrame has Spark analyse it, which takes as long as a query of little data: each is built by the
    thread that uses it first.
    Args: has_shares: whether the captures contain share requests.
    """
    spans = {"start_us": start_us, "step_us": step_us}
    messages, partitions, flows = levels.messages, levels.partitions, levels.flows
    failures = LazyTable(lambda: analyses.failures(messages, partitions).persist())
    deliveries = LazyTable(lambda: analyses.attempts(levels.acquired, levels.acks).persist())
    breaches = LazyTable(lambda: levels.breaches(deliveries()).persist())
    connections = LazyTable(lambda: analyses.connections(flows, messages))
    steps = LazyTable(lambda: analyses.membership(levels.details).persist())
    builders: dict[str, TableBuilder[DataFrame]] = {
        "totals": lambda: analyses.totals(messages),
        "statuses": lambda: analyses.statuses(messages),
        "latency": lambda: analyses.latency(messages),
        "slowest": lambda: analyses.slowest(messages),
        "traffic": lambda: analyses.traffic(messages, **spans),
        "failures": failures,
        "errors": lambda: analyses.errors(failures()),
        "errors_over_time": lambda: analyses.errors_over_time(failures(), **spans),
        "clients": lambda: analyses.clients(messages),
        "client_versions": lambda: analyses.client_versions(messages),
        "batch_sizes": lambda: analyses.batch_sizes(analyses.request_sizes(partitions)),
        "connections": connections,
        "connection_problems": lambda: analyses.connection_problems(connections()),
        "connection_churn": lambda: analyses.connection_churn(flows, **spans),
        "requests_in_flight": lambda: analyses.requests_in_flight(messages, **spans),
        "conformance": breaches,
        "breaches": lambda: analyses.breaches(breaches()),
        "membership": steps,
        "rebalances": lambda: analyses.rebalances(steps()),
    }
    if has_shares:
        builders |= _share_tables(levels, deliveries, spans)
    return LazyTables(builders)


def _share_tables(
    levels: Levels, deliveries: LazyTable[DataFrame], spans: dict[str, int]
) -> dict[str, TableBuilder[DataFrame]]:
    acquired, acks = levels.acquired, levels.acks
    outcomes = LazyTable(lambda: analyses.outcomes(acquired, acks).persist())
    lock_times = LazyTable(lambda: analyses.lock_times(deliveries()))
    # The page also shows records that were redelivered only once; those with most deliveries come first.
    poison = LazyTable(lambda: analyses.poison_records(outcomes(), deliveries_min=2))
    return {
        **(_record_tables(levels.records, poison) if levels.records is not None else {}),
        "attempts": deliveries,
        "deliveries_by_count": lambda: analyses.deliveries_by_count(acquired),
        "deliveries_over_time": lambda: analyses.deliveries_over_time(acquired, **spans),
        "outcomes": outcomes,
        "outcome_counts": lambda: outcomes().groupBy("group_id", "outcome").agg(F.count("*").alias("records")),
        "redeliveries": lambda: analyses.redeliveries(outcomes()),
        "acknowledgements": lambda: analyses.acknowledgements(acks),
        "poison_records": poison,
        "delivery_histories": lambda: analyses.delivery_histories(deliveries(), _worst_records(poison())),
        "lock_times": lock_times,
        "lock_use": lambda: analyses.lock_use(lock_times()),
        "share_timeline": lambda: levels.timeline().persist(),
    }


def _worst_records(poison: DataFrame) -> DataFrame:
    return poison.orderBy(F.col("delivery_count_max").desc(), *analyses.RECORD).limit(RECORD_LINES_MAX)


def _record_tables(records: DataFrame, poison: LazyTable[DataFrame]) -> dict[str, TableBuilder[DataFrame]]:
    return {
        "contents": lambda: analyses.contents(records, poison()),
        "dead_letters": lambda: analyses.dead_letters(records),
    }
