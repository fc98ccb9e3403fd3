"""Every request in one line at the level debug, from real sockets."""

from __future__ import annotations

import logging
import re
import struct
from collections.abc import Callable
from typing import Any

import pytest

from kwire import Client, ClientError
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from kwire.registry import request_class
from mockbroker import Cluster
from mockbroker.handlers import ROUTES

_LOGGER = "mockbroker.requests"


def _lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The fields of the lines about requests."""
    return [vars(record)["fields"] for record in caplog.records if record.name == _LOGGER]


def _produce(cluster: Cluster, acks: int) -> ProduceRequest:
    topic_id = next(id_ for id_, name in cluster.journal.topic_names.items() if name == "orders")
    rows = [PartitionProduceData(0, write_batch([Record(offset=0, timestamp=0, value=b"x")]))]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData("orders", topic_id, rows)])


def test_a_request_has_one_line_with_node_client_api_ids_sizes_and_latency(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, _LOGGER)
    with Cluster(topics={"orders": 1}) as cluster:
        with Client(cluster.bootstrap_servers, client_id="c-1") as client:
            client.send(_produce(cluster, 1))
        (exchange,) = cluster.exchanges("Produce")
        (line,) = [line for line in _lines(caplog) if line["api"] == "Produce"]

    assert 0 < line.pop("latency_ms") < 10_000
    assert line == {
        "node": 0,
        "client": exchange.client,
        "api": "Produce",
        "version": 13,
        "client_id": "c-1",
        "correlation_id": exchange.correlation_id,
        "request_bytes": exchange.request_bytes,
        "response_bytes": exchange.response_bytes,
    }
    (text,) = [record.getMessage() for record in caplog.records if " Produce " in record.getMessage()]
    start = f"node 0 {exchange.client} Produce v13 client 'c-1' correlation {exchange.correlation_id}: "
    sizes = f"{exchange.request_bytes} bytes, answered with {exchange.response_bytes} bytes, "
    assert re.fullmatch(re.escape(start + sizes) + r"\d+\.\d{3} ms", text)


def test_a_produce_with_acks_0_has_its_line_though_it_has_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, _LOGGER)
    with Cluster(topics={"orders": 1}) as cluster, Client(cluster.bootstrap_servers) as client:
        client.send(_produce(cluster, 0))
        client.send(MetadataRequest(topics=None))

    produced = [record.getMessage() for record in caplog.records if " Produce " in record.getMessage()]
    assert len(produced) == 1
    assert " bytes, no answer, " in produced[0]


def test_error_codes_in_any_part_of_an_answer_are_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, _LOGGER)
    with Cluster() as cluster, Client(cluster.bootstrap_servers) as client:
        client.send(FindCoordinatorRequest(key_type=7, coordinator_keys=("g",)))

    (line,) = [line for line in _lines(caplog) if line["api"] == "FindCoordinator"]
    assert line["error"] == "INVALID_REQUEST"


def test_a_request_that_ends_its_connection_has_a_line_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, _LOGGER)
    with Cluster() as cluster, Client(cluster.bootstrap_servers) as client, pytest.raises(ClientError):
        client.send_raw(3, 99, b"")

    line = _lines(caplog)[-1]
    assert (line["api"], line["version"]) == ("Metadata", 99)
    assert line["reason"] == "Metadata version 99 is not served, only 0 to 13"


def test_the_throttle_time_of_a_client_is_in_its_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, _LOGGER)
    with Cluster() as cluster, Client(cluster.bootstrap_servers) as client:
        cluster.faults.add("Metadata", throttle_ms=70)
        client.send(MetadataRequest(topics=[]))

    (line,) = [line for line in _lines(caplog) if line["api"] == "Metadata"]
    assert line["throttle_ms"] == 70
    assert "throttled for 70 ms" in caplog.text


def test_a_fault_is_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, _LOGGER)
    with Cluster() as cluster, Client(cluster.bootstrap_servers) as client:
        cluster.faults.add("ListGroups", error="COORDINATOR_LOAD_IN_PROGRESS", name="loading")
        client.send(ListGroupsRequest())

    (line,) = [line for line in _lines(caplog) if line["api"] == "ListGroups"]
    assert line["faults"] == "loading"
    assert line["error"] == "COORDINATOR_LOAD_IN_PROGRESS"


@pytest.mark.parametrize("api_key", ROUTES)
def test_every_api_has_one_line_for_each_request(api_key: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, _LOGGER)
    with Cluster() as cluster:
        try:
            with Client(cluster.bootstrap_servers, timeout_s=10) as client:
                client.send(request_class(api_key)(), ROUTES[api_key].versions[1])
                client.send(MetadataRequest(topics=None))
        except ClientError:  # The request without content ends the connection.
            pass
        journal = [(exchange.api_name, exchange.correlation_id) for exchange in cluster.journal]

    logged = [(line["api"], line["correlation_id"]) for line in _lines(caplog)]
    assert sorted(logged) == sorted(journal)
    assert ROUTES[api_key].name in dict(logged)


def test_lines_begin_and_end_with_the_level_that_a_new_connection_finds(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster() as cluster:

        def send() -> int:
            before = len(_lines(caplog))
            with Client(cluster.bootstrap_servers) as client:
                client.send(MetadataRequest(topics=None))
            return len(_lines(caplog)) - before

        counts = [send()]
        for level in (logging.DEBUG, logging.INFO, logging.DEBUG):
            caplog.set_level(level, _LOGGER)
            counts.append(send())
        cluster.reset()
        counts.append(send())
        caplog.set_level(logging.INFO, _LOGGER)
        counts.append(send())
        listeners = cluster.run(lambda server: [*server.core.journal.on_answer, *server.core.journal.on_unanswered])

    assert counts == [0, 2, 0, 2, 2, 0]
    assert listeners == []


def test_the_latency_is_that_of_the_process_though_the_clock_of_the_cluster_jumps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, _LOGGER)
    with Cluster(topics={"orders": 1}) as cluster, Client(cluster.bootstrap_servers) as client:
        cluster.clock.advance(3_600_000)
        client.send(MetadataRequest(topics=None))
        cluster.clock.freeze()
        client.send(MetadataRequest(topics=None))

    assert all(0 < line["latency_ms"] < 60_000 for line in _lines(caplog))


_FORGED = "\n2026-01-01T00:00:00.000Z ERROR mockbroker.server: forged\x1b[2J"
_SENDERS: dict[str, Callable[[Client], object]] = {
    "answered": lambda client: client.send(MetadataRequest(topics=None)),
    "refused": lambda client: client.send_raw(3, 13, struct.pack(">b", 5)),
}


@pytest.mark.parametrize("send", _SENDERS.values(), ids=_SENDERS.keys())
def test_a_client_id_cannot_forge_a_line(send: Callable[[Client], object], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mockbroker")
    with Cluster() as cluster:
        try:
            with Client(cluster.bootstrap_servers, client_id=_FORGED) as client:
                send(client)
        except ClientError:  # The connection is closed.
            pass

    assert len(_lines(caplog)) == 2
    assert all(record.getMessage().isprintable() for record in caplog.records)
