"""The whole way, from a source to the rows of one level. Each room is a generator over the one before."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kwire.capture.exchange import Exchange, Outcome, exchanges
from kwire.capture.ip import segments
from kwire.capture.levels import Levels
from kwire.capture.options import Options
from kwire.capture.packets import packets
from kwire.capture.reassembly import streams
from kwire.capture.rows import MessageRows, Row
from kwire.capture.schemas import columns
from kwire.capture.source import name_of
from kwire.capture.talks import frames
from kwire.capture.topic_names import TopicNames
from kwire.capture.values import Foreign, Lost, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kwire.capture.source import Source

# Exchanges end in another order than they began; so many rows are held to put them back in the order of requests.
ORDER_WINDOW = 1000


def outcomes(source: Source, options: Options | None = None) -> Iterator[Outcome]:
    """Exchanges as they complete, and what could not become one. Troubles of one kind come once, at the end."""
    options = options or Options()
    troubles: dict[str, tuple[Trouble, int]] = {}
    for outcome in exchanges(frames(streams(segments(packets(source))), options), options):
        if isinstance(outcome, Trouble):
            first, count = troubles.get(outcome.kind, (outcome, 0))
            troubles[outcome.kind] = first, count + 1
        else:
            yield outcome
    for first, count in troubles.values():
        times = "" if count == 1 else f", {count} times"
        where = "" if first.kind.startswith("file_") else f" (packet {first.packet}{times})"
        yield first._replace(detail=first.detail + where)


def rows(source: Source, level: str = "messages", options: Options | None = None) -> Iterator[Row]:
    """The rows of one level, in the order of their requests.

    Raises: CaptureError when the source is no capture; ValueError for an unknown level.
    """
    columns(level)
    options = options or Options()
    make = _maker(level, options.name or name_of(source), options)
    return (row for group in _in_order(_groups(outcomes(source, options), make, options)) for row in group)


def _maker(level: str, file: str, options: Options) -> Callable[[Outcome], list[Row]]:
    names = TopicNames(options.topics)
    if level == "messages":
        messages = MessageRows(file, options, names)
        return messages.rows
    levels = Levels(file, options, names)
    return lambda outcome: list(levels.rows(level, outcome)) if isinstance(outcome, Exchange) else []


def _groups(
    found: Iterable[Outcome], make: Callable[[Outcome], list[Row]], options: Options
) -> Iterator[tuple[int, list[Row]]]:
    """The rows of each outcome that is asked for, with its time."""
    for outcome in found:
        group = make(outcome)
        if group and _is_asked_for(outcome, options):
            yield _time_of(outcome), group


def _is_asked_for(outcome: Outcome, options: Options) -> bool:
    if isinstance(outcome, Foreign):
        # Everything else on the wire is no finding, unless the user said that this port is a broker's.
        return not options.apis and (outcome.kind == "tls" or bool(options.ports))
    if not options.apis:
        return True
    return isinstance(outcome, Exchange) and outcome.request is not None and outcome.request.api_name in options.apis


def _time_of(outcome: Outcome) -> int:
    if isinstance(outcome, (Lost, Foreign, Trouble)):
        return outcome.ts
    side = outcome.request or outcome.response
    assert side is not None
    return side.frame.ts


def _in_order(groups: Iterable[tuple[int, list[Row]]]) -> Iterator[list[Row]]:
    held: list[tuple[int, int, list[Row]]] = []
    for number, (ts, group) in enumerate(groups):
        heappush(held, (ts, number, group))
        if len(held) > ORDER_WINDOW:
            yield heappop(held)[2]
    while held:
        yield heappop(held)[2]
