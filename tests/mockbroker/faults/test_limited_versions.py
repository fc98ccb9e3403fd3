"""Versions that a fault, or an older broker, does not serve: the fall-back of KIP-35 and KIP-511 needs the answers."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.client import Client, ConnectionClosed
from kwire.codec import encode
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.list_groups import ListGroupsRequest
from mockbroker import Cluster

_UNSUPPORTED_VERSION = 35
_KEY = 18


def _request() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="kwire", client_software_version="1.0")


def _ranges(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}


@pytest.mark.parametrize(
    ("last", "listed"),
    [(0, {}), (1, {}), (2, {}), (3, {_KEY: (0, 3)}), (4, {_KEY: (0, 4)})],
)
@pytest.mark.parametrize("by_fault", [True, False])
def test_the_first_api_versions_above_the_limit_is_refused_in_the_form_of_version_0(
    last: int, listed: dict[int, tuple[int, int]], *, by_fault: bool
) -> None:
    with Cluster(versions=None if by_fault else {"ApiVersions": last}) as cluster:
        if by_fault:
            cluster.faults.add("ApiVersions", max_versions={"ApiVersions": last})
        with Client(cluster.bootstrap_servers, negotiated=False) as client:
            refused = client.send(_request(), last + 1)
            accepted = client.send(_request(), last)
            again = client.send(_request(), last + 1)
        recorded = cluster.exchanges("ApiVersions")

    assert (refused.error_code, _ranges(refused)) == (_UNSUPPORTED_VERSION, listed)
    assert accepted.error_code == 0
    assert _ranges(accepted)[_KEY] == (0, last)
    assert again == refused
    assert [exchange.response_version for exchange in recorded] == [0, last, 0]


@pytest.mark.parametrize(("release", "listed"), [("2.3", {}), ("2.4", {_KEY: (0, 3)}), ("3.9", {_KEY: (0, 4)})])
def test_an_old_release_refuses_as_it_did(release: str, listed: dict[int, tuple[int, int]]) -> None:
    with Cluster(versions=release) as cluster, Client(cluster.bootstrap_servers, negotiated=False) as client:
        refused = client.send(_request(), 5)

    assert (refused.error_code, _ranges(refused)) == (_UNSUPPORTED_VERSION, listed)


@pytest.mark.parametrize(
    "options", [{"max_versions": {"ApiVersions": 2}}, {"error": "UNSUPPORTED_VERSION", "times": 1}]
)
def test_a_client_falls_back_to_a_version_that_is_served(options: dict[str, Any]) -> None:
    with Cluster() as cluster:
        with cluster.faults.add("ApiVersions", **options) as fault, Client(cluster.bootstrap_servers) as client:
            code = client.send(ListGroupsRequest()).error_code
        versions = [exchange.api_version for exchange in cluster.exchanges("ApiVersions")]

    assert code == 0
    assert versions == [4, 0]
    assert fault.hits >= 1


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_an_error_unsupported_version_has_the_form_of_version_0(version: int) -> None:
    with Cluster() as cluster, Client(cluster.bootstrap_servers, negotiated=False) as client:
        cluster.faults.add("ApiVersions", error="UNSUPPORTED_VERSION")
        body = client.send_raw(_KEY, version, encode(_request(), version))

    assert body == bytes((0, _UNSUPPORTED_VERSION, 0, 0, 0, 0))


def test_an_api_versions_that_is_not_served_closes_the_connection_at_once() -> None:
    with Cluster() as cluster:
        cluster.faults.add("ApiVersions", max_versions={"ApiVersions": -1})
        with Client(cluster.bootstrap_servers, negotiated=False) as client, pytest.raises(ConnectionClosed):
            client.send(_request(), 3)

        assert cluster.exchanges("ApiVersions")[0].closed == "API key 18 is not served (version 3)"


def test_a_limit_before_authentication_is_refused_in_the_form_of_version_0() -> None:
    with Cluster(sasl="PLAIN alice:secret") as cluster:
        cluster.faults.add("ApiVersions", max_versions={"ApiVersions": 2})
        with Client(cluster.bootstrap_servers, sasl=("alice", "secret")) as client:
            code = client.send(ListGroupsRequest()).error_code
        versions = [exchange.api_version for exchange in cluster.exchanges("ApiVersions")]

    assert code == 0
    assert versions == [4, 0]
