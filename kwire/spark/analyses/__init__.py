"""Ready analyses of captures: functions from DataFrames of the levels to a DataFrame, computed by Spark.

`messages`, `partitions`, `acquired`, `acks` and `flows` are the levels `messages`, `partitions`, `share_acquired`,
`share_acks` and `flows` of `kafka_capture`.
"""

from __future__ import annotations

from kwire.spark.analyses.clients import batch_sizes, client_versions, clients, codecs_used, request_sizes
from kwire.spark.analyses.common import DELIVERY_COUNT_LIMIT, RECORD
from kwire.spark.analyses.conformance import (
    breaches,
    conformance,
    late_acknowledgements,
    message_breaches,
    response_order,
    sequence_gaps,
    versions_not_offered,
)
from kwire.spark.analyses.connections import connection_churn, connection_problems, connections, requests_in_flight
from kwire.spark.analyses.deliveries import (
    archived,
    contents,
    dead_letters,
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
from kwire.spark.analyses.locks import acknowledgements, attempts, delivery_histories, lock_times, lock_use
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
    "client_versions",
    "clients",
    "codecs_used",
    "conformance",
    "message_breaches",
    "connection_churn",
    "connection_problems",
    "connections",
    "contents",
    "dead_letters",
    "deliveries_by_count",
    "deliveries_over_time",
    "delivery_counts",
    "delivery_histories",
    "errors",
    "errors_over_time",
    "failures",
    "last_acknowledgements",
    "late_acknowledgements",
    "latency",
    "lock_times",
    "lock_use",
    "membership",
    "outcomes",
    "overview",
    "poison_records",
    "rebalances",
    "redeliveries",
    "request_sizes",
    "requests_in_flight",
    "response_order",
    "sequence_gaps",
    "slowest",
    "statuses",
    "totals",
    "traffic",
    "versions_not_offered",
]
