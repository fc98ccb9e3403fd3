"""How many records of the metadata log one request may cause, and how many a change of configuration causes.

Source: QuorumController.MAX_RECORDS_PER_USER_OP; counts and answers asked of a real 4.4.0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.configs import Resource

#: Kafka's controller writes at most this many records for one request.
RECORDS_MAX = 10_000
#: With eligible leader replicas each record of this configuration is followed by one that clears them (KIP-966).
_MIN_INSYNC = "min.insync.replicas"


def check_record_count(count: int) -> None:
    """Refuse a whole request that causes too many records. Raises: POLICY_VIOLATION."""
    if count > RECORDS_MAX:
        message = f"the request causes {count} records of the metadata log, more than {RECORDS_MAX}"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message)


def check_row_count(count: int) -> None:
    """Refuse a whole request with too many rows, whose results Kafka's controller collects as it does records.

    Raises: POLICY_VIOLATION.
    """
    if count > RECORDS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"the request has {count} rows, more than {RECORDS_MAX}")


def count_config_records(
    resource: Resource, before: Mapping[str, str], after: Mapping[str, str], named: Collection[str], *, has_elr: bool
) -> int:
    """The records of a change of one resource. named: the keys of the request.

    A broker's have a record even if the value stays, so that brokers read files again (KAFKA-14136).
    """
    written = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    if resource.is_broker:
        written.update(named)
    return len(written) + (has_elr and _MIN_INSYNC in written)
