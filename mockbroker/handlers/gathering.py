"""Waiting for several answers from other nodes before there is one of our own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import msgspec

from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Park, Reply

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
K2 = TypeVar("K2", bound=Hashable)
V2 = TypeVar("V2")

#: Every message between nodes is answered in the end; this only looks again.
_LOOK_AGAIN_MS = 3_600_000


class Gathering(Generic[K, V]):
    """Answers by what was asked for; `answers` is complete when the last has come, and the request goes on.

    answered_at_ms: when the last one came.
    """

    def __init__(self, keys: Iterable[K], ctx: Context) -> None:
        self.answers: dict[K, V | KafkaError] = {}
        self.answered_at_ms = ctx.now_ms
        self._missing = set(keys)
        self._wake_key = ctx.new_key()
        self._wake = ctx.wake

    def note(self, key: K) -> Callable[[V | KafkaError, int], None]:
        """What to call with the answer for this key."""

        def take(answer: V | KafkaError, now_ms: int) -> None:
            self.answers[key] = answer
            self.answered_at_ms = now_ms
            self._missing.discard(key)
            if not self._missing:
                self._wake(self._wake_key)

        return take

    def error(self, key: K) -> KafkaError | None:
        """The refusal that came for this key, or None."""
        answer = self.answers[key]
        return answer if isinstance(answer, KafkaError) else None

    def values(self) -> list[tuple[K, V]]:
        """What was asked for and its answer, where no answer is a refusal."""
        return [(key, answer) for key, answer in self.answers.items() if not isinstance(answer, KafkaError)]

    def then_gather(self, others: Gathering[K2, V2], respond: Callable[[], msgspec.Struct], ctx: Context) -> Outcome:
        """Answer once these answers and the others are there."""
        return self.then_go_on(lambda now: others.then(respond, now), ctx)

    def then(self, respond: Callable[[], msgspec.Struct], ctx: Context) -> Outcome:
        """Answer once all are there."""
        return self.then_go_on(lambda _now: Reply(respond()), ctx)

    def then_go_on(self, go_on: Callable[[Context], Outcome], ctx: Context) -> Outcome:
        """Go on once all are there."""

        def look(now: Context) -> Outcome:
            if self._missing:
                return Park(now.now_ms + _LOOK_AGAIN_MS, (self._wake_key,), look)
            return go_on(now)

        return look(ctx)
