"""The proxy in front of a cluster: addresses, history, faults, capture, security, and ends of connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from confluent_kafka import Consumer, Producer

from kwire.capture.reader import read_rows
from kwire.client import Client, ClientError
from kwire.client.errors import ConnectionClosed
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker import Cluster, ClusterFault, FaultError, Proxy, WaitTimeout
from mockbroker.config.keys import ConfigError

TOPICS = {"orders": 6}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, topics=TOPICS, profile="quick") as running:
        yield running


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    with Proxy(cluster.bootstrap_servers.split(",")[1]) as running:
        yield running


def ports_of(cluster: Cluster) -> set[int]:
    return {int(address.rpartition(":")[2]) for address in cluster.bootstrap_servers.split(",")}


def produce(bootstrap: str, settings: Mapping[str, object] = MappingProxyType({})) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **settings})
    for number in range(12):
        producer.produce("orders", b"order %d" % number, partition=number % 6)
    assert producer.flush(15) == 0


def test_a_client_reaches_every_node_through_the_proxy(cluster: Cluster, proxy: Proxy) -> None:
    before = cluster.journal.last_number
    produce(proxy.bootstrap_servers, {"enable.idempotence": True})
    consumer = Consumer(
        {"bootstrap.servers": proxy.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    messages = [consumer.poll(15) for _ in range(12)]
    consumer.close()

    assert {message.value() for message in messages if message is not None} >= {b"order 0", b"order 11"}
    forwarded = [exchange.api_name for exchange in cluster.exchanges() if exchange.number > before]
    # The proxy's own two questions come first. What the consumer sent and did not wait for, the proxy has not read.
    assert sorted(exchange.api_name for exchange in proxy.exchanges() if not exchange.is_unread) == sorted(forwarded)
    assert {exchange.node_id for exchange in proxy.requests("Produce")} == {0, 1, 2}
    proxy.assert_sent("OffsetCommit", group="g")
    assert proxy.conformance_notes() == []


def test_every_address_is_one_of_the_proxy(cluster: Cluster, proxy: Proxy) -> None:
    with Client(proxy.bootstrap_servers) as client:
        metadata = client.send(MetadataRequest(topics=[]))
        described = client.send(DescribeClusterRequest())
        coordinators = [client.send(FindCoordinatorRequest(coordinator_keys=("g",))).coordinators[0]]
        coordinators.append(client.send(FindCoordinatorRequest(key="g"), 3))

    addresses = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
    assert addresses == {broker.broker_id: (broker.host, broker.port) for broker in described.brokers}
    assert {each.node_id: (each.host, each.port) for each in coordinators}.items() <= addresses.items()
    ports = {port for _, port in addresses.values()}
    assert len(ports) == 3
    assert ports.isdisjoint(ports_of(cluster))
    for host, port in addresses.values():
        with Client(f"{host}:{port}") as client:
            client.send(MetadataRequest(topics=[]))
    assert {exchange.node_id for exchange in proxy.requests("Metadata")} == {0, 1, 2}


def test_the_hint_of_the_leader_has_the_address_of_the_proxy(cluster: Cluster, proxy: Proxy) -> None:
    cluster.create_topic("led", 1)
    with Client(proxy.bootstrap_servers) as client:
        topic = next(each for each in client.send(MetadataRequest(topics=None)).topics if each.name == "led")
        brokers = {each.node_id: each for each in client.send(MetadataRequest(topics=[])).brokers}
    leader = topic.partitions[0].leader_id
    other = next(broker for node_id, broker in brokers.items() if node_id != leader)
    with Client(f"{other.host}:{other.port}") as client:
        response = client.send(produce_request(topic.topic_id))

    hint = response.node_endpoints[0]
    assert (hint.node_id, hint.host, hint.port) == (leader, brokers[leader].host, brokers[leader].port)


def produce_request(topic_id: bytes, acks: int = -1) -> ProduceRequest:
    batch = write_batch([Record(offset=0, timestamp=0, value=b"v")])
    partition = PartitionProduceData(index=0, records=batch)
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[partition])]
    )


def test_faults_act_on_requests_that_name_topics_by_their_ids(cluster: Cluster, proxy: Proxy) -> None:
    fault = proxy.faults.add("Produce", topic="orders", partition=2, times=2, error="NOT_LEADER_OR_FOLLOWER")
    produce(proxy.bootstrap_servers, {"retry.backoff.ms": 1})

    assert fault.hits == 2
    proxy.check_faults()
    assert len(proxy.requests("Produce").answered(error="NOT_LEADER_OR_FOLLOWER")) == 2


def test_a_fault_before_the_work_keeps_a_request_from_the_cluster(cluster: Cluster, proxy: Proxy) -> None:
    before = len(cluster.exchanges("ListGroups"))
    proxy.faults.add("ListGroups", error="COORDINATOR_LOAD_IN_PROGRESS", times=1)
    proxy.faults.add("ListGroups", first=1, times=1, after=True, error="COORDINATOR_NOT_AVAILABLE", client_id="late")
    with Client(proxy.bootstrap_servers) as client:
        assert client.send(ListGroupsRequest()).error_code == 14
        assert client.send(ListGroupsRequest()).error_code == 0
    with Client(proxy.bootstrap_servers, client_id="late") as client:
        assert client.send(ListGroupsRequest()).error_code == 15

    assert len(cluster.exchanges("ListGroups")) - before == 2


def test_faults_of_nodes_are_refused(proxy: Proxy, cluster: Cluster) -> None:
    with pytest.raises(FaultError, match="a proxy has no nodes of its own"):
        proxy.faults.schedule("kill-node", node=1)
    with pytest.raises(FaultError, match="a proxy has no nodes of its own"):
        proxy.chaos("rolling-restart")
    with pytest.raises(FaultError, match="9 is not one of 1, 0, 2"):
        proxy.faults.add("Produce", node=9, drop="close")
    broken = Proxy(cluster.bootstrap_servers.split(",")[0], faults=[ClusterFault(action="kill-node", node=1)])
    with pytest.raises(FaultError, match="kill-node"):
        broken.start()


def test_versions_are_those_that_both_sides_know() -> None:
    with (
        Cluster(versions="2.8") as old,
        Proxy(old.bootstrap_servers) as proxy,
        Client(old.bootstrap_servers) as direct,
        Client(proxy.bootstrap_servers) as client,
    ):
        offered, expected = client.versions, direct.versions
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        newest = client.send(request, 4)

    assert {key: span[1] for key, span in offered.items()} == {key: span[1] for key, span in expected.items()}
    assert offered[17][0] == 1
    assert newest.error_code == 0
    assert {row.api_key: row.max_version for row in newest.api_keys}[3] == expected[3][1]


def test_an_api_that_is_not_known_ends_the_connection(proxy: Proxy) -> None:
    with Client(proxy.bootstrap_servers) as client, pytest.raises(ConnectionClosed):
        client.send_raw(999, 0, b"")

    assert proxy.exchanges()[-1].closed == "API key 999 is not served (version 0)"


def test_records_without_a_response_are_forwarded(cluster: Cluster, proxy: Proxy) -> None:
    cluster.create_topic("unacknowledged", 1)
    produce_count = 5
    producer = Producer({"bootstrap.servers": proxy.bootstrap_servers, "acks": 0, "linger.ms": 0})
    for _ in range(produce_count):
        producer.produce("unacknowledged", b"v")
    assert producer.flush(10) == 0

    cluster.wait_until(lambda: len(cluster.read("unacknowledged")) == produce_count)


def test_a_login_passes_through() -> None:
    with Cluster(sasl="SCRAM-SHA-512 alice:secret", topics=TOPICS) as cluster:
        with Proxy(cluster.bootstrap_servers) as proxy:
            login = {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "alice",
                "sasl.password": "secret",
            }
            produce(proxy.bootstrap_servers, login)

        assert {exchange.principal for exchange in cluster.exchanges("Produce")} == {"User:alice"}


def test_a_cluster_with_tls_is_reached_with_its_authorities(tmp_path: Path) -> None:
    with Cluster(tls="auto", topics=TOPICS) as cluster:
        authorities = str(cluster.client_settings()["ssl.ca.location"])
        with Proxy(cluster.bootstrap_servers, upstream_tls_ca=authorities) as proxy:
            produce(proxy.bootstrap_servers)
        with pytest.raises(ConnectionError):
            Proxy(cluster.bootstrap_servers).start()
    wrong = tmp_path / "ca.pem"
    wrong.write_text("nothing", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"ca\.pem: no certificates"):
        Proxy("127.0.0.1:1", upstream_tls_ca=wrong)


def test_the_end_of_a_proxy_waits_until_its_connections_with_tls_are_closed() -> None:
    with Cluster(tls="auto") as cluster:
        authorities = str(cluster.client_settings()["ssl.ca.location"])
        # A socket that was open when its event loop ended would be an error, in some of the rounds.
        for _ in range(20):
            with Proxy(cluster.bootstrap_servers, upstream_tls_ca=authorities) as proxy:
                with Client(proxy.bootstrap_servers) as client:
                    client.send(MetadataRequest(topics=[]))
                with Client(proxy.bootstrap_servers) as client:
                    client.send(MetadataRequest(topics=[]))
                    proxy.stop()


def test_nodes_that_come_later_get_a_listener() -> None:
    with Cluster(nodes=1) as cluster, Proxy(cluster.bootstrap_servers) as proxy:
        cluster.add_node()
        with Client(proxy.bootstrap_servers) as client:
            brokers = client.send(MetadataRequest(topics=[])).brokers
        with Client(f"{brokers[1].host}:{brokers[1].port}") as client:
            client.send(MetadataRequest(topics=[]))

        assert [exchange.node_id for exchange in proxy.exchanges("Metadata")] == [0, 1]
        assert ports_of(cluster).isdisjoint({broker.port for broker in brokers})


def test_the_end_of_either_side_ends_the_other() -> None:
    with Cluster(nodes=2, topics=TOPICS) as cluster, Proxy(cluster.bootstrap_servers.split(",")[0]) as proxy:
        with Client(proxy.bootstrap_servers) as client:
            client.send(MetadataRequest(topics=[]))
        cluster.wait_until(lambda: len(cluster.journal.client_ends) == 2)
        with Client(proxy.bootstrap_servers) as client:
            client.send(MetadataRequest(topics=[]))
            cluster.kill_node(0)
            with pytest.raises(ClientError):
                client.send(MetadataRequest(topics=[]))
        with pytest.raises(ClientError):
            Client(proxy.bootstrap_servers, timeout_s=5).close()
        cluster.start_node(0)
        with Client(proxy.bootstrap_servers) as client:
            assert len(client.send(MetadataRequest(topics=[])).brokers) >= 1


def test_the_capture_has_the_traffic_of_the_clients(tmp_path: Path, cluster: Cluster) -> None:
    path = tmp_path / "proxy.pcapng"
    with Proxy(cluster.bootstrap_servers.split(",")[0], capture=path) as proxy:
        port = int(proxy.bootstrap_servers.rpartition(":")[2])
        with Client(proxy.bootstrap_servers, client_id="a") as client:
            client.send(
                CreateTopicsRequest(topics=[CreatableTopic(name="captured", num_partitions=1)], timeout_ms=1000)
            )
    rows = list(read_rows(str(path)))

    assert [(row["api_name"], row["broker_port"], row["client_id"]) for row in rows] == [
        ("ApiVersions", port, "a"),
        ("CreateTopics", port, "a"),
    ]


def test_a_request_is_waited_for(proxy: Proxy) -> None:
    sent = threading.Timer(0.05, produce, [proxy.bootstrap_servers])
    sent.start()
    try:
        found = proxy.wait_for_request("Produce", answered=True, topic="orders")
    finally:
        sent.join(20)

    assert found[0].response is not None
    with pytest.raises(WaitTimeout, match="waited 0 s for 1 DeleteTopics request"):
        proxy.wait_for_request("DeleteTopics", timeout_s=0)


def test_clients_are_given_the_advertised_host(cluster: Cluster) -> None:
    with Proxy(cluster.bootstrap_servers.split(",")[0], advertised="localhost") as proxy:
        port = int(proxy.bootstrap_servers.rpartition(":")[2])
        with Client(f"127.0.0.1:{port}") as client:
            brokers = client.send(MetadataRequest(topics=[])).brokers

    assert {broker.host for broker in brokers} == {"localhost"}


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x08\0\0\0\x63\0\0\0\0", b""])
def test_an_address_of_something_else_is_an_error(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        try:
            with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:"):
                Proxy(f"127.0.0.1:{listener.getsockname()[1]}").start()
        finally:
            server.join(20)


def test_an_address_without_a_cluster_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionError, match=f"no connection to 127.0.0.1:{port}"):
        Proxy(f"127.0.0.1:{port}").start()
    with pytest.raises(ConfigError, match="one address is expected"):
        Proxy("127.0.0.1:1,127.0.0.1:2")
    with pytest.raises(ConfigError, match="upstream: "):
        Proxy("127.0.0.1")
    with pytest.raises(RuntimeError, match="cannot be reset"):
        Proxy("127.0.0.1:1").reset()
