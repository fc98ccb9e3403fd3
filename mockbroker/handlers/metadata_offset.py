"""How far the cluster's image has come: what Kafka tells by offsets of its metadata log."""

from __future__ import annotations

from mockbroker.context import Context


def metadata_offset(ctx: Context) -> int:
    """How much has been changed in the cluster's image; it grows with every change, as the metadata log does."""
    cluster = ctx.cluster
    return (
        cluster.metadata.version + cluster.configs.generation + cluster.kept.quota_changes + cluster.kept.level_changes
    )
