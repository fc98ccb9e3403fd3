"""The circle: random work of real clients on the broker, captured; the capture decodes to the broker's own journal."""

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
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from kwire.capture.options import Options
from kwire.capture.pipeline import rows
from kwire.capture.rows import Row
from kwire.capture.share_timeline import share_timeline
from kwire.codec import to_json
from mockbroker import Cluster
from mockbroker.journal import Exchange
from mockbroker.server import Server
from tests.clients.haste import HASTE
from tests.kwire.capture.share_lives import Lives, lives_of_notes, lives_of_timeline, whole_number
from tests.mockbroker.net.self_signed import self_signed

pytestmark = pytest.mark.client

PATIENCE_S = 40.0
DEEDS = 5
TOPICS = ("orders", "bills")
GROUPS = ("sharers", "others")
#: librdkafka tells of every broken connection; here clients often leave in the middle of something.
QUIET = {"log_level": 0}


class Work:
    """Deeds of librdkafka's clients, drawn from a seed; each ends with its clients."""

    def __init__(self, seed: int, security: dict[str, str]) -> None:
        self.chance = random.Random(seed)
        self.common: dict[str, Any] = {**QUIET, **security}

    def go(self, count: int) -> None:
        """So many deeds, the first of which writes; each kind before any comes again."""
        self.write()
        deeds = [self.write, self.transact, self.consume, self.share, self.administer]
        self.chance.shuffle(deeds)
        for number in range(count):
            deeds[number % len(deeds)]()

    def write(self) -> None:
        """Records in batches of any kind; with acks=0 nobody answers."""
        acks = self.chance.choice(["0", "1", "all"])
        codec = self.chance.choice(["none", "gzip", "snappy", "lz4", "zstd"])
        more: dict[str, Any] = {"acks": acks, "compression.type": codec, "linger.ms": self.chance.choice([0, 5])}
        more["enable.idempotence"] = acks == "all" and self.chance.random() < 0.5
        producer = Producer({**self.common, **more})
        self._produce(producer)
        assert producer.flush(PATIENCE_S) == 0

    def transact(self) -> None:
        """A transaction or two, committed or aborted."""
        name = f"t{self.chance.randrange(3)}"
        producer = Producer({**self.common, "transactional.id": name})
        producer.init_transactions(PATIENCE_S)
        for _ in range(self.chance.randint(1, 2)):
            producer.begin_transaction()
            self._produce(producer)
            if self.chance.random() < 0.6:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)

    def _produce(self, producer: Producer) -> None:
        for number in range(self.chance.randint(2, 30)):
            value = bytes(self.chance.randrange(1, 2_000))
            producer.produce(TOPICS[number % 2], value, key=b"%d" % number, headers={"at": b"%d" % number})
            producer.poll(0)

    def consume(self) -> None:
        """A member of a group of either protocol, that reads, commits, and leaves."""
        protocol = self.chance.choice(["classic", "consumer"])
        more: dict[str, Any] = {
            "group.id": f"readers-{self.chance.randrange(3)}-{protocol}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "isolation.level": self.chance.choice(["read_committed", "read_uncommitted"]),
            "enable.auto.commit": False,
        }
        with closing(Consumer({**self.common, **more})) as consumer:
            consumer.subscribe([self.chance.choice(TOPICS)])
            self._until_some(lambda: consumer.consume(100, 0.2))
            if self.chance.random() < 0.7 and consumer.assignment():
                offsets = [TopicPartition(place.topic, place.partition, 1) for place in consumer.assignment()]
                consumer.commit(offsets=offsets, asynchronous=False)

    def share(self) -> None:
        """A share consumer that accepts, releases and rejects what it gets."""
        group, explicit = self.chance.choice(GROUPS), self.chance.random() < 0.7
        self._configure(group)
        mode = "explicit" if explicit else "implicit"
        consumer = ShareConsumer({**self.common, "group.id": group, "share.acknowledgement.mode": mode})
        with closing(consumer):
            consumer.subscribe([self.chance.choice(TOPICS)])
            for message in self._until_some(lambda: list(consumer.poll(0.2)), PATIENCE_S):
                if explicit:
                    word = self.chance.choice([AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT])
                    consumer.acknowledge(message, word)
            consumer.commit_sync(PATIENCE_S)

    def _configure(self, group: str) -> None:
        entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
        admin = AdminClient(self.common)  # It would end with its last name.
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(PATIENCE_S)

    def administer(self) -> None:
        """What administrators ask for, some of it refused."""
        admin, name = AdminClient(self.common), f"topic-{self.chance.randrange(3)}"
        made = admin.create_topics([NewTopic(name, self.chance.randint(1, 4), self.chance.choice([1, 3, 9]))])
        grown = admin.create_partitions([NewPartitions(name, self.chance.randint(1, 6))])
        gone = admin.delete_topics([name]) if self.chance.random() < 0.5 else {}
        for future in (*made.values(), *grown.values(), *gone.values()):
            future.exception(PATIENCE_S)
        admin.list_consumer_groups().result(PATIENCE_S)
        admin.describe_cluster().result(PATIENCE_S)
        for future in admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values():
            future.exception(PATIENCE_S)

    def _until_some(self, look: Callable[[], list[Any]], patience_s: float = 2) -> list[Any]:
        """What is there at last; a reader of another isolation, or behind others, may get nothing."""
        deadline = time.monotonic() + patience_s
        found: list[Any] = []
        while not found and time.monotonic() < deadline:
            found = look()
        return found


def all_gone(server: Server) -> bool:
    return not any(server.core.is_connected(exchange.connection_id) for exchange in server.core.journal)


