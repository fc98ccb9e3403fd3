"""The model from TCP segments to the rows of one level. Each stage is a generator over the one before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kwire.capture.files.source import Source, source_name
from kwire.capture.kafka.exchange import Outcome
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.kafka.topic_naming import learn_topic_names, options_for_topic_names
from kwire.capture.model import CaptureIssue, FlowClosed, Row, Segment
from kwire.capture.options import Options
from kwire.capture.pipeline import make_row_builder, merge_issues, order_rows
from kwire.capture.rows.levels import options_for_level
from kwire.capture.tls.key_log import KeyLog
from tests.support.capture_model import traffic_rows
from tests.support.capture_model.detection import extract_frames
from tests.support.capture_model.exchange_pairing import pair_exchanges, pair_with_ends
from tests.support.capture_model.reassembly import reassemble_streams
from tests.support.capture_model.segment_scan import scan_segments


def read_rows(source: Source, level: str = "messages", options: Options | None = None) -> Iterator[Row]:
    """The rows of one level, in the order of their requests."""
    options = options or Options()
    keys = KeyLog(options.tls_keylog)
    return rows_from_segments(scan_segments(source, options, keys), level, source_name(source), options, keys)


def read_outcomes(source: Source, options: Options | None = None, level: str = "messages") -> Iterator[Outcome]:
    """The outcomes of a capture, as they complete."""
    options = options or Options()
    keys = KeyLog(options.tls_keylog)
    return outcomes_from_segments(scan_segments(source, options, keys), options, keys, level)


def read_connections(source: Source, options: Options | None = None) -> Iterator[Outcome | FlowClosed]:
    """The outcomes of a capture, and the end of each connection behind its exchanges."""
    options = options or Options()
    keys = KeyLog(options.tls_keylog)
    segments = scan_segments(source, options, keys)
    return pair_with_ends(extract_frames(reassemble_streams(segments), options, keys), options)


def outcomes_from_segments(
    segments: Iterable[Segment | CaptureIssue], options: Options, keys: KeyLog, level: str = "messages"
) -> Iterator[Outcome]:
    """Outcomes of exchanges as they complete; capture issues of one kind are merged into one outcome at the end."""
    frames = extract_frames(reassemble_streams(segments), options, keys)
    return merge_issues(pair_exchanges(frames, options_for_level(options, level)))


def rows_from_segments(
    segments: Iterable[Segment | CaptureIssue], level: str, file: str, options: Options, keys: KeyLog
) -> Iterator[Row]:
    """The rows of one level, in the order of their requests. `file` is the value of that column."""
    if level in traffic_rows.TRAFFIC_LEVELS:
        return traffic_rows.read_traffic_rows(segments, level, options.name or file, options, keys)
    make_rows = make_row_builder(level, options.name or file, options)
    return order_rows(outcomes_from_segments(segments, options, keys, level), make_rows)


def read_topic_names(source: Source, options: Options) -> dict[str, str]:
    """The topic names by id in a capture, with those of the options."""
    names = TopicNames(options.topics)
    for outcome in read_outcomes(source, options_for_topic_names(options)):
        learn_topic_names(outcome, names, options.edition)
    return names.names_by_id()
