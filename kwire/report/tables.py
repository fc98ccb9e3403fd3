"""The tables of a report: every analysis once, as DataFrames that are built when they are used."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.report.lazy_tables import LazyTable, LazyTables, TableBuilder
from kwire.report.levels import Levels
from kwire.spark import analyses

# Number of records whose deliveries are drawn line by line.
RECORD_LINES_MAX = 16


def build_tables(levels: Levels, *, start_us: int, step_us: int, has_shares: bool) -> LazyTables[DataFrame]:
    """Every table of the report by name; time bins begin at `start_us` and are `step_us` long.

    Building a DataFrame has Spark analyse it, which takes as long as a query of little data: each is built by the
    thread that uses it first.
    Args: has_shares: whether the captures contain share requests.
    """
    spans = {"start_us": start_us, "step_us": step_us}
    messages, partitions, flows = levels.messages, levels.partitions, levels.flows
    failures = LazyTable(lambda: analyses.failures(messages, partitions).persist())
    deliveries = LazyTable(levels.attempts)
    breaches = LazyTable(lambda: levels.breaches(deliveries).persist())
    connections = LazyTable(lambda: analyses.connections(flows, messages).persist())
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
        "batch_sizes": lambda: analyses.batch_sizes(
            analyses.request_sizes(partitions), codecs=analyses.codecs_used(partitions)
        ),
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
    outcomes = LazyTable(levels.outcomes)
    lock_times = LazyTable(lambda: levels.lock_times(deliveries))
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
        "share_timeline": levels.timeline,
    }


def _worst_records(poison: DataFrame) -> DataFrame:
    return poison.orderBy(F.col("delivery_count_max").desc(), *analyses.RECORD).limit(RECORD_LINES_MAX)


def _record_tables(records: DataFrame, poison: LazyTable[DataFrame]) -> dict[str, TableBuilder[DataFrame]]:
    return {
        "contents": lambda: analyses.contents(records, poison()),
        "dead_letters": lambda: analyses.dead_letters(records),
    }
