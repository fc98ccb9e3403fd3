"""The persister that keeps nothing: `group.share.persister.class.name` set to Kafka's NoOpStatePersister, or empty.

Every operation succeeds, and what is read is a share partition that was never written: its leader begins where the
group's reset strategy says, each time that it loads it.
"""

from __future__ import annotations

from typing import TypeVar

from mockbroker.persisters.default import Done, Persister
from mockbroker.state.share_coordinator import UNINITIALIZED_START, ShareKey, Stored, Summary, Written

T = TypeVar("T")

_NOTHING = Stored(
    snapshot_epoch=0,
    state_epoch=0,
    leader_epoch=0,
    start_offset=UNINITIALIZED_START,
    delivery_complete_count=-1,
    batches=(),
    created_ms=0,
    written_ms=0,
)


class NoOpPersister(Persister):
    """One node's way to nowhere; answers come by a later message all the same."""

    def initialize(
        self, key: ShareKey, *, state_epoch: int, start_offset: int = UNINITIALIZED_START, done: Done[None], now_ms: int
    ) -> None:
        """Succeed."""
        self._answer(None, done, now_ms)

    def read(self, key: ShareKey, *, leader_epoch: int, done: Done[Stored], now_ms: int) -> None:
        """Answer with a state that nobody has written."""
        self._answer(_NOTHING, done, now_ms)

    def write(self, key: ShareKey, written: Written, *, done: Done[None], now_ms: int) -> None:
        """Succeed."""
        self._answer(None, done, now_ms)

    def delete(self, key: ShareKey, *, done: Done[None], now_ms: int) -> None:
        """Succeed."""
        self._answer(None, done, now_ms)

    def summary(self, key: ShareKey, *, done: Done[Summary], now_ms: int) -> None:
        """Answer with the numbers that say that nothing is stored."""
        self._answer(Summary(UNINITIALIZED_START, -1, 0, 0), done, now_ms)

    def _answer(self, answer: T, done: Done[T], now_ms: int) -> None:
        def arrive(at_ms: int) -> None:
            if not self._is_closed:
                done(answer, at_ms)

        self._calls.later(0, arrive, now_ms=now_ms)
