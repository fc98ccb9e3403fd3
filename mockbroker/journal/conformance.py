"""The journal's exchanges as the conformance rules read them, and assertions about their notes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.conformance.checker import find_notes
from kwire.conformance.model import ConnectionEnd, Note, ObservedExchange
from kwire.conformance.rules import check_rule_ids
from kwire.escape import one_line

if TYPE_CHECKING:
    from kwire.conformance.checker import Observation
    from mockbroker.journal.exchange import Exchange
    from mockbroker.journal.journal import Journal

#: How many notes an assertion lists.
_SHOWN_MAX = 20


class ObservedJournal(NamedTuple):
    """A journal at one moment."""

    exchanges: tuple[Exchange[Any, Any], ...]
    ends: tuple[tuple[int, int], ...]
    dropped: int

    @classmethod
    def copy(cls, journal: Journal) -> ObservedJournal:
        """Copy a journal; in the thread that changes it."""
        return cls(tuple(journal), tuple(journal.client_ends.items()), journal.dropped)

    def find_notes(self, ignore: Collection[str] = (), client_id: str | None = None) -> list[Note]:
        """The notes about its exchanges. Raises: ValueError for an unknown rule in `ignore`."""
        ignored = check_rule_ids(ignore)
        notes = find_notes(self._observe())
        return [note for note in notes if note.rule not in ignored and client_id in (None, note.client_id)]

    def assert_conformant(self, ignore: Collection[str] = (), client_id: str | None = None) -> None:
        """Assert that there are no notes. Raises: AssertionError with them; as `find_notes`."""
        __tracebackhide__ = True
        notes = self.find_notes(ignore, client_id)
        if notes:
            raise AssertionError("\n".join(describe_notes(notes)))

    def _observe(self) -> Iterator[Observation]:
        for exchange in self.exchanges:
            # Raw SASL tokens have no header, so there is nothing to judge.
            if exchange.arrived_ns and (
                exchange.request is not None or exchange.closed is not None or exchange.is_unread
            ):
                yield _observe_exchange(exchange)
        for connection_id, at_ns in self.ends:
            yield ConnectionEnd(connection_id, at_ns, is_clean=True)


def describe_notes(notes: Sequence[Note]) -> list[str]:
    """The notes as lines, the first ones if they are many."""
    head = f"{len(notes)} conformance note{'' if len(notes) == 1 else 's'} (docs/conformance.md):"
    shown = [f"  {one_line(str(note))}" for note in notes[:_SHOWN_MAX]]
    hidden = len(notes) - len(shown)
    return [head, *shown, *([f"  ... {hidden} more"] if hidden else [])]


def _observe_exchange(exchange: Exchange[Any, Any]) -> ObservedExchange:
    # A response that was recorded and not written, as its connection ended, is unknown to the client.
    is_answered = exchange.answered_ms is not None and exchange.departed_ns > 0
    return ObservedExchange(
        number=exchange.number,
        connection=exchange.connection_id,
        node=f"node {exchange.node_id}",
        client=exchange.client,
        client_id=exchange.client_id,
        api_key=exchange.api_key,
        api_name=exchange.api_name,
        api_version=exchange.api_version,
        correlation_id=exchange.correlation_id,
        sent_ns=exchange.arrived_ns,
        sent_ms=exchange.arrived_ms,
        request=exchange.request,
        response=exchange.response if is_answered else None,
        answered_ns=exchange.departed_ns if is_answered else None,
        answered_ms=exchange.answered_ms if is_answered else None,
        expects_response=getattr(exchange.request, "acks", 1) != 0,
        decode_warnings=exchange.decode_warnings,
    )
