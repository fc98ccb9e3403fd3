"""The capture of random work of librdkafka clients on the broker decodes to the journal of the broker."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from kwire.capture.model import Row
from kwire.capture.options import Options
from kwire.capture.reader import read_rows
from kwire.capture.share_timeline import share_timeline
from kwire.codec import to_json
from mockbroker import Cluster
from mockbroker.journal import Exchange
from mockbroker.server import Server
from tests.clients.fast_share_groups import FAST_SHARE_GROUPS
from tests.clients.librdkafka import PATIENCE_S, QUIET, share_from_earliest
from tests.support.brokers.self_signed import create_certificate
from tests.support.captures.record_histories import RecordHistories, as_int, histories_of_entries, histories_of_timeline

pytestmark = pytest.mark.client

ACTIONS = 5
TOPICS = ("orders", "bills")
GROUPS = ("sharers", "others")
NO_DELAYS = {"group.initial.rebalance.delay.ms": 0, "group.share.assignment.interval.ms": 0}


class ClientWorkload:
    """Random actions of librdkafka clients from a seed; each action closes its clients."""

    def __init__(self, seed: int, security: dict[str, str]) -> None:
        self.random = random.Random(seed)
        self.common: dict[str, Any] = {**QUIET, **security}

    def run(self, count: int) -> None:
        """Run a number of actions: first a produce, then all kinds in random order, repeatedly."""
        self.produce()
        actions = [self.produce, self.transact, self.consume, self.share, self.administer]
        self.random.shuffle(actions)
        for number in range(count):
            actions[number % len(actions)]()

    def produce(self) -> None:
        """Produce batches of any kind; with acks=0 there is no response."""
        acks = self.random.choice(["0", "1", "all"])
        codec = self.random.choice(["none", "gzip", "snappy", "lz4", "zstd"])
        more: dict[str, Any] = {"acks": acks, "compression.type": codec, "linger.ms": self.random.choice([0, 5])}
        more["enable.idempotence"] = acks == "all" and self.random.random() < 0.5
        producer = Producer({**self.common, **more})
        self._produce(producer)
        assert producer.flush(PATIENCE_S) == 0

    def transact(self) -> None:
        """Commit or abort one or two transactions."""
        name = f"t{self.random.randrange(3)}"
        producer = Producer({**self.common, "transactional.id": name})
        producer.init_transactions(PATIENCE_S)
        for _ in range(self.random.randint(1, 2)):
            producer.begin_transaction()
            self._produce(producer)
            is_committed = self.random.random() < 0.6
            (producer.commit_transaction if is_committed else producer.abort_transaction)(PATIENCE_S)

    def _produce(self, producer: Producer) -> None:
        for number in range(self.random.randint(2, 30)):
            value = bytes(self.random.randrange(1, 2_000))
            producer.produce(TOPICS[number % 2], value, key=b"%d" % number, headers={"at": b"%d" % number})
            producer.poll(0)

    def consume(self) -> None:
        """A member of a group of either protocol fetches, commits and leaves."""
        protocol = self.random.choice(["classic", "consumer"])
        more: dict[str, Any] = {
            "group.id": f"readers-{self.random.randrange(3)}-{protocol}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "isolation.level": self.random.choice(["read_committed", "read_uncommitted"]),
            "enable.auto.commit": False,
        }
        with closing(Consumer({**self.common, **more})) as consumer:
            consumer.subscribe([self.random.choice(TOPICS)])
            self._poll_records(lambda: consumer.consume(100, 0.2))
            if self.random.random() < 0.7 and consumer.assignment():
                assigned = consumer.assignment()
                offsets = [TopicPartition(partition.topic, partition.partition, 1) for partition in assigned]
                consumer.commit(offsets=offsets, asynchronous=False)

    def share(self) -> None:
        """A share consumer accepts, releases and rejects records."""
        group, explicit = self.random.choice(GROUPS), self.random.random() < 0.7
        share_from_earliest(self.common, group)
        mode = "explicit" if explicit else "implicit"
        consumer = ShareConsumer({**self.common, "group.id": group, "share.acknowledgement.mode": mode})
        with closing(consumer):
            consumer.subscribe([self.random.choice(TOPICS)])
            for message in self._poll_records(lambda: list(consumer.poll(0.2)), PATIENCE_S):
                if explicit:
                    types = [AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT]
                    consumer.acknowledge(message, self.random.choice(types))
            consumer.commit_sync(PATIENCE_S)

    def administer(self) -> None:
        """Requests of administrators, some of them rejected."""
        admin, name = AdminClient(self.common), f"topic-{self.random.randrange(3)}"
        created = admin.create_topics([NewTopic(name, self.random.randint(1, 4), self.random.choice([1, 3, 9]))])
        extended = admin.create_partitions([NewPartitions(name, self.random.randint(1, 6))])
        deleted = admin.delete_topics([name]) if self.random.random() < 0.5 else {}
        for future in (*created.values(), *extended.values(), *deleted.values()):
            future.exception(PATIENCE_S)
        admin.list_consumer_groups().result(PATIENCE_S)
        admin.describe_cluster().result(PATIENCE_S)
        for future in admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values():
            future.exception(PATIENCE_S)

    def _poll_records(self, poll: Callable[[], list[Any]], timeout_s: float = 2) -> list[Any]:
        """The first records; none in time with another isolation level, or after other readers."""
        deadline = time.monotonic() + timeout_s
        found: list[Any] = []
        while not found and time.monotonic() < deadline:
            found = poll()
        return found


def all_disconnected(server: Server) -> bool:
    return not any(server.core.is_connected(exchange.connection_id) for exchange in server.core.journal)


def by_connection(journal: list[Exchange]) -> list[list[Exchange]]:
    """The exchanges of each connection, in order, by the client's address and then by time."""
    found: dict[int, list[Exchange]] = defaultdict(list)
    for exchange in journal:
        found[exchange.connection_id].append(exchange)
    return sorted(found.values(), key=lambda each: (each[0].client, each[0].number))


