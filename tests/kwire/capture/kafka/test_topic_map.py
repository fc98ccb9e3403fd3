"""Topic names by id from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kwire.capture.kafka.topic_map import read_topic_map
from kwire.uuids import to_text

ID, OTHER = b"\1" * 16, b"\2" * 16
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
def test_a_topic_map_is_json_or_lines_or_the_output_of_kafka_topics(text: str, tmp_path: Path) -> None:
    path = tmp_path / "topics"
    path.write_text(text, encoding="utf-8")

    assert read_topic_map(path) == {to_text(ID): "orders", to_text(OTHER): "more"}


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
def test_a_file_without_topics_is_an_error(text: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "topics"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ValueError, match=what):
        read_topic_map(path)
