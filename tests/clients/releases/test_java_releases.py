"""Kafka's own producer, consumers and admin client of each release against a broker of each release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

import kwire
from mockbroker import Cluster, Exchange
from mockbroker.config.releases import RELEASES
from tests.clients.java_tools import clients_of_release, run_program

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

PROGRAM = Path(__file__).parents[1] / "java" / "ClientScenarios.java"
FEATURES = {"4.4": "metadata 33, share 2", "4.3": "metadata 30, share 1"}
#: The first version with the ids that a client expects, and the first one with topic ids.
EXPECTED_NODE_VERSION, TOPIC_ID_VERSION = 5, 6


class Run(NamedTuple):
    """The output of the program by scenario, and what the broker saw."""

    broker_release: str
    client_release: str
    cluster_id: str
    seen: dict[str, str]
    handshakes: Sequence[Exchange]
    commits: Sequence[Exchange]
    capture: Path


@pytest.fixture(scope="module", params=[(broker, client) for broker in RELEASES for client in RELEASES], ids="-".join)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run of the program, captured."""
    broker, client = request.param
    capture = tmp_path_factory.mktemp("capture") / "clients.pcapng"
    with Cluster(release=broker, capture=capture, properties={"group.initial.rebalance.delay.ms": 0}) as cluster:
        written = run_program(PROGRAM, cluster.bootstrap_servers, class_path=clients_of_release(client))
        seen = dict(line.split(": ", 1) for line in written.splitlines())
        cluster_id = cluster.run(lambda server: server.core.state.cluster_id)
        handshakes, commits = cluster.exchanges("ApiVersions"), cluster.exchanges("TxnOffsetCommit")
    return Run(broker, client, cluster_id, seen, handshakes, commits, capture)


def test_producers_consumers_and_the_admin_client_work(run: Run) -> None:
    assert run.seen["classic"] == run.seen["consumer"] == "50 records, 50 keys"
    assert run.seen["transaction"] == "50 copied, 50 committed"
    assert run.seen["delete"] == "GroupIdNotFoundException"
    assert run.seen["groups"] == "{copiers=Consumer, group-classic=Classic, group-consumer=Consumer, readers=Classic}"


def test_the_client_sees_the_features_of_the_brokers_release(run: Run) -> None:
    assert run.seen["features"] == FEATURES[run.broker_release]


def test_a_client_names_the_cluster_and_the_node_where_both_know_the_version(run: Run) -> None:
    expected = {
        (exchange.request.cluster_id, exchange.request.node_id)  # type: ignore[union-attr]
        for exchange in run.handshakes
        if exchange.api_version >= EXPECTED_NODE_VERSION and exchange.response is not None
    }
    is_newest = run.broker_release == run.client_release == "4.4"

    assert ((run.cluster_id, 0) in expected) is is_newest


def test_offsets_are_committed_by_topic_id_where_both_know_the_version(run: Run) -> None:
    is_newest = run.broker_release == run.client_release == "4.4"

    assert [exchange.api_version >= TOPIC_ID_VERSION for exchange in run.commits] == [is_newest]


def test_the_capture_of_a_release_decodes_without_a_warning(run: Run) -> None:
    rows = kwire.read_capture(run.capture, columns=["api_name", "api_version", "status", "issues"]).to_pylist()

    problems = {issue["kind"] for row in rows for issue in row["issues"]}

    assert len(rows) > 50
    assert {row["status"] for row in rows} == {"ok"}
    # A broker of an older release answers the client's ApiVersions in version 0.
    assert problems == ({"version_fallback"} if (run.broker_release, run.client_release) == ("4.3", "4.4") else set())
