"""`Checker`: feeds exchanges, in the order of time, to all rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from kwire.conformance.connection_rules import CorrelationChecker, ThrottleChecker, VersionChecker
from kwire.conformance.group_rules import GenerationChecker, HeartbeatChecker, LeaveChecker
from kwire.conformance.log_rules import LeaderEpochChecker, SequenceChecker
from kwire.conformance.model import ConnectionEnd, ConnectionGap, ConnectionGapEnd, Note, ObservedExchange
from kwire.conformance.retry_rules import RetryChecker
from kwire.conformance.share_rules import AcknowledgementChecker, ShareSessionChecker
from kwire.conformance.traffic import RuleChecker, Traffic

#: How many requests, responses and ends are sorted by time before they are judged: an exchange of a capture is complete
#: with its response, after later requests. One that is complete even later is not judged.
ORDER_WINDOW = 20_000
#: The bytes of the messages of these; of larger ones there are fewer.
SIZE_MAX = 128 << 20
_REQUEST, _RESPONSE, _END = range(3)

Observation = ObservedExchange | ConnectionEnd | ConnectionGap | ConnectionGapEnd


class Checker:
    """Judges the exchanges of a cluster.

    `add` takes them in any order within a window, and returns the notes that are certain by now; `finish` returns the
    others. Requests come before responses of the same time: the client did not know the response.
    """

    def __init__(self, *, order_window: int = ORDER_WINDOW) -> None:
        self._traffic = Traffic()
        traffic = self._traffic
        self._checkers: list[RuleChecker] = [
            VersionChecker(traffic),
            ThrottleChecker(),
            GenerationChecker(traffic),
            HeartbeatChecker(traffic),
            LeaveChecker(traffic),
            RetryChecker(traffic),
            LeaderEpochChecker(traffic),
            SequenceChecker(),
            ShareSessionChecker(traffic),
            AcknowledgementChecker(traffic),
            # The last one: it changes what is in flight.
            CorrelationChecker(traffic),
        ]
        self._window = order_window
        self._heap: list[tuple[int, int, int, Observation]] = []
        self._count = 0
        self._size = 0
        self._judged_ns = 0

    def add(self, observed: Observation) -> list[Note]:
        """Add an exchange, or the end of a connection, or a gap in it. Returns: notes in the order of time."""
        if isinstance(observed, ObservedExchange):
            if observed.sent_ns >= self._judged_ns:
                self._push(observed.sent_ns, _REQUEST, observed)
                if observed.answered_ns is not None:
                    self._push(observed.answered_ns, _RESPONSE, observed)
            else:
                # The window was too small for this exchange. Its connection is not judged on.
                self._push(self._judged_ns, _END, ConnectionGap(observed.connection, self._judged_ns))
        else:
            self._push(observed.at_ns, _END, observed)
        notes: list[Note] = []
        while len(self._heap) > self._window or (self._size > SIZE_MAX and len(self._heap) > 1):
            notes += self._judge_first()
        return notes

    def finish(self) -> list[Note]:
        """The notes that were not certain before the end. No exchange can be added any more."""
        notes: list[Note] = []
        while self._heap:
            notes += self._judge_first()
        for checker in self._checkers:
            notes += checker.finish()
        return notes

    def _push(self, at_ns: int, kind: int, observed: Observation) -> None:
        self._count += 1
        heappush(self._heap, (at_ns, kind, self._count, observed))
        self._size += observed.size if isinstance(observed, ObservedExchange) else 0

    def _judge_first(self) -> Iterator[Note]:
        at_ns, kind, _, observed = heappop(self._heap)
        self._judged_ns = max(at_ns, self._judged_ns)
        if isinstance(observed, ObservedExchange):
            self._size -= observed.size
            self._traffic.connection(observed)
            for checker in self._checkers:
                yield from checker.take_request(observed) if kind == _REQUEST else checker.take_response(observed)
        elif isinstance(observed, ConnectionEnd):
            self._traffic.record_end(observed)
        else:
            self._traffic.record_gap(observed)
            for checker in self._checkers:
                checker.take_gap(observed.connection)


def find_notes(observations: Iterable[Observation]) -> list[Note]:
    """The notes about a whole sequence, in the order of time."""
    checker = Checker()
    notes = [note for observed in observations for note in checker.add(observed)]
    return sorted([*notes, *checker.finish()], key=lambda note: (note.at_ns, note.exchanges))
