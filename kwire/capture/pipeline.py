"""The streaming pipeline from TCP segments to the rows of one level. Each stage is a generator over the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.display_filter.exchange_filter import is_selected, matches_row
from kwire.capture.kafka.detection import extract_frames
from kwire.capture.kafka.exchange import Exchange, Outcome
from kwire.capture.kafka.exchange_pairing import pair_exchanges, pair_with_ends
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.kafka.topic_naming import learn_topic_names
from kwire.capture.merged_issues import MergedIssues
from kwire.capture.model import CaptureIssue, Row
from kwire.capture.optional_dependencies import require_cryptography
from kwire.capture.rows import traffic_rows
from kwire.capture.rows.columns import level_columns
from kwire.capture.rows.levels import LevelRowBuilder, options_for_level
from kwire.capture.rows.message_rows import MessageRowBuilder
from kwire.capture.rows.reorder_buffer import ReorderBuffer, outcome_size, row_size
from kwire.capture.tcp.reassembly import reassemble_streams
from kwire.capture.tcp.tcp_analysis import FlowSummary, PacketSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kwire.capture.model import FlowClosed, Segment
    from kwire.capture.options import Options
    from kwire.capture.tls.key_log import KeyLog


def outcomes_from_segments(
    segments: Iterable[Segment | CaptureIssue],
    options: Options,
    keys: KeyLog,
    level: str = "messages",
) -> Iterator[Outcome]:
    """Outcomes as they complete; capture issues of one kind are merged into one outcome at the end.

    Args: keys: the secrets of TLS connections. level: for `flows` and `packets` the outcomes are connections as they
        end, and packets, without exchanges.
    """
    if options.has_key_logs:
        require_cryptography()
    if level in traffic_rows.TRAFFIC_LEVELS:
        return merge_issues(traffic_rows.traffic_events(segments, options, keys, each_packet=level == "packets"))
    frames = extract_frames(reassemble_streams(segments), options, keys)
    return merge_issues(pair_exchanges(frames, options_for_level(options, level)))


def exchanges_with_ends(
    segments: Iterable[Segment | CaptureIssue], options: Options, keys: KeyLog
) -> Iterator[Outcome | FlowClosed]:
    """Outcomes of the level `messages` as they complete, and the end of each connection behind its exchanges."""
    if options.has_key_logs:
        require_cryptography()
    return pair_with_ends(extract_frames(reassemble_streams(segments), options, keys), options)


def merge_issues(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """The outcomes, with capture issues merged at the end, as `MergedIssues` does."""
    issues = MergedIssues()
    for outcome in outcomes:
        if isinstance(outcome, CaptureIssue):
            issues.add(outcome.packet, outcome)
        else:
            yield outcome
    for _, first in issues.numbered:
        times = "" if first.packets == 1 else f", {first.packets} times"
        suffix = "" if not first.packet or first.kind.startswith("file_") else f" (packet {first.packet}{times})"
        yield first._replace(detail=first.detail + suffix)


def rows_from_segments(
    segments: Iterable[Segment | CaptureIssue], level: str, file: str, options: Options, keys: KeyLog
) -> Iterator[Row]:
    """The rows of one level, in the order of their requests. `file` is the value of that column."""
    make_rows = make_row_builder(level, options.name or file, options)
    return order_rows(outcomes_from_segments(segments, options, keys, level), make_rows)


def make_row_builder(
    level: str, file: str, options: Options, names: TopicNames | None = None
) -> Callable[[Outcome], list[Row]]:
    """A function that builds the rows of each outcome of one capture; none for outcomes that the options exclude.

    Args: names: topic names of previous captures.
    Raises: ValueError for an unknown level.
    """
    level_columns(level)
    names = names or TopicNames(options.topics)
    message_builder, level_builder = MessageRowBuilder(file, options, names), LevelRowBuilder(file, options, names)

    def build_rows(outcome: Outcome) -> list[Row]:
        """The rows of one outcome."""
        if isinstance(outcome, FlowSummary):
            return [traffic_rows.flow_row(file, outcome)] if level == "flows" else []
        if isinstance(outcome, PacketSummary):
            return [traffic_rows.packet_row(file, outcome)]
        if not is_selected(outcome, options):
            # Excluded exchanges may name topics, too.
            learn_topic_names(outcome, names, options.edition)
            return []
        if level == "messages":
            rows = message_builder.build_rows(outcome)
            exchange_filter = options.exchange_filter
            if exchange_filter is None:
                return rows
            return [row for row in rows if matches_row(exchange_filter, row, outcome, names)]
        return list(level_builder.build_rows(level, outcome)) if isinstance(outcome, Exchange) else []

    return build_rows


def order_outcomes(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """The outcomes in the order of their times, as `order_rows` has their rows."""
    buffer = ReorderBuffer[Outcome]()
    for outcome in outcomes:
        yield from buffer.push(outcome, (outcome,), outcome_size(outcome))
    while (ordered_outcomes := buffer.pop()) is not None:
        yield from ordered_outcomes


def order_rows(outcomes: Iterable[Outcome], build_rows: Callable[[Outcome], list[Row]]) -> Iterator[Row]:
    """The rows of each outcome, in the order of their times within a window of outcomes and bytes.

    Rows are built at once, so that frames are not buffered.
    """
    buffer = ReorderBuffer[Row]()
    for outcome in outcomes:
        rows = build_rows(outcome)
        yield from buffer.push(outcome, rows, sum(map(row_size, rows)))
    while (ordered_rows := buffer.pop()) is not None:
        yield from ordered_rows
