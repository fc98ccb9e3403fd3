"""Tagged fields that no schema knows are issues of their message, wherever in it they stand."""

from __future__ import annotations

from kwire.capture.rows import Row
from kwire.capture.unknown_tags import TOLD_MAX
from kwire.headers import encode_request, encode_response
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from tests.kwire.capture.wire import Talk


def exchange(request: MetadataRequest, response: MetadataResponse) -> Row:
    """The row of one exchange."""
    talk = Talk().open().asks(encode_request(request, 12, 3, "me")).answers(encode_response(response, 12, 3))
    return talk.rows()[0]


def told(row: Row) -> list[tuple[str, str, str]]:
    issues = row["issues"]
    assert isinstance(issues, list)
    return [(each["side"], each["path"], each["detail"]) for each in issues if each["kind"] == "unknown_tag"]


def test_unknown_tags_are_told_with_their_place_and_size() -> None:
    row = exchange(
        MetadataRequest([MetadataRequestTopic(name="t", unknown_tagged_fields=((9, b"abc"),))]),
        MetadataResponse(topics=[MetadataResponseTopic(name="t")], unknown_tagged_fields=((7, b""), (8, b"x"))),
    )

    assert told(row) == [
        ("request", "MetadataRequest.topics[0]", "tagged field 9 of 3 bytes is not known"),
        ("response", "MetadataResponse", "tagged field 7 of 0 bytes is not known"),
        ("response", "MetadataResponse", "tagged field 8 of 1 bytes is not known"),
    ]
    assert row["status"] == "ok"


def test_a_message_full_of_unknown_tags_tells_some_of_them() -> None:
    topics = [MetadataResponseTopic(name=f"t{index}", unknown_tagged_fields=((1, b"x"),)) for index in range(100)]

    assert len(told(exchange(MetadataRequest(topics=None), MetadataResponse(topics=topics)))) == TOLD_MAX


def test_known_messages_have_no_such_issue() -> None:
    assert told(exchange(MetadataRequest(topics=None), MetadataResponse(cluster_id="c"))) == []