def rows_by_connection(path: Path) -> list[list[Row]]:
    """The rows of each connection of a capture, in that order. A client port may connect to several nodes in turn."""
    found: dict[tuple[object, object], list[Row]] = defaultdict(list)
    for row in read_rows(path, "messages", Options(show_secrets=True, payload=True)):
        found[row["conn_id"], row["stream_epoch"]].append(row)

    def client_and_time(rows: list[Row]) -> tuple[str, int]:
        return f"{rows[0]['client_ip']}:{rows[0]['client_port']}", as_int(rows[0]["req_ts"])

    return sorted(found.values(), key=client_and_time)


def histories_of(server: Server) -> dict[tuple[str, str, int], RecordHistories]:
    """The state changes of the records of every share partition, by the history of the mock."""
    stored, found = server.core.state.broker_storage.share_history, {}
    for topic in server.core.state.metadata.topics():
        for group, index in product(GROUPS, range(len(topic.partitions))):
            histories = histories_of_entries(stored.entries_for((group, topic.topic_id, index)))
            if histories:
                found[group, topic.name, index] = histories
    return found


def timelines_of(path: Path) -> dict[tuple[str, str, int], RecordHistories]:
    """The same by the timeline of the capture."""
    rows_by_partition: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in share_timeline(read_rows(path, "messages"), read_rows(path, "flows")):
        rows_by_partition[str(row["group_id"]), str(row["topic"]), as_int(row["partition"])].append(row)
    timelines = {partition: histories_of_timeline(rows) for partition, rows in rows_by_partition.items()}
    return {partition: histories for partition, histories in timelines.items() if histories}


def compare_row(exchange: Exchange, row: Row) -> None:
    """Compare a row of the capture with the entry of the journal."""

    def text(message: msgspec.Struct | None, version: int) -> str | None:
        return None if message is None else msgspec.json.encode(to_json(message, version)).decode()

    request, response = exchange.request, exchange.response
    assert (row["api_key"], row["api_name"]) == (exchange.api_key, exchange.api_name)
    assert (row["api_version"], row["correlation_id"]) == (exchange.api_version, exchange.correlation_id)
    assert row["client_id"] == exchange.client_id
    assert row["body_request"] == text(request, exchange.api_version)
    assert row["body_response"] == text(response, exchange.response_version)
    assert row["req_bytes"] == exchange.request_bytes + 4
    assert row["req_end_ts"] == exchange.arrived_ns
    if response is None:
        assert row["resp_ts"] is None
        assert (row["status"] == "ok") == (exchange.api_name == "Produce" and getattr(request, "acks", None) == 0)
        return
    assert (row["status"], row["order_ok"]) == ("ok", True)
    assert row["resp_bytes"] == exchange.response_bytes + 4
    assert (row["resp_ts"], row["resp_end_ts"]) == (exchange.departed_ns, exchange.departed_ns)
    error_code = getattr(response, "error_code", None)
    assert error_code in (None, 0, row["error_code"])


def compare_capture(cluster: Cluster, path: Path, workload: ClientWorkload, actions: int) -> Counter[str]:
    """Run the actions, wait until all clients have disconnected, and compare; returns the APIs that were used."""
    with cluster:
        workload.common["bootstrap.servers"] = cluster.bootstrap_servers
        workload.run(actions)
        deadline = time.monotonic() + PATIENCE_S
        while not cluster.run(all_disconnected):
            assert time.monotonic() < deadline
        journal = by_connection(cluster.exchanges())
        histories = cluster.run(histories_of)
        assert cluster.journal.dropped == 0
    found = rows_by_connection(path)

    assert len(found) == len(journal)
    for exchanges, rows in zip(journal, found, strict=True):
        for exchange, row in zip(exchanges, rows, strict=False):
            compare_row(exchange, row)
        # A request after a long poll of a client that disconnects is not processed: the journal does not have it.
        assert {row["status"] for row in rows[len(exchanges) :]} <= {"no_response"}
        assert len(rows) >= len(exchanges)
    assert timelines_of(path) == histories
    assert histories
    return Counter(exchange.api_name for each in journal for exchange in each)


@pytest.mark.parametrize("seed", range(4))
def test_the_capture_of_random_work_on_three_nodes_is_the_journal(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "workload.pcapng"
    properties = {**FAST_SHARE_GROUPS, **NO_DELAYS}
    cluster = Cluster(nodes=3, topics=dict.fromkeys(TOPICS, 3), properties=properties, capture=path, seed=seed)
    used = compare_capture(cluster, path, ClientWorkload(seed, {}), ACTIONS)

    assert len(used) >= 12
    assert used.keys() >= {"Produce", "ShareFetch", "InitProducerId", "FindCoordinator", "CreateTopics"}


def test_the_capture_of_random_work_over_tls_is_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "workload.pcapng"
    certificate, store = create_certificate(tmp_path)
    properties = {"ssl.keystore.type": "PEM", "ssl.keystore.location": store, "listeners": "SSL://127.0.0.1:0"}
    properties |= {**FAST_SHARE_GROUPS, **NO_DELAYS}
    security = {"security.protocol": "SSL", "ssl.ca.location": str(certificate)}
    cluster = Cluster(nodes=2, topics=dict.fromkeys(TOPICS, 2), properties=properties, capture=path)
    used = compare_capture(cluster, path, ClientWorkload(4, security), ACTIONS)

    assert used.keys() >= {"Produce", "ShareFetch", "InitProducerId"}
