"""Kafka's JSON form in both directions: what is left out, what is refused, and by which name."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from kwire import UnsupportedVersion, WireError, decode, from_json, to_json
from kwire.errors import InvalidValue, UnexpectedNull
from kwire.json_form import json_converter, to_json_checked
from kwire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasRequestEntryData, OpData
from kwire.messages.api_versions import ApiVersionsResponse
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.share_fetch import ShareFetchRequest
from kwire.registry import codec_of_name
from tests.support.messages.golden_vectors import all_vectors


def _refused(name: str, version: int, tree: Any, kind: type[WireError] = InvalidValue) -> tuple[str, str]:
    with pytest.raises(WireError) as caught:
        from_json(name, version, tree)
    assert type(caught.value) is kind, caught.value
    return caught.value.path, caught.value.what


def test_fields_that_are_left_out_take_their_defaults() -> None:
    assert from_json(ShareFetchRequest, 1, {"groupId": "g"}) == ShareFetchRequest("g")
    assert from_json("MetadataRequest", 12, {"topics": None}) == MetadataRequest(None)


def test_tagged_fields_are_left_out_while_they_hold_their_default() -> None:
    assert "finalizedFeaturesEpoch" not in to_json(ApiVersionsResponse(), 3)
    assert to_json(ApiVersionsResponse(finalized_features_epoch=5), 3)["finalizedFeaturesEpoch"] == 5


def test_uuids_are_base64url_and_bytes_are_base64() -> None:
    topic = MetadataRequestTopic(bytes.fromhex("fbefbe" * 5 + "00"), None)

    assert to_json(MetadataRequest([topic]), 12)["topics"] == [{"topicId": "-----" * 4 + "AA", "name": None}]


def test_records_are_base64_or_as_in_kafka_empty() -> None:
    request = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b"\xfb\xef")])])

    assert '"records": "++8="' in json.dumps(to_json(request, 9))
    assert '"records": ""' in json.dumps(to_json(request, 9, records=False))
    assert from_json(ProduceRequest, 9, to_json(request, 9)) == request


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 0.5, -0.0])
def test_floats_that_json_does_not_have_are_written_by_name(value: float) -> None:
    request = AlterClientQuotasRequest([AlterClientQuotasRequestEntryData(ops=[OpData("k", value)])])

    tree = json.loads(json.dumps(to_json(request, 0), allow_nan=False))

    found = from_json(AlterClientQuotasRequest, 0, tree).entries[0].ops[0].value
    assert math.copysign(1, found) == math.copysign(1, value)
    assert found == value or (math.isnan(found) and math.isnan(value))


@pytest.mark.parametrize(("tree", "path"), [
    ([], "MetadataRequest"),
    ({"topic": []}, "MetadataRequest.topic"),
    ({"topics": {}}, "MetadataRequest.topics"),
    ({"topics": [5]}, "MetadataRequest.topics[0]"),
    ({"topics": [{"name": 5}]}, "MetadataRequest.topics[0].name"),
    ({"topics": [{"topicId": "short"}]}, "MetadataRequest.topics[0].topic_id"),
    ({"topics": [{"topicId": 5}]}, "MetadataRequest.topics[0].topic_id"),
    ({"allowAutoTopicCreation": 1}, "MetadataRequest.allow_auto_topic_creation"),
    ({"allowAutoTopicCreation": None}, "MetadataRequest.allow_auto_topic_creation"),
    ({5: 5}, "MetadataRequest.5"),
])  # fmt: skip
def test_what_does_not_fit_is_named_with_its_path(tree: Any, path: str) -> None:
    kind = UnexpectedNull if tree == {"allowAutoTopicCreation": None} else InvalidValue

    assert _refused("MetadataRequest", 12, tree, kind)[0] == path


@pytest.mark.parametrize("value", [1 << 31, -(1 << 31) - 1, 1.5, "1", True, None, [], 1 << 20_000], ids=range(8))
def test_an_integer_must_be_one_and_fit(value: Any) -> None:
    path, _ = _refused("ShareFetchRequest", 1, {"maxBytes": value}, UnexpectedNull if value is None else InvalidValue)

    assert path == "ShareFetchRequest.max_bytes"


@pytest.mark.parametrize("value", ["not base64!", "YQ", 5, {}])
def test_bytes_must_be_base64(value: Any) -> None:
    assert _refused("SaslAuthenticateRequest", 2, {"authBytes": value})[0] == "SaslAuthenticateRequest.auth_bytes"


def test_a_field_of_another_version_is_rejected_by_name() -> None:
    path, what = _refused("ShareFetchRequest", 1, {"groupId": "g", "isRenewAck": False}, UnsupportedVersion)

    assert (path, what) == ("ShareFetchRequest.isRenewAck", "is no field of version 1, but of 2+")


def test_writing_json_rejects_a_field_of_another_version_and_a_null_as_encoding_does() -> None:
    with pytest.raises(UnsupportedVersion, match="key_type"):
        to_json(FindCoordinatorRequest("k", 1), 0)
    with pytest.raises(UnexpectedNull, match=r"MetadataRequest\.topics"):
        to_json(MetadataRequest(None), 0)


def test_the_compiled_and_the_checked_conversion_give_the_same_json_in_the_same_order() -> None:
    for vector in all_vectors():
        codec = codec_of_name(vector.message, vector.edition)
        message = decode(vector.message, vector.version, vector.raw, edition=vector.edition)
        for records in (True, False):
            fast = json_converter(vector.message, vector.edition, vector.version, records=records)(message)

            assert json.dumps(fast) == json.dumps(to_json_checked(codec, vector.version, message, records=records))
