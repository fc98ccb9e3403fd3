"""The share groups of Apache Kafka 4.0.0 over sockets, by their own messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire import Client
from kwire.messages.early_access.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster

MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(share_edition="4.0-early-access", topics={"orders": 1}) as running:
        yield running


def test_the_share_apis_are_listed_in_version_0_and_those_of_offsets_not_at_all(cluster: Cluster) -> None:
    with Client(cluster.bootstrap_servers) as client:
        assert client.versions is not None
        keys = (76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92)
        listed = {key: client.versions[key] for key in keys if key in client.versions}

    assert listed == dict.fromkeys((76, 77, 78, 79, 83, 84, 85, 86, 87), (0, 0))


def test_other_apis_are_as_they_were_released(cluster: Cluster) -> None:
    with Client(cluster.bootstrap_servers) as client:
        assert [topic.name for topic in client.send(MetadataRequest(topics=None)).topics] == ["orders"]


def test_the_journal_has_the_messages_of_the_wire(cluster: Cluster) -> None:
    heartbeat = ShareGroupHeartbeatRequest("g", MEMBER, 0, None, ("orders",))
    with Client(cluster.bootstrap_servers) as client:
        answer = client.send(heartbeat, 0)

    (exchange,) = cluster.exchanges("ShareGroupHeartbeat")
    assert exchange.request == heartbeat
    assert exchange.response == answer
    assert exchange.to_json()["response"]["memberId"] == MEMBER
