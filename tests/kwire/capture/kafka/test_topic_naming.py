"""The messages that name topics, according to the schemas."""

from __future__ import annotations

import msgspec
import pytest

from kwire import registry
from kwire.capture.kafka.message_fields import struct_type_in
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.kafka.topic_naming import topic_naming_messages
from kwire.uuids import to_text

ID = b"\1" * 16
NAME_FIELDS = ("name", "topic", "topic_name")


def with_named_topic(message: type[msgspec.Struct]) -> msgspec.Struct | None:
    """The message with one topic that has name and id; None if it has no fields for both."""
    fields = {field.name: field.type for field in msgspec.structs.fields(message)}
    name = next((each for each in NAME_FIELDS if each in fields), None)
    if "topic_id" in fields and name is not None:
        return message(**{"topic_id": ID, name: "mine"})
    for field, kind in fields.items():
        inner = struct_type_in(kind)
        value = None if inner is None else with_named_topic(inner)
        if value is not None:
            return message(**{field: [value] if "list" in str(kind) else value})
    return None


@pytest.mark.parametrize("name", sorted(topic_naming_messages()))
def test_names_are_learned_from_every_message_with_name_and_id(name: str) -> None:
    message = with_named_topic(registry.message_class(name))
    names = TopicNames({})
    assert message is not None
    names.learn(message)

    assert names.names_by_id() == {to_text(ID): "mine"}
    assert names.version == 1


def test_the_topic_naming_messages_are_those_of_the_schemas() -> None:
    apis = ("Metadata", "CreateTopics", "DescribeTopicPartitions", "ShareGroupDescribe")
    known = {f"{api}Response" for api in apis}

    assert known < topic_naming_messages()
    assert known < topic_naming_messages("kip932-r5")
    # They have both fields, but never in one version.
    assert not {"FetchRequest", "ProduceRequest", "OffsetCommitRequest", "ShareFetchRequest"} & topic_naming_messages()
