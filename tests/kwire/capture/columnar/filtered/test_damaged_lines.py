"""JSON lines of incomplete exchanges, which are made in columns, are those of the rows of the streaming pipeline."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kwire.capture import progressive_reader
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.options import Options
from kwire.capture.progressive_reader import IndexingStarted, Replayed, Restarted
from kwire.capture.reader import read_events
from kwire.capture.rows.columns import level_columns
from kwire.capture.rows.json_lines import format_json_line
from kwire.capture.rows.message_rows import GAP, STATUSES, TRUNCATED, MessageRowBuilder
from kwire.capture.rows.reorder_buffer import (
    LineFormat,
    NamesLearned,
    PartEnded,
    PrebuiltLines,
    PrebuiltRow,
    SkippedCount,
)
from tests.support.capture_model.pipeline import read_rows
from tests.support.captures.capture_files import CAPTURES
from tests.support.captures.index_captures import copy_connections, lose_packets

ALL = [column.name for column in level_columns("messages")]


def lines_of_events(path: str, options: Options, names: list[str]) -> tuple[list[str], Counter[str]]:
    """The lines of a file, and the statuses of those that were made in columns."""
    form, columns = LineFormat(names), {*names, "error_code"}
    builder = MessageRowBuilder(path, options, TopicNames({}))
    found, statuses = list[str](), Counter[str]()
    for event in read_events(path, options, "messages", path=path, columns=columns, line_format=lambda: form):
        if isinstance(event, PrebuiltLines):
            found += map(str, event.lines)
            statuses.update(STATUSES[number] for number in event.status.tolist())
        elif isinstance(event, Restarted):
            builder = MessageRowBuilder(path, options, TopicNames(event.names))
        elif not isinstance(event, IndexingStarted | Replayed):
            assert not isinstance(event, PrebuiltRow | SkippedCount | NamesLearned | PartEnded)
            found += [format_json_line(row, "messages", names) for row in builder.build_rows(event)]
    return found, statuses


@pytest.mark.slow
@pytest.mark.parametrize(("snaplen", "lost"), [(150, 0.0), (250, 0.002)])
def test_lines_of_incomplete_exchanges_are_those_of_the_streaming_pipeline(
    snaplen: int, lost: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progressive_reader, "FIRST_PACKETS", 20)
    path = tmp_path / "cut.pcap"
    path.write_bytes(lose_packets(copy_connections(CAPTURES / "small_share.pcap", 13), lost, snaplen=snaplen))
    options = Options(bodies=True, name=str(path))
    rows = list(read_rows(str(path), "messages", options))
    for names in (ALL, ["status", "session_id"], ["issues", "body_response"]):
        found, statuses = lines_of_events(str(path), options, names)

        assert sorted(found) == sorted(format_json_line(row, "messages", names) for row in rows)
        assert statuses[GAP] + statuses[TRUNCATED] > 100
