"""Filters of scan requests, for each level: the rows are those filtered afterwards, with less decoding."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from kwire.capture.display_filter.display_filter import DisplayFilter
from kwire.capture.kafka.message_topics import outcome_topic_names
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.options import Options
from kwire.capture.reader import collect_topic_names, make_row_builder, read_outcomes, read_rows
from kwire.capture.rows.column import ColumnKind
from kwire.capture.rows.columns import level_columns as columns_of
from tests.support.captures.decode_counts import record_decoded_responses
from tests.support.captures.rotated_captures import pieces
from tests.support.spark.capture_readers import Row, open_reader, read_all

pytestmark = pytest.mark.slow

CAPTURES = Path(__file__).parents[3] / "captures"
SHARE, CLASSIC = CAPTURES / "small_share.pcap", CAPTURES / "small_ck.pcap"


class Asked(NamedTuple):
    """A condition on a level. `saves`: whether fewer responses are decoded for it."""

    level: str
    text: str
    saves: bool = False


# {middle} is the middle of the share capture, the second of two.
CONDITIONS = [
    Asked("messages", "time >= {middle}"),
    Asked("messages", "time < {middle} or resp_ts < {middle}"),
    Asked("messages", "not req_ts >= {middle}"),
    Asked("messages", "api in (ShareFetch, Fetch)"),
    Asked("messages", "client = ck-producer"),
    Asked("messages", "client_ip = 127.0.0.1 and client_port in (43604, 44432)"),
    Asked("messages", "conn = '127.0.0.1:43604'"),
    Asked("messages", "group = sg1"),
    Asked("messages", "topic = t-share"),
    Asked("messages", "topic = t-share and api = ShareFetch and time < {middle}"),
    Asked("messages", "not topic ~ '^t-' and status = ok"),
    Asked("messages", "topic = t-ck or error"),
    Asked("partitions", "time >= {middle}", saves=True),
    Asked("partitions", "api in (ShareFetch, Fetch)", saves=True),
    Asked("partitions", "client = ck-producer", saves=True),
    Asked("partitions", "conn = '127.0.0.1:43604'", saves=True),
    Asked("partitions", "topic = t-share"),
    Asked("share_acquired", "time < {middle}", saves=True),
    Asked("share_acquired", "client = ck-producer", saves=True),
    Asked("share_acquired", "group = sg1 and topic = t-share and first_offset > 100"),
    Asked("share_acks", "time < {middle}", saves=True),
    Asked("share_acks", "api = ShareAcknowledge", saves=True),
    Asked("share_acks", "conn = '127.0.0.1:43604' and group = sg1", saves=True),
    Asked("records", "time >= {middle}", saves=True),
    Asked("records", "api = Produce", saves=True),
    Asked("records", "topic = t-share"),
    Asked("flows", "time < {middle}"),
    Asked("flows", "client_port = 43604"),
    Asked("packets", "time >= {middle}"),
    Asked("packets", "conn = '127.0.0.1:43604'"),
]


@pytest.fixture(scope="module")
def middle() -> str:
    times = sorted(ts for row in read_rows(str(SHARE)) if isinstance(ts := row["req_ts"], int))
    moment = datetime.fromtimestamp(times[len(times) // 2] // 1000 / 1e6, UTC)
    return f"'{moment:%Y-%m-%dT%H:%M:%S.%f}'"


@cache
def all_by_hand(level: str) -> list[Row]:
    """The rows of both captures, with the topics of their messages."""
    named = Options(topics=collect_topic_names(list(map(str, (SHARE, CLASSIC))), Options()))
    found = []
    for file in (SHARE, CLASSIC):
        names = TopicNames(named.topics)
        make = make_row_builder(level, str(file), named, names)
        for outcome in read_outcomes(str(file), named, level):
            found += [{**row, "topics": outcome_topic_names(outcome, names)} for row in make(outcome)]
    return found


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the indexes of both captures, which several processes build."""
    folder = str(tmp_path_factory.mktemp("index"))
    read_all(open_reader(SHARE, CLASSIC, index=folder))
    return folder


