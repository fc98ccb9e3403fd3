"""The whole way, from a source to the rows of one level. Each room is a generator over the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture import traffic
from kwire.capture.exchange import Exchange, Outcome, exchanges
from kwire.capture.extras import require_cryptography
from kwire.capture.ip import segments
from kwire.capture.keylog import KeyLog
from kwire.capture.levels import Levels, reduced
from kwire.capture.options import Options
from kwire.capture.order import InOrder, size_of
from kwire.capture.packets import packets
from kwire.capture.reassembly import streams
from kwire.capture.rows import MessageRows, Row
from kwire.capture.schemas import columns
from kwire.capture.source import name_of
from kwire.capture.talks import frames
from kwire.capture.topic_names import TopicNames
from kwire.capture.values import Foreign, Trouble
from kwire.capture.watching import Ended, Seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kwire.capture.source import Source
    from kwire.capture.values import Segment

# A file may say that packets were dropped as often as it likes.
_TROUBLES_MAX = 1000
# Troubles of packets that differ by what they say, as do those of files.
_TOLD_APART = frozenset({"encapsulated", "link_type"})


def outcomes(source: Source, options: Options | None = None, level: str = "messages") -> Iterator[Outcome]:
    """Exchanges as they complete, and what could not become one. Troubles of one kind come once, at the end.

    Args: level: for `flows` and `packets` no exchanges come, but connections as they end, and packets.
    """
    options = options or Options()
    keys = KeyLog(options.tls_keylog)
    return outcomes_of(segments(packets(source, keys)), options, keys, level)


def outcomes_of(
    found: Iterable[Segment | Trouble], options: Options, keys: KeyLog, level: str = "messages"
) -> Iterator[Outcome]:
    """The same from segments, wherever they come from. Args: keys: the secrets of connections that speak TLS."""
    if options.tls_keylog:
        require_cryptography()
    if level in traffic.LEVELS:
        return gathered(traffic.sightings(found, options, keys, each_packet=level == "packets"))
    return gathered(exchanges(frames(streams(found), options, keys), reduced(options, level)))


def gathered(found: Iterable[Outcome]) -> Iterator[Outcome]:
    """The outcomes; troubles of one kind come once, at the end. Those of no packet differ by what they say."""
    troubles: dict[str, tuple[Trouble, int]] = {}
    for outcome in found:
        if isinstance(outcome, Trouble):
            is_told_apart = (not outcome.packet or outcome.kind in _TOLD_APART) and len(troubles) < _TROUBLES_MAX
            key = f"{outcome.kind} {outcome.detail}" if is_told_apart else outcome.kind
            first, count = troubles.get(key, (outcome, 0))
            troubles[key] = first, count + outcome.packets
        else:
            yield outcome
    for first, count in troubles.values():
        times = "" if count == 1 else f", {count} times"
        where = "" if not first.packet or first.kind.startswith("file_") else f" (packet {first.packet}{times})"
        yield first._replace(detail=first.detail + where)


def rows(source: Source, level: str = "messages", options: Options | None = None) -> Iterator[Row]:
    """The rows of one level, in the order of their requests.

    Raises: CaptureError when the source is no capture; ValueError for an unknown level.
    """
    options = options or Options()
    return ordered(outcomes(source, options, level), row_maker(level, options.name or name_of(source), options))


def rows_of(found: Iterable[Segment | Trouble], level: str, file: str, options: Options, keys: KeyLog) -> Iterator[Row]:
    """The same from segments, as an index has them of chosen flows; `file` is what the column of that name says."""
    return ordered(outcomes_of(found, options, keys, level), row_maker(level, options.name or file, options))


def row_maker(
    level: str, file: str, options: Options, names: TopicNames | None = None
) -> Callable[[Outcome], list[Row]]:
    """What turns every outcome of one capture into its rows: none for what the options do not ask for.

    Args: names: those of topics that captures before this one have told.
    Raises: ValueError for an unknown level.
    """
    columns(level)
    names = names or TopicNames(options.topics)
    messages, levels = MessageRows(file, options, names), Levels(file, options, names)

    def make(outcome: Outcome) -> list[Row]:
        """The rows of one outcome."""
        if isinstance(outcome, Ended):
            return [traffic.flow_row(file, outcome)] if level == "flows" else []
        if isinstance(outcome, Seen):
            return [traffic.packet_row(file, outcome)]
        if not is_asked_for(outcome, options):
            # Whatever is left out still tells its topics' names.
            learn(names, outcome)
            return []
        if level == "messages":
            made = messages.rows(outcome)
            return made if options.only is None else [row for row in made if options.only.wants(row, outcome, names)]
        return list(levels.rows(level, outcome)) if isinstance(outcome, Exchange) else []

    return make


def learn(names: TopicNames, outcome: Outcome) -> None:
    """Remember the names of topics that an outcome tells."""
    if isinstance(outcome, Exchange):
        for side in (outcome.request, outcome.response):
            if side is not None and side.body is not None:
                names.learn(side.body)


def is_asked_for(outcome: Outcome, options: Options) -> bool:
    """Whether the options want to see this outcome. Connections and packets belong to no API."""
    if isinstance(outcome, Ended | Seen):
        return True
    if isinstance(outcome, Foreign):
        # Everything else on the wire is no finding, unless the user said that this port is a broker's.
        return not options.apis and (outcome.kind == "tls" or bool(options.ports))
    if options.only is not None and not options.only.allows(outcome):
        return False
    if not options.apis:
        return True
    return isinstance(outcome, Exchange) and outcome.request is not None and outcome.request.api_name in options.apis


def ordered(found: Iterable[Outcome], make: Callable[[Outcome], list[Row]]) -> Iterator[Row]:
    """The rows of each outcome, in the order of their times as far as a window of outcomes and of bytes allows.

    They are made at once, so that no frame is held longer than it must.
    """
    held = InOrder[Row]()
    for outcome in found:
        made = make(outcome)
        yield from held.push(outcome, made, sum(map(size_of, made)))
    while (due := held.pop()) is not None:
        yield from due
