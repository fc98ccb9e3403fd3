"""Parking of requests that wait for an event without a deadline of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Park

if TYPE_CHECKING:
    from mockbroker.cluster_services.cluster_services import WakeKey

#: The event always happens: groups have their own deadlines, and every inter-broker request gets a response. This is
#: only a repeated check.
_RECHECK_MS = 3_600_000


def park_until(key: WakeKey, attempt: Callable[[Context], Outcome | None], ctx: Context) -> Outcome:
    """The outcome of `attempt` once it is not None; `attempt` is repeated whenever the key is woken."""
    outcome = attempt(ctx)
    if outcome is not None:
        return outcome
    return Park(ctx.now_ms + _RECHECK_MS, (key,), lambda now: park_until(key, attempt, now), is_recheck=True)
