"""GetTelemetrySubscriptions (71) and PushTelemetry (72). Source: KIP-714, Kafka's ClientMetricsManager.

Both are served always, and told by ApiVersions only where something takes metrics (`BrokerConfig.takes_telemetry`).
"""

from __future__ import annotations

from kwire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kwire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kwire.uuids import ZERO, to_text
from mockbroker.context import Context
from mockbroker.outcome import Outcome, Reply
from mockbroker.state.telemetry import COMPRESSION_TYPES, Push


def get_telemetry_subscriptions(request: GetTelemetrySubscriptionsRequest, ctx: Context) -> Outcome:
    """Tell a client who it is, and what to push how often."""
    room = ctx.node.telemetry
    instance_id = request.client_instance_id
    if instance_id == ZERO:
        instance_id = ctx.rng.randbytes(16)
    instance = room.subscribe(
        instance_id, _client(instance_id, ctx), connection_id=ctx.connection.id, now_ms=ctx.now_ms
    )
    return Reply(
        GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=COMPRESSION_TYPES,
            push_interval_ms=instance.interval_ms,
            telemetry_max_bytes=room.bytes_max,
            delta_temporality=True,
            requested_metrics=instance.metrics,
        )
    )


def push_telemetry(request: PushTelemetryRequest, ctx: Context) -> Outcome:
    """Take metrics; what they say is in the journal and nowhere else."""
    push = Push(
        request.subscription_id,
        is_terminating=request.terminating,
        compression_type=request.compression_type,
        size=len(request.metrics),
    )
    ctx.node.telemetry.push(
        request.client_instance_id,
        _client(request.client_instance_id, ctx),
        push,
        connection_id=ctx.connection.id,
        now_ms=ctx.now_ms,
    )
    return Reply(PushTelemetryResponse())


def _client(instance_id: bytes, ctx: Context) -> dict[str, str | None]:
    """By what subscriptions can choose a client."""
    connection = ctx.connection
    return {
        "client_instance_id": to_text(instance_id),
        "client_id": ctx.client_id,
        "client_software_name": connection.software_name or "unknown",
        "client_software_version": connection.software_version or "unknown",
        "client_source_address": connection.host,
        "client_source_port": str(connection.port),
    }
