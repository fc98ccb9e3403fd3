"""An error of a fault is in the bytes of the answer, whatever the version: of every API, and wherever it can be put."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kwire.capture.kafka.message_fields import message_topics
from kwire.codec import decode
from kwire.error_codes import ErrorCode
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kwire.registry import DEFAULT_EDITION, request_class
from mockbroker.engine.routes import Route
from mockbroker.faults.api_fields import api_fields
from mockbroker.handlers import ROUTES
from mockbroker.journal.message_values import failure_codes
from tests.support.brokers.faulty_broker import FaultyBroker
from tests.support.cases import check_cases
from tests.support.messages.filled_messages import filled_vectors

#: An error that no handler returns for the requests below.
_ERROR = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
_WITH_ERRORS = [row for row in ROUTES.values() if api_fields(row.name).error_places]
_WITH_TOPICS = [row for row in _WITH_ERRORS if "topic" in api_fields(row.name).selectors]


def _filled_request(row: Route, version: int) -> msgspec.Struct:
    """A request of this version with a value in every field."""
    vectors = [each for each in filled_vectors(f"{row.name}Request", DEFAULT_EDITION) if each.version == version]
    return decode(request_class(row.api_key), version, vectors[-1].raw)


def _first_topic(request: msgspec.Struct) -> str | None:
    """The name of a topic that a request names; None in versions with ids."""
    return next((topic.name for topic in message_topics(request) if topic.name), None)


def _lost(row: Route, *, named: bool = False, **options: Any) -> list[str]:
    """The versions in which a fault without the error in the answer counts as acting, or does not say why it did not.

    named: the fault is for the first topic of the request.
    """
    lost = []
    for version in range(row.versions[0], row.versions[1] + 1):
        broker, request = FaultyBroker(), _filled_request(row, version)
        topic = {"topic": _first_topic(request)} if named else {}
        fault = broker.add(row.name, error=_ERROR.name, **topic, **options)
        response = broker.call(request, version)
        has_error = _ERROR in failure_codes(response)
        if bool(fault.hits) != has_error or (not has_error and not fault.near_misses):
            lost.append(f"{row.name} {version}: {fault.hits} hits, {fault.near_misses} {response}")
    return lost


def _check_rows(rows: list[Route], **options: Any) -> None:
    def check(row: Route) -> None:
        assert _lost(row, **options) == []

    check_cases(rows, check)


@pytest.mark.parametrize("after", [False, True])
def test_an_error_of_a_fault_is_in_the_answer_of_every_version(*, after: bool) -> None:
    _check_rows(_WITH_ERRORS, after=after)


@pytest.mark.parametrize("place", ["top", "topic", "partition"])
def test_an_error_at_a_place_is_in_the_answer_or_the_fault_is_reported(place: str) -> None:
    rows = [row for row in _WITH_ERRORS if place in api_fields(row.name).error_places]
    _check_rows([row for row in rows if place == "top" or row in _WITH_TOPICS], error_at=place)


@pytest.mark.parametrize("after", [False, True])
def test_an_error_of_a_topic_is_in_the_answer_of_every_version(*, after: bool) -> None:
    _check_rows(_WITH_TOPICS, named=True, after=after)


def test_an_offset_fetch_without_an_error_at_its_top_has_it_in_every_partition() -> None:
    broker = FaultyBroker()
    broker.add("OffsetFetch", group="g", error="COORDINATOR_LOAD_IN_PROGRESS")
    request = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic("A", (0, 1))])

    rows = broker.call(request, 1).topics[0].partitions

    assert [(row.partition_index, row.committed_offset, row.error_code) for row in rows] == [(0, -1, 14), (1, -1, 14)]


def test_a_fault_without_a_place_for_its_error_does_not_act_and_says_why() -> None:
    broker = FaultyBroker()
    fault = broker.add("Metadata", error="REBOOTSTRAP_REQUIRED", error_at="top")

    response = broker.call(MetadataRequest(topics=[MetadataRequestTopic(name="A")]), 12)

    assert [(topic.name, topic.error_code) for topic in response.topics] == [("A", 0)]
    assert fault.hits == 0
    assert "an answer of Metadata 12 to it has no place at the top for the error" in fault.near_misses[0]
    with pytest.raises(AssertionError, match="no place at the top"):
        broker.faults.check_hits()
