"""Values that do not fit their field are rejected with their path, for every type."""

from __future__ import annotations

import array
from typing import Any

import pytest

from kwire import UnsupportedVersion, WireError, decode, encode
from kwire.error_codes import ErrorCode
from kwire.errors import InvalidValue, UnexpectedNull
from kwire.messages.api_versions import ApiVersionsResponse, SupportedFeatureKey
from kwire.messages.fetch import FetchRequest, FetchTopic
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.share_acknowledge import AcknowledgementBatch, AcknowledgePartition, AcknowledgeTopic
from kwire.messages.share_acknowledge import ShareAcknowledgeRequest as Acknowledge
from kwire.messages.share_fetch import FetchPartition, ShareFetchRequest
from kwire.messages.share_fetch import FetchTopic as ShareFetchTopic
from kwire.records.coordinator.consumer_group_member_metadata import ConsumerGroupMemberMetadataValue

KEYS = "FindCoordinatorRequest.coordinator_keys"
AUTO = "MetadataRequest.allow_auto_topic_creation"


def _refused(message: Any, version: int, kind: type[WireError] = InvalidValue) -> tuple[str, str]:
    with pytest.raises(WireError) as caught:
        encode(message, version)
    assert type(caught.value) is kind, caught.value
    return caught.value.path, caught.value.what


def _acknowledge(**values: Any) -> Acknowledge:
    batch = AcknowledgementBatch(**values)
    return Acknowledge("g", "m", topics=[AcknowledgeTopic(partitions=[AcknowledgePartition(0, [batch])])])


def test_a_number_out_of_range_is_named_with_its_path() -> None:
    path = "ShareAcknowledgeRequest.topics[0].partitions[0].acknowledgement_batches[0]"

    assert _refused(_acknowledge(first_offset=1 << 63), 1) == (
        f"{path}.first_offset",
        f"{1 << 63} does not fit int64: {-(1 << 63)} to {(1 << 63) - 1}",
    )
    assert _refused(_acknowledge(acknowledge_types=(1, 128)), 1)[0] == f"{path}.acknowledge_types[1]"
    assert _refused(_acknowledge(acknowledge_types=(0,) * 40 + (-129,)), 1)[0] == f"{path}.acknowledge_types[40]"


@pytest.mark.parametrize(("message", "version", "path"), [
    (FindCoordinatorRequest(key=5), 0, "FindCoordinatorRequest.key"),  # type: ignore[arg-type]
    (FindCoordinatorRequest(key=b"k"), 3, "FindCoordinatorRequest.key"),  # type: ignore[arg-type]
    (FindCoordinatorRequest(key="\ud800"), 3, "FindCoordinatorRequest.key"),
    (FindCoordinatorRequest(key="x" * 32768), 0, "FindCoordinatorRequest.key"),
    (FindCoordinatorRequest(key="x" * 32768), 3, "FindCoordinatorRequest.key"),
    (FindCoordinatorRequest(key="k", key_type="1"), 3, "FindCoordinatorRequest.key_type"),  # type: ignore[arg-type]
    (FindCoordinatorRequest(coordinator_keys=("a", 1)), 4, f"{KEYS}[1]"),  # type: ignore[arg-type]
    (FindCoordinatorRequest(coordinator_keys="ab"), 4, KEYS),  # type: ignore[arg-type]
    (MetadataRequest(allow_auto_topic_creation=2), 4, AUTO),  # type: ignore[arg-type]
    (MetadataRequest([MetadataRequestTopic(bytes(15), "t")]), 12, "MetadataRequest.topics[0].topic_id"),
    (MetadataRequest([MetadataRequestTopic("id", "t")]), 12, "MetadataRequest.topics[0].topic_id"),  # type: ignore[arg-type]
    (MetadataRequest([None]), 12, "MetadataRequest.topics[0]"),  # type: ignore[list-item]
    (MetadataRequest(7), 12, "MetadataRequest.topics"),  # type: ignore[arg-type]
    (ShareFetchRequest("g", topics=[5]), 1, "ShareFetchRequest.topics[0]"),  # type: ignore[list-item]
])  # fmt: skip
def test_a_value_of_the_wrong_type_is_named(message: Any, version: int, path: str) -> None:
    assert _refused(message, version)[0] == path


