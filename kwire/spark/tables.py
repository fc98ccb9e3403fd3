"""From capture files to the tables of a report: every analysis once, as DataFrames that nothing has computed yet."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.capture.schemas import LEVELS as LEVELS_OF
from kwire.capture.share_timeline import context, reading
from kwire.registry import DEFAULT_EDITION, api_name
from kwire.spark import analyses, here
from kwire.spark.analyses.conformance import API_VERSIONS
from kwire.spark.analyses.rebalances import API_KEYS
from kwire.spark.share_timeline import local_timeline, share_timeline

# The bodies that analyses look into; those of other APIs are never rendered.
BODIES = (*{*map(api_name, (*API_KEYS, API_VERSIONS)), *reading.APIS, *context.APIS},)

_PLAIN = [column.name for column in LEVELS_OF["messages"] if not column.name.startswith("body_")]
_DETAILS = [column.name for column in LEVELS_OF["messages"] if column.name != "issues"]
# What is read, by the names in `Levels`: the level, and more options.
LEVELS: dict[str, tuple[str, dict[str, str]]] = {
    "messages": ("messages", {"columns": ",".join(_PLAIN)}),
    "details": ("messages", {"columns": ",".join(_DETAILS), "filter": f"api in ({', '.join(BODIES)})"}),
    "partitions": ("partitions", {}),
    "acquired": ("share_acquired", {}),
    "acks": ("share_acks", {}),
    "flows": ("flows", {}),
    "records": ("records", {}),
}

# Bytes of captures that are decoded in this process: one task of Spark would read them all as well.
HERE_MAX = 16 * 1024 * 1024

# Records whose lives are drawn line by line.
LIVES_MAX = 16


@dataclass(frozen=True)
class Levels:
    """The levels of some captures. `details` holds the messages of the APIs in `BODIES`, with their bodies.

    `records` is there only where the content of records was asked for. `here` holds levels that were decoded in this
    process, by name.
    """

    messages: DataFrame
    details: DataFrame
    partitions: DataFrame
    acquired: DataFrame
    acks: DataFrame
    flows: DataFrame
    records: DataFrame | None = None
    here: Mapping[str, pa.Table] = field(default_factory=dict)
    edition: str = DEFAULT_EDITION

    def release(self) -> None:
        """Forget what was decoded."""
        for each in fields(self):
            level = getattr(self, each.name)
            if isinstance(level, DataFrame):
                level.unpersist()

    def timeline(self) -> DataFrame:
        """The timeline of all share partitions."""
        if not self.here:
            return share_timeline(self.details, self.flows, edition=self.edition)
        made = local_timeline(self.here["details"], self.here["flows"], edition=self.edition)
        return here.frame(self.details.sparkSession, made)


def read(spark: SparkSession, files: Sequence[str], options: Mapping[str, str] | None) -> Levels:
    """The levels of these files; each is decoded once."""
    asked = {name: {**(options or {}), **more, "level": level} for name, (level, more) in LEVELS.items()}
    edition = (options or {}).get("edition", DEFAULT_EDITION)
    if (options or {}).get("payload") != "true":
        del asked["records"]
    if is_small(files, HERE_MAX):
        decoded = {name: here.table(files, each) for name, each in asked.items()}
        frames: dict[str, Any] = {name: here.frame(spark, table) for name, table in decoded.items()}
        return Levels(**frames, here=decoded, edition=edition)
    # Several analyses ask the same rows, and decoding is what costs; records are asked once, for a few.
    source = {
        name: spark.read.format("kafka_capture").options(**each).load(list(files)) for name, each in asked.items()
    }
    kept: dict[str, Any] = {name: rows if name == "records" else rows.persist() for name, rows in source.items()}
    return Levels(**kept, edition=edition)


def is_small(files: Sequence[str], size_max: int) -> bool:
    """Whether all of these are files of this machine, and together no larger."""
    known = [os.path.getsize(file) for file in files if os.path.isfile(file)]
    return len(known) == len(files) and sum(known) <= size_max


def tables(levels: Levels, *, start_us: int, step_us: int, has_shares: bool) -> dict[str, DataFrame]:
    """Every table of the report by name; spans of time begin at `start_us` and are `step_us` long.

    Args: has_shares: there are share groups in these captures.
    """
    spans = {"start_us": start_us, "step_us": step_us}
    messages, partitions, flows = levels.messages, levels.partitions, levels.flows
    failures = analyses.failures(messages, partitions).persist()
    tried = analyses.attempts(levels.acquired, levels.acks).persist()
    found = analyses.conformance(messages, levels.details, partitions, tried).persist()
    linked = analyses.connections(flows, messages)
    return {
        "totals": analyses.totals(messages),
        "statuses": analyses.statuses(messages),
        "latency": analyses.latency(messages),
        "slowest": analyses.slowest(messages),
        "traffic": analyses.traffic(messages, **spans),
        "failures": failures,
        "errors": analyses.errors(failures),
        "errors_over_time": analyses.errors_over_time(failures, **spans),
        "clients": analyses.clients(messages),
        "client_versions": analyses.client_versions(messages),
        "batch_sizes": analyses.batch_sizes(analyses.request_sizes(partitions)),
        "connections": linked,
        "troubles": analyses.troubles(linked),
        "churn": analyses.churn(flows, **spans),
        "depth": analyses.depth(messages, **spans),
        "conformance": found,
        "breaches": analyses.breaches(found),
        **_groups(levels),
        **(_shares(levels, tried, start_us=start_us, step_us=step_us) if has_shares else {}),
    }


def _groups(levels: Levels) -> dict[str, DataFrame]:
    steps = analyses.membership(levels.details).persist()
    return {"membership": steps, "rebalances": analyses.rebalances(steps)}


def _shares(levels: Levels, tried: DataFrame, *, start_us: int, step_us: int) -> dict[str, DataFrame]:
    acquired, acks = levels.acquired, levels.acks
    fates = analyses.outcomes(acquired, acks).persist()
    held = analyses.lock_times(tried)
    # On a page there is room for records that only came again once: the worst come first.
    poison = analyses.poison_records(fates, deliveries_min=2)
    worst = poison.orderBy(F.col("delivery_count_max").desc(), *analyses.RECORD).limit(LIVES_MAX)
    shown = {} if levels.records is None else {"contents": analyses.contents(levels.records, poison)}
    return {
        **shown,
        "attempts": tried,
        "deliveries_by_count": analyses.deliveries_by_count(acquired),
        "deliveries_over_time": analyses.deliveries_over_time(acquired, start_us=start_us, step_us=step_us),
        "outcomes": fates,
        "fates": fates.groupBy("group_id", "outcome").agg(F.count("*").alias("records")),
        "redeliveries": analyses.redeliveries(fates),
        "acknowledgements": analyses.acknowledgements(acks),
        "poison_records": poison,
        "life_lines": analyses.life_lines(tried, worst),
        "lock_times": held,
        "lock_use": analyses.lock_use(held),
        "share_timeline": levels.timeline().persist(),
    }
