"""The API versions of older brokers: the table of releases, and limits of single APIs."""

from __future__ import annotations

from typing import Any

import pytest

from kwire import headers
from kwire.codec import decode
from kwire.error_codes import ErrorCode
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.fetch import FetchRequest
from kwire.messages.list_groups import ListGroupsRequest
from mockbroker.config.features import FEATURES
from mockbroker.config.kafka_versions import known_releases, parse_versions
from mockbroker.config.keys import ConfigError
from mockbroker.engine.output import Send
from mockbroker.handlers import select_routes
from mockbroker.state.release import RELEASES
from tests.support.brokers.broker import Broker

_REQUEST = ApiVersionsRequest(client_software_name="kwire", client_software_version="1")


def _listed(broker: Broker, version: int = 3) -> dict[int, tuple[int, int]]:
    response: ApiVersionsResponse = broker.call(_REQUEST, version)
    return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}


@pytest.mark.parametrize("release", ["4.3", "4.4"])
def test_the_table_agrees_with_the_routes_of_a_release(release: str) -> None:
    limits = parse_versions(release)

    routes = select_routes(RELEASES[release].apis)
    assert dict(limits.versions) == {key: route.versions for key, route in routes.items()}


def test_a_release_lists_what_its_brokers_list_of_the_versions_that_are_served() -> None:
    listed = _listed(Broker(versions="2.8"))

    assert listed[1] == (4, 12)
    assert listed[3] == (0, 11)
    assert listed[0] == (0, 9)  # As Kafka 4 lists it, from 0 on.
    assert listed[18] == (0, 3)
    assert not listed.keys() & {55, 68, 75, 78, 88}


def test_requests_above_the_versions_of_a_release_end_the_connection() -> None:
    broker = Broker(versions="2.8")
    broker.send(FetchRequest(), 13, connection="fetch")
    broker.send(ListGroupsRequest(), 4, connection="list")

    assert broker.closed == {"fetch": "Fetch version 13 is not served, only 4 to 12"}
    assert broker.take_response("list").error_code == ErrorCode.NONE


def _call_unserved(broker: Broker) -> ApiVersionsResponse:
    """The answer to a version of ApiVersions that is not served, which has the form of version 0."""
    number = broker.connect("a")
    broker.core.submit(number, headers.encode_request(_REQUEST, 4, 1, "c"), broker.now_ms)
    (output,) = broker.core.take_output()
    assert isinstance(output, Send)
    return decode(ApiVersionsResponse, 0, memoryview(output.body)[4:])


@pytest.mark.parametrize(("release", "rows"), [("2.3", []), ("2.8", [(18, 0, 3)])])
def test_an_unserved_version_of_api_versions_is_refused_with_the_range_since_2_4(release: str, rows: Any) -> None:
    broker = Broker(versions=release)
    response = _call_unserved(broker)

    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in response.api_keys] == rows


def test_features_are_listed_since_4_0_where_their_apis_are() -> None:
    old = Broker(versions="3.9").call(_REQUEST, 4)
    new = Broker(versions="4.0").call(_REQUEST, 4)
    levels = {row.name: row.max_version_level for row in new.finalized_features}

    assert (old.supported_features, old.finalized_features) == ([], [])
    assert levels["transaction.version"] == 2
    assert levels["group.version"] == 1
    assert not levels.keys() & {"share.version", "streams.version"}
    assert not {row.name for row in new.supported_features} & {"share.version", "streams.version"}


def test_limits_of_single_apis_leave_the_others() -> None:
    broker = Broker(versions={"Produce": 8, "EndTxn": 4, "ShareFetch": -1})
    listed = _listed(broker)

    assert listed[0] == (0, 8)
    assert listed[1] == Broker().core.routes[1].listed
    assert 78 not in listed
    assert broker.core.state.features["transaction.version"] == 1
    assert "share.version" not in broker.core.state.features


def test_limits_have_a_form_for_the_command() -> None:
    assert parse_versions("Produce=8, Fetch=11") == parse_versions({"Produce": 8, "Fetch": 11})
    assert parse_versions("2.8.1") == parse_versions("2.8")
    assert parse_versions({}).limit_features(FEATURES["4.4"]) == FEATURES["4.4"]
    assert known_releases()[0] == "2.1"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("2.0", "versions: '2.0' is no release from 2.1 to 4.4"),
        ("latest", "versions: 'latest' is no release from 2.1 to 4.4"),
        ({"Porduce": 8}, "versions: 'Porduce' is not the name of an API; did you mean 'Produce'?"),
        ({"Produce": -2}, "versions: Produce: -2 is no version; -1 leaves the API out"),
        ({"Produce": True}, "versions: Produce: True is no version"),
        ("Produce=", "versions: Produce: '' is no version"),
    ],
)
def test_a_limit_that_cannot_be_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_versions(given)

    assert message in str(caught.value)


def test_a_version_below_those_that_are_served_is_refused() -> None:
    with pytest.raises(ConfigError, match="versions: Fetch: 3 is not served, only 4 to 18; -1 leaves the API out"):
        Broker(versions={"Fetch": 3})
