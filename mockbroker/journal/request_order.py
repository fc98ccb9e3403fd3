"""The assertion that requests came in an order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mockbroker.journal.condition import TopicNames
from mockbroker.journal.exchange import Exchange
from mockbroker.journal.history_report import SHOWN_MAX, describe_exchange
from mockbroker.journal.request_history import RequestHistory


def assert_request_order(steps: Sequence[RequestHistory[Any, Any]], topic_names: TopicNames) -> None:
    """Assert that the first request of each kind came after the step before it; others may come between.

    A kind may be named again: then a further request of it has to come after the step before.
    Raises: AssertionError with the order that was seen; ValueError for fewer than two steps.
    """
    __tracebackhide__ = True
    names = [step.describe() for step in steps]
    if len(steps) < 2:
        raise ValueError(f"an order has at least two steps, not {len(steps)}")
    for step in steps:
        step.require_complete()
    reached = 0
    for index, (name, step) in enumerate(zip(names, steps, strict=True)):
        least = reached if name in names[:index] else 0
        exchange = next((exchange for exchange in step if exchange.number > least), None)
        if exchange is None or exchange.number <= reached:
            raise AssertionError(
                "\n".join([f"expected this order: {'; '.join(names)}", *_describe(steps, topic_names)])
            )
        reached = exchange.number


def _describe(steps: Sequence[RequestHistory[Any, Any]], topic_names: TopicNames) -> list[str]:
    """The requests of all steps by arrival; of several in sequence that are of one step, the first."""
    kinds: dict[int, tuple[int, Exchange[Any, Any]]] = {}
    for index, step in enumerate(steps):
        for exchange in step:
            kinds.setdefault(exchange.number, (index, exchange))
    runs: list[tuple[int, Exchange[Any, Any]]] = []
    for _, (index, exchange) in sorted(kinds.items()):
        if not runs or runs[-1][0] != index:
            runs.append((index, exchange))
    shown = runs[: max(SHOWN_MAX, len(steps))]
    lines = [f"  {describe_exchange(exchange, topic_names)}" for _, exchange in shown]
    return ["seen was:", *lines] if lines else ["none of them was sent"]
