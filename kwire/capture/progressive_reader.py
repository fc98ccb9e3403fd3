"""Progressive reader of regular files: outcomes of the first packets at once, the others fast by the index.

Building the index takes one pass over the file before the first row. So the first packets are read as a stream, and
their outcomes are not reported again afterwards. The stream stops before the first topic without a known name, since
the index has names that come later in the file.
"""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.files import pcap, pcapng
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.files.source import is_compressed, source_name
from kwire.capture.kafka.exchange import Exchange, Outcome
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.model import NO_PACKET, NonKafkaConnection, NoPacket, Packet, StreamGap
from kwire.capture.optional_dependencies import has_captures
from kwire.capture.rows.levels import options_for_level
from kwire.capture.rows.reorder_buffer import NamesLearned, PartEnded, PrebuiltLines, PrebuiltRow, SkippedCount
from kwire.capture.tls.followed_key_log import open_key_log
from kwire.capture.tls.key_log import KeyLog

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from kwire.capture.columnar.filtered.column_conditions import ColumnCondition
    from kwire.capture.columnar.filtered.filtered_reader import Output
    from kwire.capture.columnar.reader import ColumnarReader
    from kwire.capture.files.source import Source
    from kwire.capture.index import Index
    from kwire.capture.model import CaptureIssue
    from kwire.capture.options import Options
    from kwire.capture.rows.reorder_buffer import LineFormat

# The number of packets that are read as a stream: enough rows for a large screen, in a short time.
FIRST_PACKETS = 1000


class IndexingStarted(NamedTuple):
    """Emitted before a long indexing step."""


class Restarted(NamedTuple):
    """The capture is read again from its begin. Earlier outcomes come as `Replayed`, or not at all."""

    names: Mapping[str, str]
    """All topic names in the capture by id, and those of the options."""


class Replayed(NamedTuple):
    """An outcome that was reported before."""

    outcome: Outcome


Event = (
    Outcome
    | PrebuiltRow
    | PrebuiltLines
    | IndexingStarted
    | Restarted
    | Replayed
    | SkippedCount
    | NamesLearned
    | PartEnded
)


def can_be_indexed(path: str) -> bool:
    """Whether the path names a regular capture file, and numpy and pyarrow are installed."""
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return False
            magic = file.read(4)
    except OSError:
        # The error is raised again, and reported, when the file is read.
        return False
    return (
        magic in pcap.MAGICS or magic in pcap.IXIA_MAGICS or magic == pcapng.MAGIC or is_compressed(magic)
    ) and has_captures()


def progressive_events(
    path: str,
    source: Source,
    options: Options,
    level: str,
    conditions: Callable[[], list[ColumnCondition]],
    *,
    columns: Collection[str] | None,
    line_format: Callable[[], LineFormat | None],
    on_progress: Callable[[int], None],
) -> Iterator[Event]:
    """Outcomes of the first packets as a stream, then the others by the index, as `reader.read_events` describes.

    Args: source: reads the first packets; it is the file of that path.
    """
    first_part = _FirstPart(source, options)
    reported: set[object] = set()
    for outcome in first_part.outcomes(level):
        reported.add(_identity(outcome))
        yield outcome
    if first_part.is_complete:
        return
    yield IndexingStarted()
    index, report = _build_index(path, source, options, on_progress)
    if index is None:
        yield Restarted(options.topics)
        reader = _open_stream(path, options, level)
        outcomes = reader.outcomes(level, issues=True, selects=False)
        yield from _mark_replayed(outcomes, reported, first_part.packet_count)
        return
    from kwire.capture.columnar.filtered.filtered_events import read_filtered
    from kwire.capture.columnar.filtered.filtered_reader import FilteredReader
    from kwire.capture.columnar.reader import ColumnarReader
    from kwire.capture.columnar.topic_name_scan import find_topic_names

    names = find_topic_names(index, options)
    yield Restarted(names)
    reader = ColumnarReader(index, None, replace(options, topics=names, name=path))
    filtered = FilteredReader(reader, conditions(), level, after=first_part.packet_count)
    output = make_output(reader.options, path, columns, line_format(), after=first_part.packet_count)
    events = read_filtered(filtered, output)
    try:
        for event in _mark_replayed(events, reported, first_part.packet_count):
            report(filtered.reached)
            yield event
    finally:
        reader.close()


def stream_events(
    source: Source,
    options: Options,
    level: str,
    conditions: Callable[[], list[ColumnCondition]],
    *,
    columns: Collection[str] | None,
    line_format: Callable[[], LineFormat | None],
) -> Iterator[Event]:
    """The outcomes of a source that is read once, as `reader.read_events` describes, as they complete."""
    from kwire.capture.columnar.filtered.filtered_events import read_filtered
    from kwire.capture.columnar.filtered.filtered_reader import FilteredReader
    from kwire.capture.columnar.filtered.name_learning import NameLearning

    reader = _open_stream(source, options, level)
    output = make_output(options, reader.file, columns, line_format())
    yield from read_filtered(FilteredReader(reader, conditions(), level), output, NameLearning(reader))


def _open_stream(source: Source, options: Options, level: str) -> ColumnarReader:
    """A reader of a source that is read once."""
    from kwire.capture.columnar.reader import ColumnarReader
    from kwire.capture.index.scan.stream_scan import scan_stream
    from kwire.capture.index.stream_index import StreamIndex

    keys = open_key_log(options)
    items = scan_stream(source, keys, options.unpacked_size_max)
    return ColumnarReader(
        StreamIndex(source_name(source), items, options, keys), None, options_for_level(options, level)
    )