def test_a_null_that_the_version_does_not_allow_is_rejected() -> None:
    assert _refused(MetadataRequest(None), 0, UnexpectedNull)[0] == "MetadataRequest.topics"
    assert encode(MetadataRequest(None), 1) == b"\xff\xff\xff\xff"


def test_a_field_of_another_version_is_rejected_by_name_unless_it_is_ignorable() -> None:
    assert _refused(FindCoordinatorRequest("k", 1), 0, UnsupportedVersion)[0] == "FindCoordinatorRequest.key_type"
    assert _refused(ShareFetchRequest("g", is_renew_ack=True), 1, UnsupportedVersion) == (
        "ShareFetchRequest.is_renew_ack",
        "is set, but version 1 of edition 4.4 does not have it",
    )
    assert encode(ShareFetchRequest("g", share_acquire_mode=1), 1) == encode(ShareFetchRequest("g"), 1)


def test_a_nested_field_of_another_version_is_rejected_by_name() -> None:
    request = ShareFetchRequest("g", topics=[ShareFetchTopic(partitions=[FetchPartition(0, partition_max_bytes=1)])])

    path = _refused(request, 1, UnsupportedVersion)[0]

    assert path == "ShareFetchRequest.topics[0].partitions[0].partition_max_bytes"


@pytest.mark.parametrize(
    "tags", [((2, b""), (1, b"")), ((5, b""), (5, b"")), ((-1, b""),), ((7, "x"),), 3, (4,), ((1 << 31, b""),)]
)
def test_unknown_tags_must_be_ascending_pairs(tags: Any) -> None:
    assert _refused(FindCoordinatorRequest("k", unknown_tagged_fields=tags), 3)[0] == (
        "FindCoordinatorRequest.unknown_tagged_fields"
    )


def test_an_unknown_tag_must_not_be_one_of_the_schema() -> None:
    response = ApiVersionsResponse(unknown_tagged_fields=((3, b""),))

    assert _refused(response, 3)[0] == "ApiVersionsResponse.unknown_tagged_fields"


def test_known_and_unknown_tags_are_written_in_order() -> None:
    response = ApiVersionsResponse(
        supported_features=[SupportedFeatureKey("f", 0, 1)],
        finalized_features_epoch=7,
        unknown_tagged_fields=((9, b"z"),),
    )

    raw = encode(response, 3)

    assert decode(ApiVersionsResponse, 3, raw) == response
    assert raw.endswith(b"\x01\x08" + bytes(7) + b"\x07" + b"\x09\x01z")


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize(
    "records",
    [
        *(b"abcd", bytearray(b"abcd"), memoryview(b"abcd")),
        *(memoryview(array.array("H", [1, 2])), memoryview(b"a-b-c-d-")[::2]),
    ],
    ids=["bytes", "bytearray", "view", "view of int16", "view with gaps"],
)
def test_records_may_be_in_any_buffer(records: Any, version: int) -> None:
    request = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])])

    found = decode(ProduceRequest, version, encode(request, version)).topic_data[0].partition_data[0].records

    assert isinstance(found, memoryview)
    assert bytes(found) == bytes(records)


def test_lists_tuples_and_enums_are_accepted_for_tuples_lists_and_ints() -> None:
    plain = FetchRequest(topics=[FetchTopic("t", partitions=[])], forgotten_topics_data=[])
    other = FetchRequest(topics=(FetchTopic("t", partitions=()),), forgotten_topics_data=())  # type: ignore[arg-type]

    assert encode(other, 12) == encode(plain, 12)
    assert encode(ApiVersionsResponse(ErrorCode.INVALID_REQUEST), 0) == b"\0*\0\0\0\0"
    assert encode(FindCoordinatorRequest(coordinator_keys=["a"]), 4) == b"\0\2\2a\0"  # type: ignore[arg-type]


def test_every_default_is_a_new_object() -> None:
    one, other = FetchRequest(), FetchRequest()
    one.topics.append(FetchTopic())
    one.replica_state.replica_id = 5

    assert other.topics == []
    assert other.replica_state.replica_id == -1


def test_the_null_of_a_tagged_struct_is_a_zero() -> None:
    # Kafka's generator writes a varint there, and a byte of -1 everywhere else (test_codec_damaged_like_kafka).
    value = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)

    raw = encode(value, 0)

    assert raw.endswith(bytes.fromhex("01 00 01 00"))
    assert decode(ConsumerGroupMemberMetadataValue, 0, raw) == value
