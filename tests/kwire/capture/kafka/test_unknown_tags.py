"""Unknown tagged fields are issues of their message, in every nested struct."""

from __future__ import annotations

from kwire.capture.kafka.unknown_tags import REPORTED_TAGS_MAX
from kwire.capture.model import Row
from kwire.headers import encode_request, encode_response
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from tests.support.captures.capture_files import CapturedConnection


def exchange(request: MetadataRequest, response: MetadataResponse) -> Row:
    """The row of one exchange."""
    frames = encode_request(request, 12, 3, "me"), encode_response(response, 12, 3)
    return CapturedConnection().open().exchange(*frames).read_rows()[0]


def unknown_tags(row: Row) -> list[tuple[str, str, str]]:
    issues = row["issues"]
    assert isinstance(issues, list)
    return [(each["side"], each["path"], each["detail"]) for each in issues if each["kind"] == "unknown_tag"]


def test_unknown_tags_are_reported_with_path_and_size() -> None:
    row = exchange(
        MetadataRequest([MetadataRequestTopic(name="t", unknown_tagged_fields=((9, b"abc"),))]),
        MetadataResponse(topics=[MetadataResponseTopic(name="t")], unknown_tagged_fields=((7, b""), (8, b"x"))),
    )

    assert unknown_tags(row) == [
        ("request", "MetadataRequest.topics[0]", "tagged field 9 of 3 bytes is not known"),
        ("response", "MetadataResponse", "tagged field 7 of 0 bytes is not known"),
        ("response", "MetadataResponse", "tagged field 8 of 1 bytes is not known"),
    ]
    assert row["status"] == "ok"


def test_only_the_first_unknown_tags_are_reported() -> None:
    topics = [MetadataResponseTopic(name=f"t{index}", unknown_tagged_fields=((1, b"x"),)) for index in range(100)]

    row = exchange(MetadataRequest(topics=None), MetadataResponse(topics=topics))
    assert len(unknown_tags(row)) == REPORTED_TAGS_MAX


def test_a_message_without_unknown_tags_has_no_issue() -> None:
    assert unknown_tags(exchange(MetadataRequest(topics=None), MetadataResponse(cluster_id="c"))) == []
