"""The quota of partitions that a client creates and deletes (KIP-599)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.engine.context import Context


def record_partition_changes(count: int, ctx: Context, *, strict_since: int) -> None:
    """Count partitions that the request creates or deletes, where its client has a quota.

    strict_since: the first version of the API that is refused when the quota is exhausted; an older one is throttled.
    Raises: THROTTLING_QUOTA_EXCEEDED.
    """
    if ctx.throttle is not None:
        ctx.throttle.record_mutations(count, is_strict=ctx.api_version >= strict_since, now_ms=ctx.now_ms)
