"""Rules about any request: versions, correlation ids, encoding, throttling."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.produce import ProduceRequest
from tests.support.observed_traffic import ObservedTraffic

METADATA = 3


def offer(low: int, high: int, *, api_key: int = METADATA, error_code: int = 0) -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=api_key, min_version=low, max_version=high)]
    return ApiVersionsResponse(error_code=error_code, api_keys=keys)


@pytest.mark.parametrize(("version", "is_broken"), [(4, True), (5, False), (9, False), (10, True)])
def test_a_version_must_be_one_that_the_broker_offers(version: int, is_broken: bool) -> None:
    traffic = ObservedTraffic()
    traffic.send(0, ApiVersionsRequest(), offer(5, 9))
    traffic.send(10, MetadataRequest(), MetadataResponse(), version=version)

    assert traffic.broken() == ([("api-version-not-offered", (1, 2))] if is_broken else [])
    if is_broken:
        assert traffic.notes()[0].text == f"sent Metadata v{version}; the broker offers versions 5 to 9"


def test_an_api_must_be_one_that_the_broker_offers() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, ApiVersionsRequest(), offer(0, 9, api_key=1))
    traffic.send(10, MetadataRequest(), MetadataResponse())

    assert [note.text for note in traffic.notes()] == ["sent Metadata v13, an API that the broker does not offer"]


def test_versions_of_another_connection_to_the_node_count_all_together() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, ApiVersionsRequest(), offer(0, 5), connection="c1")
    traffic.send(1, ApiVersionsRequest(), offer(3, 9), connection="c2")
    traffic.send(10, MetadataRequest(), MetadataResponse(), version=9, connection="c3")
    traffic.send(20, MetadataRequest(), MetadataResponse(), version=10, connection="c3")
    traffic.send(30, MetadataRequest(), MetadataResponse(), version=9, connection="c1")

    assert traffic.broken() == [("api-version-not-offered", (2, 4)), ("api-version-not-offered", (1, 5))]


def test_a_refused_api_versions_request_offers_nothing() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, ApiVersionsRequest(), offer(0, 3, api_key=18, error_code=ErrorCode.UNSUPPORTED_VERSION))
    traffic.send(10, MetadataRequest(), MetadataResponse())

    assert traffic.broken() == []


def test_a_correlation_id_must_not_be_in_flight() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, MetadataRequest(), MetadataResponse(), took_ms=10, correlation_id=7)
    traffic.send(5, MetadataRequest(), MetadataResponse(), correlation_id=7)

    assert traffic.broken() == [("correlation-id-in-flight", (1, 2))]


def test_a_correlation_id_may_be_used_again_after_its_response_and_on_other_connections() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, MetadataRequest(), MetadataResponse(), correlation_id=7)
    traffic.send(5, MetadataRequest(), MetadataResponse(), took_ms=10, correlation_id=7)
    traffic.send(6, MetadataRequest(), MetadataResponse(), correlation_id=7, connection="c2")
    traffic.send(20, ProduceRequest(acks=0), correlation_id=8, expects_response=False)
    traffic.send(21, ProduceRequest(acks=0), correlation_id=8, expects_response=False)

    assert traffic.broken() == []


def test_a_request_that_only_a_lenient_broker_accepts_is_a_note() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, MetadataRequest(), MetadataResponse(), decode_warnings=("3 bytes behind the end",))

    assert traffic.broken() == [("malformed-request", (1,))]
    assert traffic.notes()[0].text == "sent Metadata v13, which is not as its schema says: 3 bytes behind the end"


@pytest.mark.parametrize(("at_ms", "is_broken"), [(5, False), (100, True), (450, True), (495, False), (600, False)])
def test_nothing_is_sent_before_the_throttle_time_is_over(at_ms: float, is_broken: bool) -> None:
    traffic = ObservedTraffic()
    traffic.send(0, MetadataRequest(), MetadataResponse(throttle_time_ms=500), took_ms=0.5)
    traffic.send(at_ms, MetadataRequest(), MetadataResponse())
    traffic.send(at_ms, MetadataRequest(), MetadataResponse(), connection="c2")

    assert traffic.broken() == ([("throttle-ignored", (1, 2))] if is_broken else [])


def test_clients_of_older_versions_do_not_wait_since_the_broker_did() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, MetadataRequest(), MetadataResponse(throttle_time_ms=500), version=5)
    traffic.send(100, MetadataRequest(), MetadataResponse(), version=5)

    assert traffic.broken() == []
