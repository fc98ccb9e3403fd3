"""`Cluster` as its user sees it: arguments, names, the journal after the end."""

from __future__ import annotations

from pathlib import Path

import pytest

import mockbroker
from kwire import Client
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster, ConfigError


def test_topics_without_a_number_of_partitions_have_one() -> None:
    with Cluster(topics=["orders", "bills"]) as cluster, Client(cluster.bootstrap_servers) as client:
        topics = client.send(MetadataRequest(topics=None)).topics

    assert {topic.name: len(topic.partitions) for topic in topics} == {"orders": 1, "bills": 1}


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ("orders", "topics: 'orders' is one text"),
        ({"orders": 0}, "topics: 'orders': 0; expected a name and a number of partitions from 1 on"),
        ({"orders": "3"}, "topics: 'orders': '3'"),
        ({"orders": True}, "topics: 'orders': True"),
        ([("orders", 3)], r"topics: \('orders', 3\): 1"),
    ],
)
def test_topics_of_another_form_are_refused(topics: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Cluster(topics=topics)  # type: ignore[arg-type]


@pytest.mark.parametrize("nodes", [0, -1, 101])
def test_a_number_of_nodes_that_a_cluster_cannot_have_is_refused(nodes: int) -> None:
    with pytest.raises(ConfigError, match=f"nodes: {nodes}; a cluster has 1 to 100 nodes"):
        Cluster(nodes=nodes)


def test_exchanges_can_be_read_after_the_cluster_has_stopped(tmp_path: Path) -> None:
    cluster = Cluster()
    with pytest.raises(RuntimeError, match="the cluster has not been started"):
        cluster.exchanges()
    with cluster, Client(cluster.bootstrap_servers) as client:
        client.send(MetadataRequest(topics=None))
        during = cluster.exchanges()

    assert cluster.exchanges() == list(cluster.journal) == during
    assert [exchange.api_name for exchange in cluster.exchanges(MetadataRequest)] == ["Metadata"]


def test_an_unknown_api_is_an_error_while_it_runs_and_afterwards() -> None:
    with Cluster() as cluster, pytest.raises(ValueError, match="did you mean 'Produce'"):
        cluster.exchanges("produce")
    with pytest.raises(ValueError, match="did you mean 'Produce'"):
        cluster.exchanges("produce")


def test_what_is_printed_names_addresses_and_exchanges() -> None:
    cluster = Cluster()
    assert repr(cluster) == "<mockbroker.Cluster: not running>"
    with cluster, Client(cluster.bootstrap_servers, client_id="me") as client:
        assert repr(cluster) == f"<mockbroker.Cluster: {cluster.bootstrap_servers}>"
        client.send(MetadataRequest(topics=None))

    assert repr(cluster.exchanges("Metadata")[0]).startswith("<Exchange 2: Metadata v")
    assert " from client 'me' to node 0, " in repr(cluster.exchanges("Metadata")[0])
    assert repr(cluster.journal) == "<Journal: 2 exchanges, 0 dropped>"


def test_the_public_names_are_listed() -> None:
    assert {"Cluster", "ConfigError", "Exchange", "KafkaError", "__version__"} <= set(dir(mockbroker))
    assert mockbroker.__version__
