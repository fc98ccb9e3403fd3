"""Request and response headers and their versions."""

from __future__ import annotations

import pytest

from kwire import UnsupportedVersion, WireError, headers
from kwire.errors import Truncated
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.before_4_0.controlled_shutdown import ControlledShutdownRequest
from kwire.messages.header import RequestHeader, ResponseHeader
from kwire.messages.metadata import MetadataRequest
from kwire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kwire.registry import REMOVED_EDITION, header_versions, request_class


def test_a_flexible_request_has_a_header_with_tags_and_an_old_client_id() -> None:
    frame = headers.encode_request(ShareFetchRequest("g"), 1, 7, "me")

    header, body = headers.decode_request_header(frame)

    assert frame.startswith(bytes.fromhex("004e 0001 00000007 0002 6d65 00"))
    assert header == RequestHeader(78, 1, 7, "me")
    assert body == 13


def test_an_old_request_has_a_header_without_tags() -> None:
    frame = headers.encode_request(MetadataRequest(None), 1, -1, None)

    assert frame == bytes.fromhex("0003 0001 ffffffff ffff ffffffff")
    assert headers.decode_request_header(memoryview(frame)) == (RequestHeader(3, 1, -1, None), 10)


def test_the_response_header_of_api_versions_never_has_tags() -> None:
    assert header_versions(18, 4) == (2, 0)
    assert headers.encode_response(ApiVersionsResponse(), 4, 5) == bytes.fromhex("00000005 0000 01 00000000 00")
    assert headers.decode_response_header(bytes.fromhex("0000000500"), 18, 4) == (ResponseHeader(5), 4)


def test_other_flexible_responses_have_tags_in_their_header() -> None:
    frame = headers.encode_response(ShareFetchResponse(), 1, 5)

    assert headers.decode_response_header(frame, 78, 1) == (ResponseHeader(5), 5)


def test_the_header_of_an_unsupported_version_can_be_read() -> None:
    frame = bytes.fromhex("0012 7fff 00000001 ffff 00")

    assert headers.decode_request_header(frame) == (RequestHeader(18, 32767, 1, None), 11)


def test_an_unknown_api_key_is_named() -> None:
    with pytest.raises(UnsupportedVersion, match="999"):
        headers.decode_request_header(bytes.fromhex("03e7 0000 00000001 ffff"))


@pytest.mark.parametrize("size", range(13))
def test_an_incomplete_header_is_truncated(size: int) -> None:
    frame = headers.encode_request(ShareFetchRequest("g"), 1, 7, "me")[:size]

    with pytest.raises(Truncated) as caught:
        headers.decode_request_header(frame)

    assert caught.value.path.startswith("RequestHeader.")
    assert (caught.value.at or 0) <= size


def test_a_lenient_header_accepts_what_kafka_accepts() -> None:
    frame = bytes.fromhex("0012 0000 00000001 0001 ff")
    with pytest.raises(WireError):
        headers.decode_request_header(frame)

    header, body, warnings = headers.decode_request_header_lenient(frame)

    assert (header.client_id, body) == ("\ufffd", 11)
    assert [warning.path for warning in warnings] == ["RequestHeader.client_id"]


def test_header_and_body_of_a_request_are_read_together() -> None:
    request = ShareFetchRequest("g", "m", 3)
    frame = headers.encode_request(request, 1, 7, "me")

    for data in (frame, frame, memoryview(frame)):  # The readers are remembered by the first one.
        assert headers.decode_request_leniently(ShareFetchRequest, 1, data) == (
            RequestHeader(78, 1, 7, "me"),
            request,
            (),
        )


def test_bytes_behind_a_request_are_a_warning_each_time() -> None:
    frame = headers.encode_request(ShareFetchRequest("g"), 1, 7, "me")
    headers.decode_request_leniently(ShareFetchRequest, 1, frame)

    for _ in range(2):
        header, request, warnings = headers.decode_request_leniently(ShareFetchRequest, 1, frame + b"\0")

        assert (header.correlation_id, request) == (7, ShareFetchRequest("g"))
        assert [warning.at for warning in warnings] == [len(frame)]


@pytest.mark.parametrize("size", range(13))
def test_a_request_with_an_incomplete_header_is_truncated_also_when_its_readers_are_known(size: int) -> None:
    frame = headers.encode_request(ShareFetchRequest("g"), 1, 7, "me")
    headers.decode_request_leniently(ShareFetchRequest, 1, frame)

    with pytest.raises(Truncated, match="RequestHeader"):
        headers.decode_request_leniently(ShareFetchRequest, 1, frame[:size])


def test_parts_join_to_the_encoded_bytes() -> None:
    request = ApiVersionsRequest("kwire", "1")

    assert b"".join(headers.request_parts(request, 3, 1, "c")) == headers.encode_request(request, 3, 1, "c")


def test_a_header_that_was_read_before_is_truncated_with_the_same_error() -> None:
    frame = headers.encode_request(ShareFetchRequest("g"), 1, 7, "me")
    headers.decode_request_header(frame)

    with pytest.raises(Truncated) as caught:
        headers.decode_request_header(frame[:9])

    assert caught.value.path == "RequestHeader.client_id"
    assert headers.decode_request_header(bytearray(frame))[0] == RequestHeader(78, 1, 7, "me")


def test_readers_of_versions_that_no_api_has_are_not_remembered() -> None:
    frames = [b"\0\x12" + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff\0" for version in (100, 101)]

    for frame in frames:
        headers.decode_request_header(frame)

    assert not {frame[:4] for frame in frames} & headers._REQUEST_READERS.keys()


def test_a_response_that_was_written_before_is_refused_in_a_version_that_is_no_whole_number() -> None:
    assert headers.encode_response(ShareFetchResponse(), 1, 5)

    with pytest.raises(UnsupportedVersion):
        headers.response_parts(ShareFetchResponse(), 1.0, 5)  # type: ignore[arg-type]


def test_a_response_that_does_not_fit_names_its_field_each_time() -> None:
    for _ in range(2):
        with pytest.raises(WireError, match="error_code"):
            headers.encode_response(ShareFetchResponse(error_code=1 << 20), 1, 5)
        with pytest.raises(WireError, match="correlation_id"):
            headers.encode_response(ShareFetchResponse(), 1, 1 << 40)


def test_the_only_request_without_a_client_id_has_a_header_of_eight_bytes() -> None:
    raw = headers.encode_request(ControlledShutdownRequest(broker_id=3), 0, 77, "not sent")

    assert raw.hex() == "000700000000004d00000003"
    assert headers.decode_request_header(raw) == (RequestHeader(7, 0, 77, None), 8)
    assert headers.decode_request_header_lenient(raw) == (RequestHeader(7, 0, 77, None), 8, ())
    with pytest.raises(Truncated, match="correlation_id"):
        headers.decode_request_header(raw[:7])


def test_a_header_of_a_removed_api_or_version_can_be_read() -> None:
    for api_key, version, size in ((4, 7, 11), (0, 0, 10), (5, 1, 10)):
        raw = headers.encode_request(request_class(api_key, REMOVED_EDITION)(), version, 5, "")

        assert headers.decode_request_header(raw) == (RequestHeader(api_key, version, 5, ""), size)
