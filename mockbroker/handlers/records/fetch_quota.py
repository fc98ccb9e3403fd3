"""Fetch over the quota of its client: what counts, and the response to a throttled client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from kwire.messages.fetch import FetchRequest, FetchResponse
from mockbroker.handlers.records.fetch_rows import (
    DIVERGING_SINCE,
    HINTS_SINCE,
    IDS_SINCE,
    FetchRow,
    add_hints,
    find_follower_id,
    group_rows,
    summarize_row,
)
from mockbroker.handlers.shared.response_size import measure_response
from mockbroker.state.storage.fetch_session import FetchPlan

if TYPE_CHECKING:
    from mockbroker.engine.context import Context


def is_throttled(plan: FetchPlan | None, rows: Sequence[FetchRow], request: FetchRequest, ctx: Context) -> bool:
    """Count the response, without hints, where clients have quotas. Returns: whether the client gets none of it.

    plan: None for a request with an error of its session. The session stays as it is.
    """
    if ctx.throttle is None or find_follower_id(request) >= 0:
        return False
    if ctx.api_version < DIVERGING_SINCE and any(row.data.diverging_epoch.epoch >= 0 for row in rows):
        return False
    if plan is not None and plan.session is not None:
        changes = plan.session.find_changed([summarize_row(row) for row in rows])
        rows = [] if plan.is_superseded else [row for row, changed in zip(rows, changes, strict=True) if changed]
    response = FetchResponse(responses=group_rows(rows, by_id=ctx.api_version >= IDS_SINCE))
    return ctx.throttle.record_fetch(measure_response(response, ctx.api_version), now_ms=ctx.now_ms) > 0


def throttled_response(plan: FetchPlan, rows: Sequence[FetchRow], ctx: Context) -> FetchResponse:
    """A response without partitions; a new session is not opened, and an existing one goes on."""
    response = FetchResponse()
    if plan.session is not None:
        response.session_id = plan.session.session_id
        if plan.is_superseded:
            response.error_code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    if ctx.api_version >= HINTS_SINCE:
        add_hints(response, rows, ctx)
    return response
