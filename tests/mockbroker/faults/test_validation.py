"""A fault that can never match or act is refused when it is created, with what would work."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.produce import ProduceRequest
from mockbroker.faults import Fault, FaultError, Then, When
from mockbroker.faults.api_fields import api_fields
from mockbroker.faults.model import fault_from_json
from mockbroker.faults.validation import check_fault, create_fault


@pytest.mark.parametrize(
    ("api", "options", "message"),
    [
        ("produce", {"drop": True}, "api: 'produce' is not the name of an API; did you mean 'Produce'"),
        ("ProduceRequest", {"drop": True}, "did you mean 'Produce'"),
        ("Produce", {"tpoic": "a", "drop": True}, "a fault has no 'tpoic'; did you mean 'topic'"),
        ("Produce", {"topic": "a"}, "the fault does nothing; set one of error, delay_ms"),
        ("Produce", {"group": "g", "drop": True}, "group: a Produce request names no group; it names partition, topic"),
        ("ListGroups", {"topic": "a", "drop": True}, "topic: a ListGroups request names no topic; it names none of"),
        (
            "CreatePartitions",
            {"partition": 0, "drop": True},
            "partition: a CreatePartitions request names no partition",
        ),
        (None, {"version": -1, "drop": True}, "version: -1 is not a whole number from 0 on"),
        (None, {"on": "connection", "drop": True, "version": 1}, "version: a new connection has none"),
        ("Produce", {"error": "NOT_LEADER"}, "'NOT_LEADER' is no error code of Kafka; did you mean 'NOT_LEADER_OR_"),
        ("Produce", {"error": 9999}, "error: 9999 is no error code of Kafka"),
        ("Produce", {"error": "NONE"}, "error: NONE is no error"),
        ("Produce", {"error": True}, "error"),
        (
            "Produce",
            {"error": "REQUEST_TIMED_OUT", "error_at": "top"},
            "has no error code at 'top'; it has at partition",
        ),
        (
            "Heartbeat",
            {"error": "NOT_COORDINATOR", "error_at": "partition"},
            "no error code at 'partition'; it has at top",
        ),
        ("Produce", {"error_at": "partition", "drop": True}, "error_at without an error"),
        ("SaslHandshake", {"throttle_ms": 10}, "carries no throttle time; use delay_ms"),
        ("Produce", {"corrupt_records": True}, "a Produce response carries no records; Fetch and ShareFetch do"),
        ("Produce", {"delay_ms": -1}, "delay_ms: -1 is not a whole number from 0 on"),
        ("Produce", {"delay_ms": 1.5}, "delay_ms: 1.5 is not a whole number"),
        ("Produce", {"drop": True, "times": 0}, "times: 0 is not a whole number from 1 on"),
        ("Produce", {"drop": True, "probability": 1.5}, "probability: 1.5 is not above 0 and at most 1"),
        ("Produce", {"drop": True, "probability": 0}, "probability: 0 is not above 0"),
        ("Produce", {"drop": True, "from_ms": 10, "until_ms": 10}, "until_ms: 10 is not after from_ms, 10"),
        ("Produce", {"drop": True, "error": 6}, "drop='close' leaves no answer, so error cannot act; make two faults"),
        ("Produce", {"answer": "never", "flip_bits": 1}, "answer='never' leaves no answer, so flip_bits cannot act"),
        ("Produce", {"drop": True, "answer": "twice"}, "drop='close' leaves no answer, so answer='twice' cannot act"),
        ("Produce", {"truncate": 3, "answer": "twice"}, "truncate closes the connection"),
        ("Produce", {"drip_ms": 5, "flip_bits": 1}, "drip_ms: without drip_bytes"),
        ("Produce", {"answer": "late", "throttle_ms": 1}, "answer='late' is sent at once"),
        ("Produce", {"drop": "slam"}, "drop: invalid enum value 'slam'"),
        ("Produce", {"topic": 5, "drop": True}, "topic: expected `str | null`, got `int`"),
        ("Produce", {"filter": "ack=1", "drop": True}, "'ack' is no field of a Produce request; did you mean acks"),
        ("Produce", {"filter": "acks=", "drop": True}, "filter 'acks=': character 6"),
        ("Produce", {"filter": "acks=many", "drop": True}, "acks is compared with a number"),
        (
            "Fetch",
            {"set_fields": {"throttle": 1}},
            "a Fetch response has no field 'throttle'; did you mean 'throttle_ti",
        ),
        (
            "Fetch",
            {"set_fields": {"responses.partitions.records": "x"}},
            'set_fields: responses.partitions.records: the field has bytes, which can only be set to "" or to null',
        ),
        ("Fetch", {"set_fields": {"throttle_time_ms": "x"}}, "set_fields: throttle_time_ms: a text is given"),
        ("Fetch", {"set_fields": {"throttle_time_ms": 1 << 31}}, "throttle_time_ms: 2147483648 does not fit int32"),
        ("Fetch", {"set_fields": {"throttle_time_ms": None}}, "set_fields: throttle_time_ms: null is given"),
        ("Fetch", {"set_fields": {"throttle_time_ms": True}}, "throttle_time_ms: true is given; the field has a whole"),
        (
            "Fetch",
            {"set_fields": {"responses.partitions.high_watermark": [1]}},
            "high_watermark: an array cannot be set",
        ),
        (
            "Fetch",
            {"set_fields": {"error_code": 1.5}},
            "set_fields: error_code: a number with a fraction cannot be set",
        ),
        ("Fetch", {"set_fields": {"responses.topic_id": "x"}}, "responses.topic_id: 'x' is no UUID"),
        (
            "Metadata",
            {"set_fields": {"cluster_id": 1}},
            "set_fields: cluster_id: a number is given; the field has a text",
        ),
        ("Metadata", {"set_fields": {"topics.is_internal": 1}}, "a number is given; the field has a truth value"),
        ("Metadata", {"set_fields": {"topics.partitions.isr_nodes": 1}}, "the field is an array; empty_arrays="),
        (
            "Metadata",
            {"omit_rows": "topic"},
            "omit_rows: a Metadata response has no rows at 'topic'; did you mean 'topics'",
        ),
        (
            "Metadata",
            {"double_rows": ["topics.partitions.isr_nodes"]},
            "double_rows: a Metadata response has no rows at",
        ),
        ("Metadata", {"empty_arrays": "cluster_id"}, "empty_arrays: a Metadata response has no array 'cluster_id'"),
        ("Heartbeat", {"omit_rows": "x"}, "omit_rows: a Heartbeat response has no rows at 'x'; it has none"),
        ("Heartbeat", {"response": {"errorcode": 1}}, "response: HeartbeatResponse.errorcode: is no field"),
        ("Heartbeat", {"response": {"errorCode": "x"}}, "response: HeartbeatResponse.error_code: is a string, not an"),
        ("Heartbeat", {"response": {}, "error": 16}, "response: it has its own error codes"),
        ("Heartbeat", {"drop": True, "response": {}}, "leaves no answer, so response cannot act"),
        ("Heartbeat", {"length_prefix": 1 << 31}, "lengthPrefix: expected `int` <= 2147483647"),
        ("Produce", {"state": "fence-member"}, "state: fence-member needs a group; a Produce request names partition"),
        (
            "ListGroups",
            {"state": "expire-locks"},
            "state: expire-locks needs a group; a ListGroups request names none of",
        ),
        ("Heartbeat", {"state": "fence"}, "state: invalid enum value 'fence'"),
        (None, {"state": "fence-member"}, "state: not possible for a fault on every API"),
        (None, {"on": "connection", "drop": True, "hold": True}, "hold: a new connection can only be dropped"),
        ("Fetch", {"stale": True}, "stale: a Fetch response has no leaders; Metadata"),
        ("Fetch", {"max_versions": {"Fetch": 4}}, "max_versions: only an ApiVersions response lists versions"),
        (
            "ApiVersions",
            {"max_versions": {"Fecth": 4}},
            "max_versions: 'Fecth' is not the name of an API; did you mean",
        ),
        ("ApiVersions", {"max_versions": {"Fetch": -2}}, "max_versions: Fetch: -2 is no version"),
        (None, {"on": "connection", "error": 6}, "error: a new connection can only be dropped"),
        (
            None,
            {"on": "connection", "drop": True, "client_id": "a"},
            "client_id: a new connection has none; it has node",
        ),
        (None, {"on": "connect", "drop": True}, "on: invalid enum value 'connect'"),
        (None, {"error": 6}, "error: not possible for a fault on every API; name the API"),
        (None, {"filter": "acks=1", "drop": True}, "filter: not possible for a fault on every API"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(api: str | None, options: dict[str, Any], message: str) -> None:
    with pytest.raises(FaultError) as caught:
        create_fault(api, **options)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"when": {"api": "Produce"}, "then": {"drop": "close"}, "nmae": "x"},
            "unknown field `nmae`; did you mean 'name'",
        ),
        (
            {"when": {"clientID": "a"}, "then": {}},
            "when: object contains unknown field `clientID`; did you mean 'clientId'",
        ),
        ({"when": {"api": "Produce"}}, "missing required field `then`"),
        ([], "Expected `object`, got `array`"),
        (
            {"then": {"setFields": {"a.b": 1, "responses.error_code": [1]}}},
            "then.setFields.responses.error_code: expected `bool | int | str | null`, got `array`",
        ),
        ({"then": {"omitRows": ["topics", 5]}}, r"then.omitRows\[1\]|then.omitRows\[...\]"),
        ({"then": {"delayMs": -5}}, "then.delayMs: expected `int` >= 0"),
    ],
)
def test_a_wrong_json_form_is_refused(value: object, message: str) -> None:
    with pytest.raises(FaultError, match=message):
        check_fault(fault_from_json(value))


def test_an_error_may_be_a_name_a_number_or_a_code_and_an_api_the_class_of_its_requests() -> None:
    by_number = create_fault(ProduceRequest, error=6)

    assert by_number == create_fault("Produce", error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert by_number == Fault(when=When(api="Produce"), then=Then(error="NOT_LEADER_OR_FOLLOWER"))


def test_every_api_with_an_error_code_takes_an_error() -> None:
    names = ["Produce", "Fetch", "Metadata", "ShareAcknowledge", "DescribeGroups", "WriteTxnMarkers", "OffsetFetch"]

    assert [create_fault(name, error="UNKNOWN_SERVER_ERROR").when.api for name in names] == names
    assert api_fields("DescribeGroups").error_places == {"row"}
