"""Metrics of clients: what each client instance is to push, how often, and what is refused.

Source: KIP-714, Kafka's ClientMetricsManager and ClientMetricsInstance. All times are milliseconds of the cluster's
clock. Pinned by the conversations other-telemetry*.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import crc32c
import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.java_order import JavaSet, signed32, uuid_hash
from mockbroker.state.topics import java_hash

#: In the order in which Kafka would have them: zstd, lz4, gzip, snappy.
COMPRESSION_TYPES = (4, 3, 1, 2)
INTERVAL_DEFAULT_MS = 300_000
ALL_METRICS = "*"

_NONE = 0
_INSTANCES_MAX = 16_384
_IDLE_MS = 60_000
#: Ids that no client may have: of nobody, and of the metadata topic.
_RESERVED_IDS = (bytes(16), bytes(15) + b"\1")


class Subscription(NamedTuple):
    """What is wanted of the clients that match: names of attributes and patterns of their values."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, re.Pattern[str]]

    def is_for(self, client: Mapping[str, str | None]) -> bool:
        """Whether a client matches in everything."""
        return all(
            (value := client.get(name)) is not None and pattern.fullmatch(value) for name, pattern in self.match.items()
        )


class Push(NamedTuple):
    """What a client pushes; size: of the metrics, compressed, in bytes."""

    subscription_id: int
    is_terminating: bool
    compression_type: int
    size: int


class Instance(msgspec.Struct):
    """One client: what it is told, and when it was heard of."""

    instance_id: bytes
    client: Mapping[str, str | None]
    version: int
    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int
    last_get_ms: int = 0
    last_push_ms: int = 0
    seen_ms: int = 0
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE


class Telemetry:
    """The client instances that one broker has heard of.

    subscriptions: those of the cluster, and the number of their last change. bytes_max: `telemetry.max.bytes`.
    """

    def __init__(self, subscriptions: Callable[[], tuple[int, Iterable[Subscription]]], *, bytes_max: int) -> None:
        self._subscriptions = subscriptions
        self.bytes_max = bytes_max
        self._instances: dict[bytes, Instance] = {}
        self._by_connection: dict[int, bytes] = {}

    def subscribe(
        self, instance_id: bytes, client: Mapping[str, str | None], *, connection_id: int, now_ms: int
    ) -> Instance:
        """Tell a client what to push.

        Raises: THROTTLING_QUOTA_EXCEEDED when it asks again too soon, unless its last push was refused for a reason
        that asking helps against.
        """
        instance = self._instance(instance_id, client, connection_id, now_ms)
        since_ms = now_ms - max(instance.last_get_ms, instance.last_push_ms)
        if since_ms >= instance.interval_ms:
            instance.last_get_ms = now_ms
        elif instance.last_error not in (
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ):
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.last_error = ErrorCode.NONE
        return instance

    def push(
        self, instance_id: bytes, client: Mapping[str, str | None], push: Push, *, connection_id: int, now_ms: int
    ) -> None:
        """Take what a client pushes.

        Raises: INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE,
        TELEMETRY_TOO_LARGE.
        """
        if instance_id in _RESERVED_IDS:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        instance = self._instance(instance_id, client, connection_id, now_ms)
        error = self._refusal(instance, push, now_ms)
        instance.last_error = error
        instance.is_terminating = push.is_terminating
        if error is not ErrorCode.NONE:
            raise KafkaError(error)

    def disconnect(self, connection_id: int) -> None:
        """Forget the client of a connection that is gone."""
        instance_id = self._by_connection.pop(connection_id, None)
        if instance_id is not None:
            self._instances.pop(instance_id, None)

    def _refusal(self, instance: Instance, push: Push, now_ms: int) -> ErrorCode:
        if instance.is_terminating:
            return ErrorCode.INVALID_REQUEST
        # The first push after a subscription may come at any time, as clients spread theirs.
        is_due = instance.last_get_ms > instance.last_push_ms or now_ms - instance.last_push_ms >= instance.interval_ms
        if is_due:
            instance.last_push_ms = now_ms
        elif not push.is_terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if push.subscription_id != instance.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if push.compression_type not in (_NONE, *COMPRESSION_TYPES):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if push.size > self.bytes_max else ErrorCode.NONE

    def _instance(
        self, instance_id: bytes, client: Mapping[str, str | None], connection_id: int, now_ms: int
    ) -> Instance:
        version, subscriptions = self._subscriptions()
        instance = self._instances.pop(instance_id, None)
        if instance is not None and now_ms - instance.seen_ms >= max(_IDLE_MS, 3 * instance.interval_ms):
            instance = None
        if instance is None or instance.version < version:
            known = client if instance is None else instance.client
            instance = _made(instance_id, known, version, subscriptions)
            self._by_connection[connection_id] = instance_id
        instance.seen_ms = now_ms
        self._instances[instance_id] = instance  # At the end: who was heard of last is forgotten last.
        if len(self._instances) > _INSTANCES_MAX:
            del self._instances[next(iter(self._instances))]
        return instance


def _made(
    instance_id: bytes, client: Mapping[str, str | None], version: int, subscriptions: Iterable[Subscription]
) -> Instance:
    wanted = [one for one in subscriptions if one.is_for(client)]
    metrics = JavaSet(java_hash, (name for one in wanted for name in one.metrics))
    if ALL_METRICS in metrics:
        metrics = JavaSet(java_hash, (ALL_METRICS,))
    interval_ms = min((one.interval_ms for one in wanted), default=INTERVAL_DEFAULT_MS)
    names = tuple(metrics)
    # The longest interval of a subscription is longer than the default, which then counts.
    interval_ms = min(interval_ms, INTERVAL_DEFAULT_MS)
    checksum = crc32c.crc32c(f"[{', '.join(names)}]{interval_ms}".encode())
    return Instance(instance_id, client, version, names, interval_ms, signed32(checksum ^ uuid_hash(instance_id)))
