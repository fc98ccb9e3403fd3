"""The timeout of requests that the controller processes."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError


def check_controller_timeout(timeout_ms: int) -> None:
    """Refuse a request whose time is over when the controller receives it; here the controller never takes longer.

    Source: Kafka's QuorumController; pinned by the conversation other-admin-negative-timeout.
    Raises: REQUEST_TIMED_OUT.
    """
    if timeout_ms <= 0:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