def by_connection(journal: list[Exchange]) -> list[list[Exchange]]:
    """The exchanges of each connection, in order, by the client's address and then by time."""
    found: dict[int, list[Exchange]] = defaultdict(list)
    for exchange in journal:
        found[exchange.connection_id].append(exchange)
    return sorted(found.values(), key=lambda each: (each[0].client, each[0].number))


def captured(path: Path) -> list[list[Row]]:
    """The same of a capture; one port of a client may lead to several nodes, one after the other."""
    found: dict[tuple[object, object], list[Row]] = defaultdict(list)
    for row in rows(path, "messages", Options(show_secrets=True, payload=True)):
        found[row["conn_id"], row["stream_epoch"]].append(row)
    return sorted(found.values(), key=lambda each: (f"{each[0]['client_ip']}:{each[0]['client_port']}", _began(each)))


def _began(connection: list[Row]) -> int:
    began = connection[0]["req_ts"]
    assert isinstance(began, int)
    return began


def histories_of(server: Server) -> dict[tuple[str, str, int], Lives]:
    """What happened to the records of every share partition."""
    kept, found = server.core.state.kept.share_history, {}
    for topic in server.core.state.metadata.topics():
        for group, index in product(GROUPS, range(len(topic.partitions))):
            lives = lives_of_notes(kept.of((group, topic.topic_id, index)))
            if lives:
                found[group, topic.name, index] = lives
    return found


def timelines_of(path: Path) -> dict[tuple[str, str, int], Lives]:
    """The same, from the capture."""
    by_place: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in share_timeline(rows(path, "messages"), rows(path, "flows")):
        by_place[str(row["group_id"]), str(row["topic"]), whole_number(row["partition"])].append(row)
    return {place: lives for place, found in by_place.items() if (lives := lives_of_timeline(found))}


def check(exchange: Exchange, row: Row) -> None:
    """That a row of the capture says what the journal says."""

    def text(message: msgspec.Struct | None, version: int) -> str | None:
        return None if message is None else msgspec.json.encode(to_json(message, version)).decode()

    asked, answered = exchange.request, exchange.response
    assert (row["api_key"], row["api_name"]) == (exchange.api_key, exchange.api_name)
    assert (row["api_version"], row["correlation_id"]) == (exchange.api_version, exchange.correlation_id)
    assert row["client_id"] == exchange.client_id
    assert row["body_request"] == text(asked, exchange.api_version)
    assert row["body_response"] == text(answered, exchange.response_version)
    assert row["req_bytes"] == exchange.request_bytes + 4
    assert row["req_end_ts"] == exchange.arrived_ns
    if answered is None:
        assert row["resp_ts"] is None
        assert (row["status"] == "ok") == (exchange.api_name == "Produce" and getattr(asked, "acks", None) == 0)
        return
    assert (row["status"], row["order_ok"]) == ("ok", True)
    assert row["resp_bytes"] == exchange.response_bytes + 4
    assert (row["resp_ts"], row["resp_end_ts"]) == (exchange.departed_ns, exchange.departed_ns)
    told = getattr(answered, "error_code", None)
    assert told in (None, 0, row["error_code"])


def circle(cluster: Cluster, path: Path, work: Work, deeds: int) -> Counter[str]:
    """Do the work, wait until all clients are gone, and compare; the APIs that were used."""
    with cluster:
        work.common["bootstrap.servers"] = cluster.bootstrap_servers
        work.go(deeds)
        deadline = time.monotonic() + PATIENCE_S
        while not cluster.run(all_gone):
            assert time.monotonic() < deadline
        journal = by_connection(cluster.exchanges())
        histories = cluster.run(histories_of)
        assert cluster.journal.dropped == 0
    found = captured(path)

    assert len(found) == len(journal)
    for exchanges, told in zip(journal, found, strict=True):
        for exchange, row in zip(exchanges, told, strict=False):
            check(exchange, row)
        # What waited behind a long poll when its client left was never begun: the wire has it, the journal has not.
        assert {row["status"] for row in told[len(exchanges) :]} <= {"no_response"}
        assert len(told) >= len(exchanges)
    assert timelines_of(path) == histories
    assert histories
    return Counter(exchange.api_name for each in journal for exchange in each)


@pytest.mark.parametrize("seed", range(4))
def test_the_capture_of_random_work_on_three_nodes_is_the_journal(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "work.pcapng"
    properties = {**HASTE, "group.initial.rebalance.delay.ms": 0, "group.share.assignment.interval.ms": 0}
    cluster = Cluster(nodes=3, topics=dict.fromkeys(TOPICS, 3), properties=properties, capture=path, seed=seed)
    used = circle(cluster, path, Work(seed, {}), DEEDS)

    assert len(used) >= 12
    assert used.keys() >= {"Produce", "ShareFetch", "InitProducerId", "FindCoordinator", "CreateTopics"}


def test_the_capture_of_random_work_over_tls_is_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "work.pcapng"
    certificate, store = self_signed(tmp_path)
    properties = {**HASTE, "ssl.keystore.type": "PEM", "ssl.keystore.location": store, "listeners": "SSL://127.0.0.1:0"}
    properties |= {"group.initial.rebalance.delay.ms": 0, "group.share.assignment.interval.ms": 0}
    security = {"security.protocol": "SSL", "ssl.ca.location": str(certificate)}
    cluster = Cluster(nodes=2, topics=dict.fromkeys(TOPICS, 2), properties=properties, capture=path)
    used = circle(cluster, path, Work(4, security), DEEDS)

    assert used.keys() >= {"Produce", "ShareFetch", "InitProducerId"}
