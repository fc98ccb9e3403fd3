"""Entry points of the capture reader: tables, record batches and topic names."""

from __future__ import annotations

import gzip
import importlib
import io
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import kwire
from kwire.capture.options import Options
from kwire.capture.reader import add_missing_topic_names, collect_topic_names, read_batches
from kwire.capture.rows.column import ColumnKind
from kwire.capture.rows.columns import LEVELS, arrow_schema
from kwire.errors import MissingExtra
from kwire.headers import encode_request, encode_response
from kwire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kwire.messages.share_fetch import (
    AcquiredRecords,
    FetchPartition,
    FetchTopic,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kwire.uuids import to_text
from tests.support.capture_model.pipeline import read_rows
from tests.support.captures.capture_files import CAPTURES, SHARE, CapturedConnection, build_pcap
from tests.support.captures.decode_counts import record_decoded_responses
from tests.support.captures.late_topic_name import late_name_capture

pytestmark = pytest.mark.slow

FILES = sorted(CAPTURES.glob("*.pcap"))
ID, OTHER = b"\1" * 16, b"\2" * 16


@pytest.mark.parametrize("level", LEVELS)
def test_a_table_has_every_row_of_every_file_with_the_schema_of_the_level(level: str) -> None:
    table = kwire.read_capture(FILES, level)

    assert table.schema == arrow_schema(level)
    expected = [row for path in FILES for row in read_rows(path, level)]
    assert table.num_rows == len(expected) > 0
    for column in LEVELS[level]:
        found = table[column.name].to_pylist()
        if column.kind is ColumnKind.TIME:
            times = [None if row[column.name] is None else int(str(row[column.name])) // 1000 for row in expected]
            assert table[column.name].cast("int64").to_pylist() == times
        else:
            assert found == [row[column.name] for row in expected]


def test_times_are_utc_to_the_microsecond() -> None:
    first = kwire.read_capture(SHARE)["req_ts"][0].as_py()

    assert first == datetime(2026, 11, 21, 8, 59, 23, 757735, tzinfo=UTC)


def test_one_path_several_paths_bytes_and_file_objects_are_all_read() -> None:
    with SHARE.open("rb") as file:
        tables = [kwire.read_capture(each) for each in (SHARE, str(SHARE), [SHARE], SHARE.read_bytes(), file)]

    assert {table.num_rows for table in tables} == {44}
    assert kwire.read_capture([]).num_rows == 0


def test_options_select_what_is_read() -> None:
    fetched = kwire.read_capture(SHARE, apis=["ShareFetch"], bodies=False)

    assert fetched["api_name"].to_pylist() == ["ShareFetch"] * 2
    assert fetched["body_request"].to_pylist() == [None] * 2
    assert kwire.read_capture(SHARE, ports=[1]).num_rows == 0
    assert None not in kwire.read_capture(SHARE, "records", payload=True)["value"].to_pylist()


def test_a_topic_id_without_a_name_in_the_capture_has_the_name_of_the_options() -> None:
    partition = AcknowledgePartition(3, [AcknowledgementBatch(5, 9, (1, 1, 2, 2, 1))])
    request = ShareAcknowledgeRequest("g", "m", 1, topics=[AcknowledgeTopic(b"\1" * 16, [partition])])
    capture = build_pcap(CapturedConnection().open().send_requests(encode_request(request, 1, 7, "me")).packets)

    unknown = kwire.read_capture(capture, "share_acks")
    named = kwire.read_capture(capture, "share_acks", topics={to_text(b"\1" * 16): "mine"})
    assert unknown["topic"].to_pylist() == [None] * 3
    assert named["topic"].to_pylist() == ["mine"] * 3
    runs = named.select(["first_offset", "last_offset", "ack_name"]).to_pylist()
    assert [tuple(each.values()) for each in runs] == [(5, 6, "accept"), (7, 8, "release"), (9, 9, "accept")]


def test_the_error_for_an_unknown_level_lists_the_levels() -> None:
    with pytest.raises(ValueError, match="messages, partitions, share_acquired"):
        kwire.read_capture(SHARE, "frames")


@pytest.mark.parametrize("level", LEVELS)
def test_an_empty_selection_of_columns_is_an_error(level: str) -> None:
    with pytest.raises(ValueError, match=f"no column is chosen; level {level} has file, "):
        kwire.read_capture(SHARE, level, columns=[])
    with pytest.raises(ValueError, match="no column is chosen"):
        next(read_batches(SHARE, level, columns=()))


def test_without_pyarrow_rows_can_be_read_and_tables_raise_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def refuse(name: str, package: str | None = None) -> object:
        if name == "pyarrow":
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", refuse)

    assert len(list(read_rows(SHARE))) == 44
    with pytest.raises(MissingExtra, match=r"pip install .*\[captures\]"):
        kwire.read_capture(SHARE)


def test_topic_names_of_all_captures_are_collected_with_those_of_the_options() -> None:
    known = Options(topics={to_text(OTHER): "other"})
    found = collect_topic_names([late_name_capture(), CAPTURES / "small_share.pcap"], known)

    assert found == {to_text(ID): "mine", to_text(OTHER): "other", "fvtbe02hTLyuZUWVZ10nEw": "t-share"}
    assert collect_topic_names([io.BytesIO(late_name_capture())], Options()) == {to_text(ID): "mine"}


def test_missing_names_of_a_table_are_read_only_from_topic_naming_messages() -> None:
    capture = late_name_capture(30)
    (batch,) = read_batches(capture, "messages", columns=["session_partitions"])
    table = pa.Table.from_batches([batch])
    with record_decoded_responses() as decoded:
        whole = add_missing_topic_names(table, [capture], Options())

    assert whole["session_partitions"].to_pylist()[0] == '{"mine":[3]}'
    assert decoded == ["Metadata"]


def test_names_of_several_captures_are_collected_with_cached_indexes(tmp_path: Path) -> None:
    one, packed = tmp_path / "one.pcap", tmp_path / "packed.pcap.gz"
    one.write_bytes(late_name_capture(0))
    packed.write_bytes(gzip.compress((CAPTURES / "small_share.pcap").read_bytes()))
    known = {"A" * 22: "other"}

    names = collect_topic_names([one, packed], Options(topics=known), cache=str(tmp_path / "kept"))
    assert names == {**known, to_text(ID): "mine", "fvtbe02hTLyuZUWVZ10nEw": "t-share"}
    assert len(list((tmp_path / "kept").iterdir())) == 1


@pytest.mark.parametrize("level", ["messages", "partitions", "share_acquired"])
def test_a_table_has_topic_names_that_come_late_or_in_another_file(level: str) -> None:
    fetch = ShareFetchRequest("g", "m", 0, topics=[FetchTopic(ID, [FetchPartition(3)])])
    acquired = PartitionData(3, acquired_records=[AcquiredRecords(1, 2, 1)])
    answer = ShareFetchResponse(responses=[ShareFetchableTopicResponse(ID, [acquired])])
    talk = CapturedConnection().open()
    talk.exchange(encode_request(fetch, 2, 1, "me"), encode_response(answer, 2, 1))
    nameless = build_pcap(talk.close().packets)

    def column_values(*sources: bytes, **options: object) -> list[object]:
        table = kwire.read_capture(sources, level, **options)  # type: ignore[arg-type]
        column = "session_partitions" if level == "messages" else "topic"
        return [each for each in table[column].to_pylist() if each is not None]

    name, unnamed = ('{"mine":[3]}', f'{{"{to_text(ID)}":[3]}}') if level == "messages" else ("mine", None)
    assert column_values(nameless) == ([unnamed] if unnamed else [])
    found = column_values(nameless, late_name_capture())
    assert found == [name] * (2 if level == "messages" else max(len(found), 1))
    assert column_values(late_name_capture(), nameless).count(name) >= 1
    assert column_values(nameless, topics={to_text(ID): "mine"}) == [name]
    if level != "messages":
        table = kwire.read_capture([nameless, late_name_capture()], level, columns=["topic", "partition"])
        assert table.column_names == ["topic", "partition"]
        assert table["topic"].to_pylist()[0] == "mine"
