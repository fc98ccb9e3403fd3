"""The offset of the metadata log, which Kafka returns in several APIs."""

from __future__ import annotations

from mockbroker.engine.context import Context


def metadata_offset(ctx: Context) -> int:
    """The number of metadata changes in the cluster; it grows with every change, as the metadata log does."""
    cluster = ctx.cluster
    return (
        cluster.metadata.version
        + cluster.configs.generation
        + cluster.broker_storage.quota_changes
        + cluster.broker_storage.level_changes
    )
