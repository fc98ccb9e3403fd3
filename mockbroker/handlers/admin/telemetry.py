"""GetTelemetrySubscriptions (71) and PushTelemetry (72). Source: KIP-714, Kafka's ClientMetricsManager.

Both are always served, but ApiVersions lists them only where something receives metrics
(`BrokerConfig.takes_telemetry`).
"""

from __future__ import annotations

from kwire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kwire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kwire.uuids import ZERO, to_text
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.state.metadata.telemetry import COMPRESSION_TYPES, MetricsPush


def get_telemetry_subscriptions(request: GetTelemetrySubscriptionsRequest, ctx: Context) -> Outcome:
    """Return the client's instance id, the metrics to push, and the push interval."""
    telemetry = ctx.node.telemetry
    instance_id = request.client_instance_id
    if instance_id == ZERO:
        instance_id = ctx.rng.randbytes(16)
    instance = telemetry.get_subscription(
        instance_id, _client_attributes(instance_id, ctx), connection_id=ctx.connection.id, now_ms=ctx.now_ms
    )
    return Reply(
        GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=COMPRESSION_TYPES,
            push_interval_ms=instance.interval_ms,
            telemetry_max_bytes=telemetry.bytes_max,
            delta_temporality=True,
            requested_metrics=instance.metrics,
        )
    )


def push_telemetry(request: PushTelemetryRequest, ctx: Context) -> Outcome:
    """Accept metrics; their content is only in the journal."""
    push = MetricsPush(request.subscription_id, request.terminating, request.compression_type, bytes(request.metrics))
    instance_id = request.client_instance_id
    attributes = _client_attributes(instance_id, ctx)
    ctx.node.telemetry.accept_push(instance_id, attributes, push, connection_id=ctx.connection.id, now_ms=ctx.now_ms)
    return Reply(PushTelemetryResponse())


def _client_attributes(instance_id: bytes, ctx: Context) -> dict[str, str | None]:
    """The client attributes that subscriptions can match."""
    connection = ctx.connection
    return {
        "client_instance_id": to_text(instance_id),
        "client_id": ctx.client_id,
        "client_software_name": connection.software_name or "unknown",
        "client_software_version": connection.software_version or "unknown",
        "client_source_address": connection.host,
        "client_source_port": str(connection.port),
    }
