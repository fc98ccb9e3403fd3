"""Build the session columns when all flows are clean: only fetches and messages that name topics are decoded."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire import registry
from kwire.capture.columnar.body_columns import exchanges_by_version
from kwire.capture.columnar.decode_plan import StructPlan, message_plan
from kwire.capture.kafka.session_tracker import SESSION_API_KEYS, SessionTracker
from kwire.capture.kafka.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.capture.columnar.exchange_builder import ExchangeBuilder
    from kwire.capture.index.arrays import Bools
    from kwire.capture.index.flows.pairing import ExchangeColumns

COLUMNS = frozenset({"session_id", "session_epoch", "session_partitions"})


class SessionValues(NamedTuple):
    """The values of the columns, for each exchange of a part."""

    session_id: list[int | None]
    session_epoch: list[int | None]
    session_partitions: list[str | None]


class SessionColumns:
    """Tracks the sessions of a capture, exchange by exchange in the order of completion."""

    def __init__(self, builder: ExchangeBuilder, topics: Mapping[str, str]) -> None:
        """`topics`: the names that the user provided."""
        self._builder = builder
        self._sessions = SessionTracker()
        self._names = TopicNames(topics)

    def build_values(self, exchanges: ExchangeColumns) -> SessionValues:
        """The values of the columns for the exchanges of a part."""
        out = SessionValues([None] * len(exchanges), [None] * len(exchanges), [None] * len(exchanges))
        rows = np.nonzero(_is_relevant(exchanges))[0]
        built = self._builder.build_exchanges(exchanges.select(rows))
        for row, (_, exchange) in zip(rows.tolist(), built, strict=True):
            for side in (exchange.request, exchange.response):
                if side is not None and side.body is not None:
                    self._names.learn(side.body)
            session = self._sessions.follow(exchange)
            if session is not None:
                out.session_id[row], out.session_epoch[row] = session.id, session.epoch
                if session.partitions is not None:
                    out.session_partitions[row] = session.partitions.as_json(self._names)
        return out


def _is_relevant(exchanges: ExchangeColumns) -> Bools:
    """Which exchanges belong to sessions, or may name topics."""
    is_relevant = np.zeros(len(exchanges), dtype=np.bool_)
    for api_key, version, chosen in exchanges_by_version(exchanges):
        is_relevant |= chosen & _is_relevant_api(api_key, version)
    return is_relevant


@cache
def _is_relevant_api(api_key: int, version: int) -> bool:
    if api_key in SESSION_API_KEYS:
        return True
    if api_key not in registry.API_KEYS:
        return False
    name = registry.api_name(api_key)
    plans = [message_plan(f"{name}Request", version), message_plan(f"{name}Response", version)]
    # A message that only the message decoder can read may name any topic.
    return any(plan is None or _names_topics(plan.struct) for plan in plans)


def _names_topics(struct: StructPlan) -> bool:
    """Whether topics in the struct may have both name and id."""
    steps = [*struct.steps, *struct.tagged.values()]
    uses = {step.use for step in steps}
    return {"name", "topic_id"} <= uses or any(step.inner is not None and _names_topics(step.inner) for step in steps)
