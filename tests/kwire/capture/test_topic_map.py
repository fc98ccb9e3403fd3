"""Names of topics: from every message that gives name and id together, from a file, and from a first pass."""

from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec
import pytest

import kwire
from kwire import registry
from kwire.capture.facts import Topic, _struct_in
from kwire.capture.options import Options
from kwire.capture.topic_map import names_in, read_topics, teachers
from kwire.capture.topic_names import TopicNames
from kwire.headers import encode_request, encode_response
from kwire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
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
from tests.kwire.capture.wire import CAPTURES, Talk, pcap

ID, OTHER = b"\1" * 16, b"\2" * 16
NAME_FIELDS = ("name", "topic", "topic_name")


def taught(message: type[msgspec.Struct]) -> msgspec.Struct | None:
    """The message with one topic in it that has name and id; None where it has no room for both."""
    fields = {field.name: field.type for field in msgspec.structs.fields(message)}
    name = next((each for each in NAME_FIELDS if each in fields), None)
    if "topic_id" in fields and name is not None:
        return message(**{"topic_id": ID, name: "mine"})
    for field, kind in fields.items():
        inner = _struct_in(kind)
        made = None if inner is None else taught(inner)
        if made is not None:
            return message(**{field: [made] if "list" in str(kind) else made})
    return None


@pytest.mark.parametrize("name", sorted(teachers()))
def test_every_message_that_gives_both_teaches(name: str) -> None:
    message = taught(registry.message_class(name))
    names = TopicNames({})
    assert message is not None
    names.learn(message)

    assert names.known() == {to_text(ID): "mine"}
    assert names.version == 1


def test_the_messages_that_teach_follow_from_the_schemas() -> None:
    known = {
        "MetadataResponse",
        "CreateTopicsResponse",
        "DescribeTopicPartitionsResponse",
        "ShareGroupDescribeResponse",
    }

    assert known < teachers()
    assert known < teachers("kip932-r5")
    # They have a field for each, and never both in one version.
    assert not {"FetchRequest", "ProduceRequest", "OffsetCommitRequest", "ShareFetchRequest"} & teachers()


def late_name() -> bytes:
    fetch = ShareFetchRequest("g", "m", 0, topics=[FetchTopic(ID, [FetchPartition(3)])])
    named = MetadataResponse(topics=[MetadataResponseTopic(name="mine", topic_id=ID)])
    talk = Talk().open().asks(encode_request(fetch, 2, 1, "me")).answers(encode_response(ShareFetchResponse(), 2, 1))
    return pcap(
        talk.asks(encode_request(MetadataRequest(), 12, 2, "me")).answers(encode_response(named, 12, 2)).close().wires
    )


def test_a_first_pass_finds_names_wherever_they_stand_and_keeps_those_of_the_user() -> None:
    found = names_in([late_name(), CAPTURES / "small_share.pcap"], Options(topics={to_text(OTHER): "other"}))

    assert found == {to_text(ID): "mine", to_text(OTHER): "other", "fvtbe02hTLyuZUWVZ10nEw": "t-share"}
    assert names_in([io.BytesIO(late_name())], Options()) == {to_text(ID): "mine"}


def test_names_that_come_after_somebody_asked_for_them_are_late() -> None:
    topic, named = Topic(None, ID, [], 0), MetadataResponse(topics=[MetadataResponseTopic(name="mine", topic_id=ID)])
    early, late = TopicNames({}), TopicNames({})
    early.learn(named)

    assert early.name_and_id(topic) == ("mine", to_text(ID))
    assert late.name_and_id(topic) == (None, to_text(ID))
    assert not late.came_late
    late.learn(named)
    assert (early.came_late, late.came_late) == (False, True)


DESCRIBED = f"""\
Topic: orders\tTopicId: {to_text(ID)}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: segment.bytes=1073741824
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr:
\tTopic: orders\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr:
Topic: more\tTopicId: {to_text(OTHER)}\tPartitionCount: 1\tReplicationFactor: 1\tConfigs:
"""


@pytest.mark.parametrize(
    "text",
    [
        DESCRIBED,
        f"# id and name\n{to_text(ID)} orders\n\n  {to_text(OTHER)} = more  \r\n",
        json.dumps({to_text(ID): "orders", to_text(OTHER): "more"}),
    ],
)
def test_a_map_of_topics_is_json_lines_or_what_kafkas_tool_prints(text: str, tmp_path: Path) -> None:
    path = tmp_path / "topics"
    path.write_text(text, encoding="utf-8")

    assert read_topics(path) == {to_text(ID): "orders", to_text(OTHER): "more"}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no topic with its id"),
        ("orders 3\n", "no topic with its id"),
        ("{", "no JSON"),
        ('{"orders": "x"}', "'orders' is not the id of a topic"),
        (f'{{"{to_text(ID)}": 5}}', "5 is not the name of a topic"),
        ("[]", "no topic with its id"),
    ],
)
def test_a_file_that_is_no_map_of_topics_is_refused(text: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "topics"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ValueError, match=what):
        read_topics(path)


@pytest.mark.parametrize("level", ["messages", "partitions", "share_acquired"])
def test_a_table_has_the_names_that_come_late_or_from_another_file(level: str) -> None:
    fetch = ShareFetchRequest("g", "m", 0, topics=[FetchTopic(ID, [FetchPartition(3)])])
    acquired = PartitionData(3, acquired_records=[AcquiredRecords(1, 2, 1)])
    answer = ShareFetchResponse(responses=[ShareFetchableTopicResponse(ID, [acquired])])
    talk = Talk().open().asks(encode_request(fetch, 2, 1, "me")).answers(encode_response(answer, 2, 1))
    nameless = pcap(talk.close().wires)

    def told(*sources: bytes, **options: object) -> list[object]:
        table = kwire.read_capture(sources, level, **options)  # type: ignore[arg-type]
        column = "session_partitions" if level == "messages" else "topic"
        return [each for each in table[column].to_pylist() if each is not None]

    name, unnamed = ('{"mine":[3]}', f'{{"{to_text(ID)}":[3]}}') if level == "messages" else ("mine", None)
    assert told(nameless) == ([unnamed] if unnamed else [])
    assert told(nameless, late_name()) == [name] * (2 if level == "messages" else len(told(nameless, late_name())))
    assert told(nameless, late_name()).count(name) >= 1
    assert told(late_name(), nameless).count(name) >= 1
    assert told(nameless, topics={to_text(ID): "mine"}) == [name]
    if level != "messages":
        table = kwire.read_capture([nameless, late_name()], level, columns=["topic", "partition"])
        assert table.column_names == ["topic", "partition"]
        assert table["topic"].to_pylist()[0] == "mine"
