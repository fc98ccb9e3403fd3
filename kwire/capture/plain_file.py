"""A plain file as somebody waits for it: its first packets at once, then all of it by its index, many times faster.

The index takes a pass over the whole file before the first row. So the generators read the first packets; what they
found is told once. Where a topic has no name yet, they stop before: the index knows the names that come later.
"""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture import pcap, pcapng
from kwire.capture.exchange import Exchange, Outcome
from kwire.capture.ip import segments
from kwire.capture.keylog import KeyLog
from kwire.capture.order import Made, Passed
from kwire.capture.packets import packets
from kwire.capture.pipeline import outcomes, outcomes_of
from kwire.capture.topic_names import TopicNames
from kwire.capture.values import Foreign, Lost, Packet

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from kwire.capture.index import Index
    from kwire.capture.lane.chosen import Condition
    from kwire.capture.options import Options
    from kwire.capture.source import Source
    from kwire.capture.values import Trouble

# So many packets are read at once: enough rows for a large screen, in less time than anybody notices.
FIRST_PACKETS = 4000


class Pause(NamedTuple):
    """What comes next takes its time."""


class Again(NamedTuple):
    """The capture is told from its beginning once more: what has come is repeated, as `Repeated` or not at all."""

    names: Mapping[str, str]
    """The names of all topics that the capture tells anywhere, by id; those of the options too."""


class Repeated(NamedTuple):
    """An outcome that came before."""

    outcome: Outcome


Event = Outcome | Made | Pause | Again | Repeated | Passed


def may_be_indexed(path: str) -> bool:
    """Whether a path names a plain capture file, and what reads by an index is there."""
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return False
            magic = file.read(4)
    except OSError:
        # Whoever reads it will say what is wrong.
        return False
    return (magic in pcap.MAGICS or magic == pcapng.MAGIC) and None not in (find_spec("numpy"), find_spec("pyarrow"))


def events(
    path: str,
    options: Options,
    level: str,
    conditions: Callable[[], list[Condition]],
    *,
    columns: Collection[str] | None = None,
    stream: Source | None = None,
    tell: Callable[[int], None] = lambda at: None,
) -> Iterator[Event]:
    """What a capture holds.

    Args: conditions: of those who want some of it. columns: what passes them is wanted as rows of these. stream: the
        same file, if something else shall read its first packets. tell: is given how far it is read, in
        bytes: once for the index, and once for the rows.
    """
    first = _First(path if stream is None else stream, options)
    told: set[object] = set()
    for outcome in first.outcomes(level):
        told.add(_identity(outcome))
        yield outcome
    if first.is_whole:
        return
    yield Pause()
    index = _indexed(path, tell)
    if index is None:
        yield Again(options.topics)
        yield from _repeated(outcomes(path, options, level), told, first.packet_count)
        return
    from kwire.capture.lane.chosen import Chosen
    from kwire.capture.lane.names import names_told

    names = names_told(index, options)
    yield Again(names)
    chosen = Chosen(index, replace(options, topics=names, name=path), conditions(), columns, after=first.packet_count)
    try:
        for event in _repeated(chosen.found(level), told, first.packet_count):
            tell(chosen.reached)
            yield event
    finally:
        chosen.close()


def _indexed(path: str, tell: Callable[[int], None]) -> Index | None:
    from kwire.capture.index import Index, NotIndexed
    from kwire.capture.index.build import build
    from kwire.capture.index.columns import Columns

    columns = Columns()
    try:
        build(path, columns, tell)
    except NotIndexed:
        return None
    return Index(path, columns)


class _First:
    """The outcomes of the first packets."""

    def __init__(self, source: Source, options: Options) -> None:
        self._source = source
        self._options = options
        self._names = TopicNames(options.topics)
        self.packet_count = 0
        self.is_whole = False
        """Whether they are all that there is."""

    def outcomes(self, level: str) -> Iterator[Outcome]:
        """What can be told of them without what comes later."""
        keys = KeyLog(self._options.tls_keylog)
        found = segments(self._counted(packets(self._source, keys)))
        self.is_whole = True
        for outcome in outcomes_of(found, self._options, keys, level):
            if not self.is_whole or self._lacks_name(outcome):
                # Generators that were cut short take it for the end of the capture.
                self.is_whole = False
                return
            yield outcome

    def _counted(self, found: Iterable[Packet | Trouble]) -> Iterator[Packet | Trouble]:
        for each in found:
            if isinstance(each, Packet):
                if self.packet_count == FIRST_PACKETS:
                    self.is_whole = False
                    return
                self.packet_count += 1
            yield each

    def _lacks_name(self, outcome: Outcome) -> bool:
        """Whether an outcome has a topic that nobody has named yet."""
        if not isinstance(outcome, Exchange):
            return False
        bodies = [side.body for side in (outcome.request, outcome.response) if side is not None]
        found = [topic for body in bodies if body is not None for topic in self._names.learn(body)]
        return any(topic.topic_id and self._names.name_and_id(topic)[0] is None for topic in found)


def _repeated(found: Iterable[Event], told: set[object], last: int) -> Iterator[Event]:
    """The events, those that came before among them as such. Args: last: no packet behind it was told of."""
    for event in found:
        if told and isinstance(event, Exchange | Lost | Foreign) and _packet(event) <= last:
            key = _identity(event)
            if key in told:
                told.discard(key)
                yield Repeated(event)
                continue
        yield event


def _packet(outcome: Exchange | Lost | Foreign) -> int:
    if not isinstance(outcome, Exchange):
        return 0
    side = outcome.request or outcome.response
    return 0 if side is None else side.frame.packet


def _identity(outcome: Outcome) -> object:
    """What no other outcome of the capture has."""
    flow = getattr(outcome, "flow", None)
    place = None if flow is None else (sorted(flow.ends), flow.epoch)
    if isinstance(outcome, Exchange):
        sides = [None if side is None else side.frame for side in (outcome.request, outcome.response)]
        return str(place), *((frame and (frame.packet, frame.offset)) for frame in sides)
    if isinstance(outcome, Lost):
        return str(place), outcome.kind, outcome.is_request, outcome.offset
    return str(place), type(outcome).__name__
