"""Client telemetry: subscriptions of client instances, push intervals and errors.

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
from kwire.errors import WireError
from kwire.records.compression import measure_decompressed
from kwire.records.record import Codec
from mockbroker.kafka_error import KafkaError
from mockbroker.state.java.hash_order import JavaSet, signed32, uuid_hash
from mockbroker.state.metadata.topics import java_hash

#: In Kafka's order of preference: zstd, lz4, gzip, snappy.
COMPRESSION_TYPES = (4, 3, 1, 2)
INTERVAL_DEFAULT_MS = 300_000
ALL_METRICS = "*"

_INSTANCES_MAX = 16_384
_IDLE_MS = 60_000
#: Ids that no client may have: the zero id, and the id of the metadata topic.
_RESERVED_IDS = (bytes(16), bytes(15) + b"\1")


#: The attributes of a client by name, None where it has not sent one.
Attributes = Mapping[str, str | None]


class MetricsSubscription(NamedTuple):
    """The metrics that matching clients push: names of attributes and patterns of their values."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, re.Pattern[str]]

    def matches_client(self, client: Attributes) -> bool:
        """Return whether a client matches all patterns."""
        values = ((client.get(name), pattern) for name, pattern in self.match.items())
        return all(value is not None and pattern.fullmatch(value) for value, pattern in values)


class MetricsPush(NamedTuple):
    """One push; metrics: as sent, compressed."""

    subscription_id: int
    is_terminating: bool
    compression_type: int
    metrics: bytes


class ClientInstance(msgspec.Struct):
    """One client: its subscription, and the times of its requests."""

    instance_id: bytes
    client: Attributes
    version: int
    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int
    last_get_ms: int = 0
    last_push_ms: int = 0
    seen_ms: int = 0
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE


class ClientTelemetry:
    """The client instances that one broker has seen.

    subscriptions: those of the cluster, and the number of their last change. bytes_max: `telemetry.max.bytes`.
    """

    def __init__(
        self, subscriptions: Callable[[], tuple[int, Iterable[MetricsSubscription]]], *, bytes_max: int
    ) -> None:
        self._subscriptions = subscriptions
        self.bytes_max = bytes_max
        self._instances: dict[bytes, ClientInstance] = {}
        self._by_connection: dict[int, bytes] = {}

    def get_subscription(
        self, instance_id: bytes, client: Attributes, *, connection_id: int, now_ms: int
    ) -> ClientInstance:
        """Return the client's subscription.

        Raises: THROTTLING_QUOTA_EXCEEDED when it requests it again too soon, unless the last push failed with an error
        that requires a new subscription.
        """
        instance = self._get_instance(instance_id, client, connection_id, now_ms)
        since_ms = now_ms - max(instance.last_get_ms, instance.last_push_ms)
        if since_ms >= instance.interval_ms:
            instance.last_get_ms = now_ms
        elif instance.last_error not in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.last_error = ErrorCode.NONE
        return instance

    def accept_push(
        self, instance_id: bytes, client: Attributes, push: MetricsPush, *, connection_id: int, now_ms: int
    ) -> None:
        """Accept a push.

        Raises: INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE,
        TELEMETRY_TOO_LARGE, INVALID_RECORD for metrics that do not decompress.
        """
        if instance_id in _RESERVED_IDS:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        instance = self._get_instance(instance_id, client, connection_id, now_ms)
        error = self._check_push(instance, push, now_ms)
        instance.last_error = error
        instance.is_terminating = push.is_terminating
        if error is not ErrorCode.NONE:
            raise KafkaError(error)

    def remove_connection(self, connection_id: int) -> None:
        """Remove the client of a closed connection."""
        instance_id = self._by_connection.pop(connection_id, None)
        if instance_id is not None:
            self._instances.pop(instance_id, None)

    def _check_push(self, instance: ClientInstance, push: MetricsPush, now_ms: int) -> ErrorCode:
        if instance.is_terminating:
            return ErrorCode.INVALID_REQUEST
        # The first push after a subscription may come at any time, as clients add jitter.
        is_due = instance.last_get_ms > instance.last_push_ms or now_ms - instance.last_push_ms >= instance.interval_ms
        if is_due:
            instance.last_push_ms = now_ms
        elif not push.is_terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if push.subscription_id != instance.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if push.compression_type not in (Codec.NONE, *COMPRESSION_TYPES):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(push.metrics) > self.bytes_max:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE if _can_decompress(push) else ErrorCode.INVALID_RECORD

    def _get_instance(self, instance_id: bytes, client: Attributes, connection_id: int, now_ms: int) -> ClientInstance:
        version, subscriptions = self._subscriptions()
        instance = self._instances.pop(instance_id, None)
        if instance is not None and now_ms - instance.seen_ms >= max(_IDLE_MS, 3 * instance.interval_ms):
            instance = None
        if instance is None or instance.version < version:
            attributes = client if instance is None else instance.client
            instance = _make_instance(instance_id, attributes, version, subscriptions)
            self._by_connection[connection_id] = instance_id
        instance.seen_ms = now_ms
        self._instances[instance_id] = instance  # At the end: the least recently used one is evicted first.
        if len(self._instances) > _INSTANCES_MAX:
            del self._instances[next(iter(self._instances))]
        return instance


def _can_decompress(push: MetricsPush) -> bool:
    """Whether the metrics, if there are any, are data of their codec; what they contain is not read."""
    try:
        measure_decompressed(Codec(push.compression_type), push.metrics)
    except WireError:
        return not push.metrics
    return True


def _make_instance(
    instance_id: bytes, client: Attributes, version: int, subscriptions: Iterable[MetricsSubscription]
) -> ClientInstance:
    matching = [subscription for subscription in subscriptions if subscription.matches_client(client)]
    metrics = JavaSet(java_hash, (name for subscription in matching for name in subscription.metrics))
    if ALL_METRICS in metrics:
        metrics = JavaSet(java_hash, (ALL_METRICS,))
    names = tuple(metrics)
    interval_ms = min([INTERVAL_DEFAULT_MS, *(subscription.interval_ms for subscription in matching)])
    checksum = crc32c.crc32c(f"[{', '.join(names)}]{interval_ms}".encode())
    return ClientInstance(instance_id, client, version, names, interval_ms, signed32(checksum ^ uuid_hash(instance_id)))
