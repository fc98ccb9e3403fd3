"""Fan-out: a request that waits for several responses of other nodes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import msgspec

from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.parking import park_until
from mockbroker.kafka_error import KafkaError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class FanOut(Generic[K, V]):
    """Responses by key; the request continues when the last one has arrived.

    answered_at_ms: the time of the last response.
    """

    def __init__(self, keys: Iterable[K], ctx: Context) -> None:
        self.answers: dict[K, V | KafkaError] = {}
        self.answered_at_ms = ctx.now_ms
        self._missing = set(keys)
        self._wake_key = ctx.new_wake_key()
        self._wake = ctx.wake

    def callback_for(self, key: K) -> Callable[[V | KafkaError, int], None]:
        """The callback for the response of this key."""

        def store(answer: V | KafkaError, now_ms: int) -> None:
            self.answers[key] = answer
            self.answered_at_ms = now_ms
            self._missing.discard(key)
            if not self._missing:
                self._wake(self._wake_key)

        return store

    def error_for(self, key: K) -> KafkaError | None:
        """The error of this key, or None."""
        answer = self.answers[key]
        return answer if isinstance(answer, KafkaError) else None

    def successes(self) -> list[tuple[K, V]]:
        """Keys and responses, without errors."""
        return [(key, answer) for key, answer in self.answers.items() if not isinstance(answer, KafkaError)]

    def reply_when_complete(self, respond: Callable[[], msgspec.Struct], ctx: Context) -> Outcome:
        """Reply once all responses have arrived."""
        return self.continue_when_complete(lambda _now: Reply(respond()), ctx)

    def continue_when_complete(self, go_on: Callable[[Context], Outcome], ctx: Context) -> Outcome:
        """Continue once all responses have arrived."""
        return park_until(self._wake_key, lambda now: None if self._missing else go_on(now), ctx)
