"""What a share partition notes of its records, in the words of the history."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from mockbroker.state.in_flight import InFlight, State
from mockbroker.state.share_history import Happening, ShareHistory

if TYPE_CHECKING:
    from mockbroker.state.share_partition import Change


class Notes:
    """One share partition's way to the history of all."""

    def __init__(self, history: ShareHistory, key: Hashable) -> None:
        self._history = history
        self._key = key

    def take(
        self, now_ms: int, happening: Happening, first: int, last: int, entry: InFlight, *, member_id: str | None = None
    ) -> None:
        """Keep in the history what has just happened to these offsets.

        Args: entry: as it is afterwards. member_id: who did it, or held them until now; by default who holds them.
        """
        self._history.note(
            self._key,
            now_ms,
            happening,
            first=first,
            last=last,
            member_id=entry.member_id if member_id is None else member_id,
            delivery_count=entry.delivery_count,
            state=entry.state,
        )

    def changed(self, changes: Sequence[Change], member_id: str, *, now_ms: int) -> None:
        """Keep in the history what a member's word, or its leaving, has changed.

        Runs are joined here already: a split batch has a change for each offset.
        """
        run: tuple[Happening, int, InFlight] | None = None
        expected = state = count = -1
        for entry, (first, last, its_state, its_count), _, happening in changes:
            if run is not None:
                if first == expected and happening is run[0] and its_state == state and its_count == count:
                    expected = last + 1
                    continue
                self.take(now_ms, run[0], run[1], expected - 1, run[2], member_id=member_id)
            run, expected, state, count = (happening, first, entry), last + 1, its_state, its_count
        if run is not None:
            self.take(now_ms, run[0], run[1], expected - 1, run[2], member_id=member_id)

    def acquired(self, first: int, last: int, member_id: str, delivery_count: int, *, now_ms: int) -> None:
        """Keep in the history that a member has got these offsets."""
        self._history.note(
            self._key,
            now_ms,
            Happening.ACQUIRED,
            first=first,
            last=last,
            member_id=member_id,
            delivery_count=delivery_count,
            state=State.ACQUIRED,
        )
