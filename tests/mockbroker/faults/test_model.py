"""The JSON form of faults: both ways, and the published schema."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.faults import ClusterFault, Fault, FaultError, Then, When
from mockbroker.faults.model import fault_from_json, faults_from_text, faults_schema

_TEXT = st.none() | st.text(max_size=8)
_NUMBER = st.integers(0, 1 << 40)
_WHENS: st.SearchStrategy[When] = st.builds(
    When,
    api=_TEXT,
    topic=_TEXT,
    partition=st.none() | _NUMBER,
    filter=_TEXT,
    first=st.integers(1),
    every=st.integers(1),
)
_THENS: st.SearchStrategy[Then] = st.builds(
    Then,
    error=_TEXT,
    error_at=st.sampled_from([None, "top", "topic", "partition"]),
    after=st.booleans(),
    delay_ms=_NUMBER,
    drop=st.sampled_from([None, "close", "reset", "half-close"]),
    answer=st.sampled_from([None, "never", "twice", "late"]),
    truncate=st.none() | _NUMBER,
)
_FAULTS = st.builds(Fault, when=_WHENS, then=_THENS, name=st.text(max_size=8), optional=st.booleans())


@given(_FAULTS)
def test_a_fault_is_equal_after_a_round_trip_through_json(fault: Fault) -> None:
    text = json.dumps({"faults": [fault.to_json()]})

    assert fault_from_json(json.loads(json.dumps(fault.to_json()))) == fault
    assert faults_from_text(text) == (fault,)


def test_the_json_form_has_the_names_of_kafka_and_leaves_defaults_out() -> None:
    fault = Fault(when=When(api="Produce", client_id="a"), then=Then(error="REQUEST_TIMED_OUT", delay_ms=5))

    assert fault.to_json() == {
        "when": {"api": "Produce", "clientId": "a"},
        "then": {"error": "REQUEST_TIMED_OUT", "delayMs": 5},
    }


def test_a_file_that_is_no_json_is_refused() -> None:
    with pytest.raises(FaultError, match="JSON is malformed"):
        faults_from_text("faults: []")


def test_the_schema_describes_every_field_of_the_model() -> None:
    definitions: dict[str, Any] = faults_schema()["$defs"]  # type: ignore[assignment]

    assert set(definitions) == {"FaultFile", "Fault", "When", "Then", "ClusterFault"}
    for kind in (When, Then, Fault, ClusterFault):
        assert set(definitions[kind.__name__]["properties"]) == set(kind.__struct_encode_fields__)
        assert definitions[kind.__name__]["additionalProperties"] is False


def test_the_published_schema_is_the_one_of_the_model() -> None:
    published = resources.files("mockbroker.faults").joinpath("faults.schema.json").read_text("utf-8")

    assert json.loads(published) == json.loads(json.dumps(faults_schema()))


def test_a_fault_is_frozen_and_hashable() -> None:
    fault = Fault(when=When(api="Produce"), then=Then(drop="close"))

    with pytest.raises(AttributeError):
        fault.name = "other"  # type: ignore[misc]
    assert {fault: 1}[msgspec.structs.replace(fault)] == 1
