from __future__ import annotations

import importlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

import kwire
from kwire.capture import arrow
from kwire.capture.pipeline import rows
from kwire.capture.schemas import LEVELS, Kind, arrow_schema
from kwire.errors import MissingExtra
from kwire.headers import encode_request
from kwire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kwire.uuids import to_text
from tests.kwire.capture.wire import CAPTURES, SHARE, Talk, pcap

FILES = sorted(CAPTURES.glob("*.pcap"))


@pytest.mark.parametrize("level", LEVELS)
def test_a_table_holds_every_row_of_every_file_in_the_schema_of_its_level(level: str) -> None:
    table = kwire.read_capture(FILES, level)

    assert table.schema == arrow_schema(level) == arrow.schema(level)
    expected = [row for path in FILES for row in rows(path, level)]
    assert table.num_rows == len(expected) > 0
    for column in LEVELS[level]:
        found = table[column.name].to_pylist()
        if column.kind is Kind.TIME:
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


def test_options_choose_what_is_read() -> None:
    fetched = kwire.read_capture(SHARE, apis=["ShareFetch"], bodies=False)

    assert fetched["api_name"].to_pylist() == ["ShareFetch"] * 2
    assert fetched["body_request"].to_pylist() == [None] * 2
    assert kwire.read_capture(SHARE, ports=[1]).num_rows == 0
    assert None not in kwire.read_capture(SHARE, "records", payload=True)["value"].to_pylist()


def test_a_topic_id_that_the_capture_does_not_name_takes_the_name_that_is_given() -> None:
    partition = AcknowledgePartition(3, [AcknowledgementBatch(5, 9, (1, 1, 2, 2, 1))])
    request = ShareAcknowledgeRequest("g", "m", 1, topics=[AcknowledgeTopic(b"\1" * 16, [partition])])
    capture = pcap(Talk().open().asks(encode_request(request, 1, 7, "me")).wires)

    unknown = kwire.read_capture(capture, "share_acks")
    named = kwire.read_capture(capture, "share_acks", topics={to_text(b"\1" * 16): "mine"})
    assert unknown["topic"].to_pylist() == [None] * 3
    assert named["topic"].to_pylist() == ["mine"] * 3
    runs = named.select(["first_offset", "last_offset", "ack_name"]).to_pylist()
    assert [tuple(each.values()) for each in runs] == [(5, 6, "accept"), (7, 8, "release"), (9, 9, "accept")]


def test_an_unknown_level_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="messages, partitions, share_acquired"):
        kwire.read_capture(SHARE, "frames")


@pytest.mark.parametrize("level", LEVELS)
def test_a_choice_of_no_column_is_refused_since_its_rows_could_not_be_counted(level: str) -> None:
    with pytest.raises(ValueError, match=f"no column is chosen; level {level} has file, "):
        kwire.read_capture(SHARE, level, columns=[])
    with pytest.raises(ValueError, match="no column is chosen"):
        next(arrow.batches(SHARE, level, columns=()))


def test_without_pyarrow_rows_work_and_tables_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def refuse(name: str, package: str | None = None) -> object:
        if name == "pyarrow":
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", refuse)

    assert len(list(rows(SHARE))) == 44
    with pytest.raises(MissingExtra, match=r"pip install 'kwire\[arrow\]'"):
        kwire.read_capture(SHARE)


DOCS = Path(__file__).parents[3] / "docs" / "captures.md"


@pytest.mark.parametrize("level", LEVELS)
def test_the_documented_columns_are_those_of_the_schema(level: str) -> None:
    lines = DOCS.read_text(encoding="utf-8").split(f"### `{level}`\n")[1].split("\n#")[0].splitlines()
    documented = [line for line in lines if line.startswith("| `")]

    assert documented == [f"| `{each.name}` | {each.kind.value} | {each.about} |" for each in LEVELS[level]]
