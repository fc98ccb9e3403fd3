"""Addresses in responses, for every API that has them."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from kwire.capture.kafka.message_fields import struct_type_in
from kwire.messages import describe_cluster, fetch, find_coordinator, metadata, produce, share_acknowledge, share_fetch
from kwire.registry import API_KEYS, api_name, response_class
from mockbroker.proxy.addresses import rewrite_addresses


def localize(node_id: int, host: str, port: int) -> tuple[str, int]:
    return f"proxy of {host}:{port}", node_id


@pytest.mark.parametrize(
    ("api_key", "response", "field"),
    [
        (0, produce.ProduceResponse(node_endpoints=[produce.NodeEndpoint(7, "a", 1)]), "node_endpoints"),
        (1, fetch.FetchResponse(node_endpoints=[fetch.NodeEndpoint(7, "a", 1)]), "node_endpoints"),
        (3, metadata.MetadataResponse(brokers=[metadata.MetadataResponseBroker(7, "a", 1)]), "brokers"),
        (10, find_coordinator.FindCoordinatorResponse(coordinators=[find_coordinator.Coordinator("k", 7, "a", 1)]),
         "coordinators"),
        (60, describe_cluster.DescribeClusterResponse(brokers=[describe_cluster.DescribeClusterBroker(7, "a", 1)]),
         "brokers"),
        (78, share_fetch.ShareFetchResponse(node_endpoints=[share_fetch.NodeEndpoint(7, "a", 1)]), "node_endpoints"),
        (79, share_acknowledge.ShareAcknowledgeResponse(node_endpoints=[share_acknowledge.NodeEndpoint(7, "a", 1)]),
         "node_endpoints"),
    ],
)  # fmt: skip
def test_each_broker_gets_the_address_of_the_proxy(api_key: int, response: msgspec.Struct, field: str) -> None:
    rewrite_addresses(api_key, response, localize)

    row = cast("Any", response).__getattribute__(field)[0]
    assert (row.host, row.port) == ("proxy of a:1", 7)


def test_what_names_no_broker_stays_as_it_is() -> None:
    old = find_coordinator.FindCoordinatorResponse(node_id=7, host="a", port=1)
    unknown = find_coordinator.FindCoordinatorResponse(node_id=-1, host="", port=-1)
    controllers = describe_cluster.DescribeClusterResponse(
        endpoint_type=2, brokers=[describe_cluster.DescribeClusterBroker(7, "a", 1)]
    )
    for api_key, response in ((10, old), (10, unknown), (60, controllers)):
        rewrite_addresses(api_key, response, localize)

    assert (old.host, old.port) == ("proxy of a:1", 7)
    assert (unknown.host, unknown.port) == ("", -1)
    assert (controllers.brokers[0].host, controllers.brokers[0].port) == ("a", 1)


def test_no_other_response_for_clients_has_addresses() -> None:
    """A new API, or a new field, with host and port fails here. Those of voters and of members are not of brokers."""
    found = {api_name(key) for key in API_KEYS if _has_address(response_class(key))}

    assert found == {
        *("Produce", "Fetch", "Metadata", "FindCoordinator", "DescribeCluster", "ShareFetch", "ShareAcknowledge"),
        *("DescribeQuorum", "FetchSnapshot", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "UpdateRaftVoter"),
        *("StreamsGroupDescribe", "StreamsGroupHeartbeat"),
    }


def _has_address(cls: type[msgspec.Struct]) -> bool:
    fields = msgspec.structs.fields(cls)
    if {"host", "port"} <= {field.name for field in fields}:
        return True
    children = (struct_type_in(field.type) for field in fields)
    return any(_has_address(child) for child in children if child is not None)
