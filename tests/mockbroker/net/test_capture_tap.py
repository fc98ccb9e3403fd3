"""`--capture`: the capture decodes to the exchanges of the journal, over plain sockets and over TLS."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kwire import Client, read_capture
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker import Cluster
from tests.support import needs
from tests.support.brokers.self_signed import create_certificate

pytestmark = pytest.mark.slow


def _work(cluster: Cluster, tls: ssl.SSLContext | None = None) -> None:
    """Requests of several sizes on two connections, one of them open to the end."""
    with Client(cluster.bootstrap_servers, tls=tls) as client, Client(cluster.bootstrap_servers, tls=tls) as other:
        topic_id = client.send(MetadataRequest(topics=None)).topics[0].topic_id
        for size in (1, 1_000, 300_000):
            partition = PartitionProduceData(0, write_batch([Record(0, 0, b"k", b"v" * size, ())]))
            data = [TopicProduceData(topic_id=topic_id, partition_data=[partition])]
            client.send(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=data), 13)
        other.send(MetadataRequest(topics=None))


def _journal(cluster: Cluster) -> list[tuple[object, ...]]:
    exchanges = cluster.exchanges()
    return sorted((one.client, one.api_name, one.api_version, one.correlation_id) for one in exchanges)


def _captured(path: Path) -> list[tuple[object, ...]]:
    rows = read_capture(path).to_pylist()
    assert {row["status"] for row in rows} == {"ok"}
    names = ("api_name", "api_version", "correlation_id")
    return sorted((f"{row['client_ip']}:{row['client_port']}", *(row[name] for name in names)) for row in rows)


def test_the_capture_decodes_to_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "plain.pcapng"
    with Cluster(nodes=1, topics={"orders": 1}, capture=path) as cluster:
        _work(cluster)
        journal = _journal(cluster)

    assert _captured(path) == journal
    assert len(journal) == 7


def test_a_capture_over_tls_has_the_plaintext_and_a_comment(tmp_path: Path) -> None:
    path = tmp_path / "tls.pcapng"
    certificate, store = create_certificate(tmp_path)
    properties = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.type": "PEM", "ssl.keystore.location": store}
    with Cluster(topics={"orders": 1}, properties=properties, capture=path) as cluster:
        _work(cluster, ssl.create_default_context(cafile=str(certificate)))
        journal = _journal(cluster)

    assert _captured(path) == journal
    assert b"plaintext as the broker saw it" in path.read_bytes()


def test_the_capture_shows_which_side_closed_a_connection_and_how(tmp_path: Path) -> None:
    path = tmp_path / "ends.pcapng"
    with Cluster(nodes=3, topics={"orders": 1}, capture=path) as cluster:
        addresses = cluster.bootstrap_servers.split(",")
        nodes = cluster.run(lambda server: sorted(server.core.state.nodes))
        clients = [Client(address) for address in addresses]
        cluster.stop_node(nodes[1])
        cluster.kill_node(nodes[2])
        clients[0].close()
        with Client(addresses[0]) as later:
            later.send(MetadataRequest())  # With its response, the node has seen that the first client is gone.
        for client in clients[1:]:
            client.close()
    flows: dict[int, dict[str, Any]] = {}
    for row in read_capture(path, "flows").to_pylist():
        flows.setdefault(row["broker_port"], row)  # The first connection to each node.

    rows = [flows[int(address.rsplit(":", 1)[1])] for address in addresses]
    ends = ", ".join(f"{row['ended']} by {row['ended_by']}" for row in rows)
    assert ends == "fin by client, fin by broker, rst by broker"


def test_wireshark_opens_the_capture_and_finds_no_tcp_problem(tmp_path: Path) -> None:
    tshark = needs.tool("tshark")
    path = tmp_path / "plain.pcapng"
    with Cluster(topics={"orders": 1}, capture=path) as cluster:
        _work(cluster)

    def fields(*arguments: str) -> list[str]:
        command = [tshark, "-r", str(path), "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()

    assert fields("-Y", "tcp.analysis.flags || tcp.checksum.status == 0 || ip.checksum.status == 0") == []
    assert len(set(fields("-T", "fields", "-e", "tcp.stream"))) == 2
    assert len(fields("-Y", "tcp.flags.fin == 1")) >= 2


def test_an_unreadable_key_store_is_refused_by_name() -> None:
    properties = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.type": "BKS", "ssl.keystore.location": "none"}

    with pytest.raises(ValueError, match=r"ssl\.keystore\.type: 'BKS' is not supported; JKS, PEM and PKCS12 are"):
        Cluster(properties=properties).start()
