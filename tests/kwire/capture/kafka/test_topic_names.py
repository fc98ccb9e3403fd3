"""Topic names that are learned from messages."""

from __future__ import annotations

from kwire.capture.kafka.message_fields import MessageTopic
from kwire.capture.kafka.topic_names import TopicNames
from kwire.messages.metadata import MetadataResponse, MetadataResponseTopic
from kwire.uuids import to_text

ID = b"\1" * 16


def test_a_name_after_its_first_request_is_late() -> None:
    topic = MessageTopic(None, ID, [], 0)
    naming_response = MetadataResponse(topics=[MetadataResponseTopic(name="mine", topic_id=ID)])
    early, late = TopicNames({}), TopicNames({})
    early.learn(naming_response)

    assert early.name_and_id(topic) == ("mine", to_text(ID))
    assert late.name_and_id(topic) == (None, to_text(ID))
    assert not late.has_late_names
    late.learn(naming_response)
    assert (early.has_late_names, late.has_late_names) == (False, True)


def test_a_label_is_the_name_as_soon_as_it_is_known() -> None:
    names = TopicNames({})
    before = names.label(None, ID)
    names.learn(MetadataResponse(topics=[MetadataResponseTopic(name="mine", topic_id=ID)]))

    assert (before, names.label(None, ID)) == (to_text(ID), "mine")
    assert (names.label("given", ID), names.label(None, None), names.label("", bytes(16))) == ("given", "?", "?")
