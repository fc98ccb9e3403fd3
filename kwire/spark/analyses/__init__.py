"""Ready analyses of captures: each takes DataFrames of the levels and gives a DataFrame, computed by Spark.

`messages`, `partitions`, `acquired`, `acks` and `flows` are the levels `messages`, `partitions`, `share_acquired`,
`share_acks` and `flows` of `kafka_capture`.
"""

from __future__ import annotations

from kwire.spark.analyses.clients import batch_sizes, client_versions, clients, request_sizes
from kwire.spark.analyses.common import DELIVERY_COUNT_LIMIT, RECORD
from kwire.spark.analyses.conformance import (
    breaches,
    conformance,
    late_acknowledgements,
    response_order,
    sequence_gaps,
    versions_not_offered,
)
from kwire.spark.analyses.connections import churn, connections, depth, troubles
from kwire.spark.analyses.deliveries import (
    archived,
    contents,
    deliveries_by_count,
    deliveries_over_time,
    delivery_counts,
    last_acknowledgements,
    outcomes,
    poison_records,
    redeliveries,
)
from kwire.spark.analyses.errors import errors, errors_over_time, failures
from kwire.spark.analyses.latency import latency, slowest
from kwire.spark.analyses.locks import acknowledgements, attempts, life_lines, lock_times, lock_use
from kwire.spark.analyses.overview import overview, statuses, totals, traffic
from kwire.spark.analyses.rebalances import membership, rebalances

__all__ = [
    "DELIVERY_COUNT_LIMIT",
    "RECORD",
    "acknowledgements",
    "archived",
    "attempts",
    "batch_sizes",
    "breaches",
    "churn",
    "client_versions",
    "clients",
    "conformance",
    "connections",
    "contents",
    "deliveries_by_count",
    "deliveries_over_time",
    "delivery_counts",
    "depth",
    "errors",
    "errors_over_time",
    "failures",
    "last_acknowledgements",
    "late_acknowledgements",
    "latency",
    "life_lines",
    "lock_times",
    "lock_use",
    "membership",
    "outcomes",
    "overview",
    "poison_records",
    "rebalances",
    "redeliveries",
    "request_sizes",
    "response_order",
    "sequence_gaps",
    "slowest",
    "statuses",
    "totals",
    "traffic",
    "troubles",
    "versions_not_offered",
]