@pytest.fixture(scope="module")
def all_decoded(index: str) -> Callable[[str, str], int]:
    """The number of responses decoded for a level without a filter."""

    @cache
    def count(level: str, task_bytes: str) -> int:
        with record_decoded_responses() as decoded:
            read_all(open_reader(SHARE, CLASSIC, level=level, task_bytes=task_bytes, index=index))
        return len(decoded)

    return count


def comparable(rows: list[Row], columns: list[str]) -> list[str]:
    return sorted(str([row[name] for name in columns]) for row in rows)


@pytest.mark.parametrize("task_bytes", ["1", "1000000"], ids=["apart", "whole"])
@pytest.mark.parametrize("asked", CONDITIONS, ids=lambda asked: f"{asked.level}: {asked.text}")
def test_a_filter_gives_the_rows_that_pass_it_afterwards(
    index: str, middle: str, asked: Asked, task_bytes: str, all_decoded: Callable[[str, str], int]
) -> None:
    text = asked.text.format(middle=middle)
    where, everything = DisplayFilter(text, asked.level), all_by_hand(asked.level)
    expected = [row for row in everything if where.matches(row)]

    with record_decoded_responses() as decoded:
        options = {"level": asked.level, "task_bytes": task_bytes, "index": index}
        found = read_all(open_reader(SHARE, CLASSIC, filter=text, **options))

    columns = [each.name for each in columns_of(asked.level) if each.kind not in (ColumnKind.TIME, ColumnKind.ISSUES)]
    assert comparable(found, columns) == comparable(expected, columns)
    assert len(found) < len(everything)
    assert not asked.saves or len(decoded) < all_decoded(asked.level, task_bytes)


@pytest.mark.parametrize("task_bytes", ["1", "1000000"], ids=["apart", "whole"])
def test_a_level_is_read_by_columns_with_only_what_the_chosen_ones_need(tmp_path: Path, task_bytes: str) -> None:
    options = {"level": "share_acks", "task_bytes": task_bytes, "index": str(tmp_path)}
    decoded = {}
    for columns in ("first_offset,ack_name", "first_offset,topic"):
        with record_decoded_responses() as api_names:
            rows = read_all(open_reader(SHARE, columns=columns, **options))
        assert [list(row) for row in rows] == [columns.split(",")]
        decoded[columns] = set(api_names)

    naming = {"CreateTopics", "Metadata"}
    assert decoded["first_offset,topic"] - decoded["first_offset,ack_name"] == naming


def test_the_topics_of_a_message_are_those_in_its_bodies() -> None:
    """Topics by name, by an id that is named elsewhere in the capture, and by a session."""
    rows = read_all(open_reader(SHARE, show_secrets="true"))
    ids = set(re.findall(r'"topicId":"([\w-]{22})"', str([row["body_request"] for row in rows])))
    words = re.compile("|".join(['"t-share"', *sorted(ids - {"AAAAAAAAAAAAAAAAAAAAAA"})]))
    texts = ("body_request", "body_response", "session_partitions")
    expected = [row for row in rows if any(words.search(row[name] or "") for name in texts)]

    found = read_all(open_reader(SHARE, filter="topic=t-share", show_secrets="true"))

    assert found == expected
    assert 0 < len(found) < len(rows)


@pytest.mark.parametrize("kept", ["none", "folder"])
def test_the_topics_of_messages_in_a_series_are_those_of_the_whole(tmp_path: Path, kept: str) -> None:
    files = pieces(SHARE, tmp_path / "in", 5)
    place = str(tmp_path / "index") if kept == "folder" else kept

    found = read_all(open_reader(*files, filter="topic=t-share", across_files="true", task_bytes="20000", index=place))

    whole = read_all(open_reader(SHARE, filter="topic=t-share"))
    keys = ["conn_id", "correlation_id", "api_name", "status", "body_request", "body_response"]
    assert comparable(found, keys) == comparable(whole, keys) != []
