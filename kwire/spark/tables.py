"""From capture files to the tables of a report: every analysis once, as DataFrames that nothing has computed yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.capture.share_timeline import context, reading
from kwire.registry import api_name
from kwire.spark import analyses
from kwire.spark.analyses.conformance import API_VERSIONS
from kwire.spark.analyses.rebalances import API_KEYS
from kwire.spark.share_timeline import share_timeline

# The bodies that analyses look into; those of other APIs are never rendered.
BODIES = (*{*map(api_name, (*API_KEYS, API_VERSIONS)), *reading.APIS, *context.APIS},)

# Records whose lives are drawn line by line.
LIVES_MAX = 16


@dataclass(frozen=True)
class Levels:
    """The levels of some captures. `details` holds the messages of the APIs in `BODIES`, with their bodies.

    `records` is there only where the content of records was asked for.
    """

    messages: DataFrame
    details: DataFrame
    partitions: DataFrame
    acquired: DataFrame
    acks: DataFrame
    flows: DataFrame
    records: DataFrame | None

    def release(self) -> None:
        """Forget what was decoded."""
        for each in fields(self):
            level = getattr(self, each.name)
            if level is not None:
                level.unpersist()


def read(spark: SparkSession, files: Sequence[str], options: Mapping[str, str] | None) -> Levels:
    """The levels of these files; each is decoded once, when it is first asked."""

    def level(name: str, **more: str) -> DataFrame:
        """The rows of one level."""
        reader = spark.read.format("kafka_capture").option("level", name)
        return reader.options(**dict(options or {}), **more).load(list(files))

    bodies = ("body_request", "body_response")
    return Levels(
        # Several analyses ask the same rows, and decoding is what costs.
        messages=level("messages").drop(*bodies).persist(),
        details=level("messages", filter=f"api in ({', '.join(BODIES)})").drop("issues").persist(),
        partitions=level("partitions").persist(),
        acquired=level("share_acquired").persist(),
        acks=level("share_acks").persist(),
        flows=level("flows").persist(),
        # Asked once, for a few records: not worth keeping.
        records=level("records") if (options or {}).get("payload") == "true" else None,
    )


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
        "share_timeline": share_timeline(levels.details, levels.flows).persist(),
    }