def make_output(
    options: Options, file: str, columns: Collection[str] | None, form: LineFormat | None, *, after: int = 0
) -> Callable[[Mapping[str, str]], Output]:
    """A function that is given the names of topics, and returns how exchanges that match are returned.

    Args: columns, form: as `reader.read_events` describes. after: as for `FilteredReader`.
    """
    from kwire.capture.columnar.filtered.filtered_lines import line_output
    from kwire.capture.columnar.filtered.filtered_reader import row_output
    from kwire.capture.columnar.formats.json_lines import JsonLineFormatter
    from kwire.capture.columnar.formats.row_formatter import RowFormatter
    from kwire.capture.columnar.formats.table_lines import TableLineFormatter

    def make(names: Mapping[str, str]) -> Output:
        named = replace(options, topics=names)
        if form is None:
            return row_output(None if columns is None else RowFormatter(columns, named, file))
        if form.json_columns is None:
            return line_output(after, TableLineFormatter(TopicNames(names)))
        return line_output(after, JsonLineFormatter(form.json_columns, named, file))

    return make


def _build_index(
    path: str, source: Source, options: Options, on_progress: Callable[[int], None]
) -> tuple[Index | None, Callable[[int], None]]:
    """The index of the file, None if it has none; and what receives the positions of the rows.

    A compressed file is unpacked first, and its progress is measured in bytes of the compressed one.
    """
    from kwire.capture.index import Index, NotIndexed
    from kwire.capture.index.build import build_columns
    from kwire.capture.index.columns import Columns
    from kwire.capture.index.scan.files import CaptureFile, UnpackedFile, unpack_capture

    readable: str | UnpackedFile = path
    report = on_progress
    try:
        with CaptureFile(path) as file:
            is_packed = file.is_compressed
        if is_packed:
            if hasattr(source, "rewind"):
                source.rewind()
            readable = unpack_capture(source, options.unpacked_size_max)
            with CaptureFile(readable) as unpacked:
                report = partial(_report_part, on_progress, file.size, unpacked.size)
        columns = Columns()
        build_columns(readable, columns, report)
    except NotIndexed:
        return None, on_progress
    return Index(readable, columns), report


def _report_part(on_progress: Callable[[int], None], packed_size: int, size: int, position: int) -> None:
    on_progress(position * packed_size // max(size, 1))


class _FirstPart:
    """The outcomes of the first packets."""

    def __init__(self, source: Source, options: Options) -> None:
        self._source = source
        self._options = options
        self._names = TopicNames(options.topics)
        self.packet_count = 0
        self.is_complete = False
        """Whether the first part is the whole capture."""

    def outcomes(self, level: str) -> Iterator[Outcome]:
        """The outcomes up to the packet limit or the first topic without a name."""
        from kwire.capture.columnar.reader import ColumnarReader
        from kwire.capture.index.stream_index import StreamIndex

        options, keys = self._options, KeyLog(self._options.tls_keylog)
        packets = self._limit(read_packets(self._source, keys, options.unpacked_size_max))
        index = StreamIndex(source_name(self._source), packets, options, keys)
        reader = ColumnarReader(index, None, options_for_level(options, level))
        self.is_complete = True
        for outcome in reader.outcomes(level, issues=True, selects=False):
            if not self.is_complete or self._lacks_name(outcome):
                # At the packet limit the reader behaves as at the end of the capture; these outcomes are not valid.
                self.is_complete = False
                return
            yield outcome

    def _limit(self, packets: Iterable[Packet | CaptureIssue]) -> Iterator[Packet | CaptureIssue | NoPacket]:
        for packet in packets:
            if isinstance(packet, Packet):
                if self.packet_count == FIRST_PACKETS:
                    # The packets before are read as the first part.
                    yield NO_PACKET
                    self.is_complete = False
                    return
                self.packet_count += 1
            yield packet

    def _lacks_name(self, outcome: Outcome) -> bool:
        """Whether an outcome has a topic without a known name."""
        if not isinstance(outcome, Exchange):
            return False
        bodies = [side.body for side in (outcome.request, outcome.response) if side is not None]
        topics = [topic for body in bodies if body is not None for topic in self._names.learn(body)]
        return any(topic.topic_id and self._names.name_and_id(topic)[0] is None for topic in topics)


def _mark_replayed(events: Iterable[Event], reported: set[object], last_packet: int) -> Iterator[Event]:
    """The events, with reported ones as `Replayed`. No reported outcome has a packet after `last_packet`."""
    for event in events:
        if reported and isinstance(event, Exchange | StreamGap | NonKafkaConnection) and _packet(event) <= last_packet:
            key = _identity(event)
            if key in reported:
                reported.discard(key)
                yield Replayed(event)
                continue
        yield event


def _packet(outcome: Exchange | StreamGap | NonKafkaConnection) -> int:
    if not isinstance(outcome, Exchange):
        return 0
    side = outcome.request or outcome.response
    return 0 if side is None else side.frame.packet


def _identity(outcome: Outcome) -> object:
    """A key that no other outcome of the capture has."""
    flow = getattr(outcome, "flow", None)
    connection = None if flow is None else (sorted(flow.ends), flow.epoch)
    if isinstance(outcome, Exchange):
        sides = [None if side is None else side.frame for side in (outcome.request, outcome.response)]
        return str(connection), *((frame and (frame.packet, frame.offset)) for frame in sides)
    if isinstance(outcome, StreamGap):
        return str(connection), outcome.kind, outcome.is_request, outcome.offset
    return str(connection), type(outcome).__name__
