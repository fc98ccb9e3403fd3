"""A real Kafka starts on the folder that mockbroker has left, and mockbroker on what the real one has left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from mockbroker import Cluster
from tests.clients.librdkafka import PATIENCE_S, QUIET
from tests.durability.broker_process import BrokerProcess
from tests.durability.kafka_process import KafkaProcess
from tests.support import needs

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(400)]

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "min.insync.replicas": "1",
}
_SMALL_TOPICS = {f"{name}.num.partitions": "3" for name in ("offsets.topic", "transaction.state.log")}
_TOPICS = {"orders": 2, "payments": 2, "latest": 1}
_COMPACTION = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
_LONG_MS = 3_600_000


class _Client:
    """Writes and reads by librdkafka, the same of any broker. stage: a part of the values that are written."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, **QUIET}
        self.admin = AdminClient(self.settings)

    def produce(self, topic: str, rows: Iterable[tuple[str | None, str]], **settings: str) -> None:
        producer = Producer({**self.settings, **{name.replace("_", "."): text for name, text in settings.items()}})
        _produce(producer, topic, rows)

    def write_transactions(self, stage: str) -> None:
        """One transaction that is committed, with offsets, and one that is aborted."""
        producer = Producer({**self.settings, "transactional.id": "writer"})
        producer.init_transactions(PATIENCE_S)
        for end in ("committed", "aborted"):
            producer.begin_transaction()
            _produce(producer, "payments", ((None, f"{stage} {end} {number}") for number in range(20)))
            if end == "committed":
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)

    def commit_offset(self, offset: int) -> None:
        consumer = Consumer({**self.settings, "group.id": "readers"})
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
        consumer.close()

    def committed_offset(self) -> int:
        consumer = Consumer({**self.settings, "group.id": "readers"})
        (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=PATIENCE_S)
        consumer.close()
        return found.offset

    def read(self, topic: str) -> Counter[str]:
        """All values up to the end, with read_committed."""
        consumer = Consumer(
            {
                **self.settings,
                "group.id": "all",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(topic, index, 0) for index in range(_TOPICS[topic])])
        values: Counter[str] = Counter()
        ended: set[int | None] = set()
        while len(ended) < _TOPICS[topic]:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            error = message.error()
            if error is None:
                values[(message.value() or b"").decode()] += 1
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
        consumer.close()
        return values

    def add_security(self, user: str) -> None:
        """A SCRAM user, and an entry that lets it write."""
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        for future in self.admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(user, credential, b"password")]
        ).values():
            future.result(PATIENCE_S)
        literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
        acl = AclBinding(ResourceType.TOPIC, "orders", literal, f"User:{user}", "*", AclOperation.WRITE, allow)
        for made in self.admin.create_acls([acl]).values():
            made.result(PATIENCE_S)

    def set_config(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result(PATIENCE_S)

    def metadata(self) -> dict[str, object]:
        """Topics with ids and partitions, changed configurations, users with their mechanisms, and entries."""
        names = list(_TOPICS)
        listed = self.admin.list_topics(timeout=PATIENCE_S)
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        configs = {
            resource.name: {
                name: entry.value for name, entry in future.result(PATIENCE_S).items() if entry.source == _OF_TOPIC
            }
            for resource, future in self.admin.describe_configs(resources).items()
        }
        described: Any = self.admin.describe_user_scram_credentials()
        users = described.result(PATIENCE_S)
        any_name: Any = None
        kinds = (ResourceType.ANY, any_name, ResourcePatternType.ANY, any_name, any_name)
        acls = self.admin.describe_acls(AclBindingFilter(*kinds, AclOperation.ANY, AclPermissionType.ANY))
        return {
            "cluster": listed.cluster_id,
            "topics": {name: len(listed.topics[name].partitions) for name in names},
            "configs": configs,
            "users": {
                name: [(one.mechanism.name, one.iterations) for one in user.scram_credential_infos]
                for name, user in users.items()
            },
            "acls": sorted((one.name, one.principal, one.operation.name) for one in acls.result(PATIENCE_S)),
        }


#: The source of a configuration that is set for a topic. Source: Kafka's ConfigEntry.ConfigSource.
_OF_TOPIC = 1


def _produce(producer: Producer, topic: str, rows: Iterable[tuple[str | None, str]]) -> None:
    errors: list[Any] = []
    for key, value in rows:
        producer.produce(topic, value, key, on_delivery=lambda error, _: errors.append(error) if error else None)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert errors == []


def _write_all(client: _Client, stage: str) -> None:
    for codec in _CODECS:
        rows = [(None, f"{stage} {codec} {number}") for number in range(30)]
        client.produce("orders", rows, compression_type=codec)
    client.write_transactions(stage)
    client.produce("latest", ((f"k{number % 5}", f"{stage} {number}") for number in range(40)))
    client.add_security(f"user-{stage}")


def _fill(folder: Path) -> None:
    """A folder with everything, a compacted log included."""
    properties = {**_AUTHORIZER, **_SMALL_TOPICS}
    with Cluster(data_dir=folder, topics={"orders": 2, "payments": 2}, properties=properties) as cluster:
        client = _Client(cluster.bootstrap_servers)
        for future in client.admin.create_topics([NewTopic("latest", 1, 1, config=_COMPACTION)]).values():
            future.result(PATIENCE_S)
        client.produce("latest", ((f"k{number % 5}", f"old {number}") for number in range(100)))
        cluster.clock.advance(2_000)
        _write_all(client, "first")
        client.commit_offset(7)
        client.set_config("orders", "retention.ms", str(_LONG_MS * 1_000))
        cluster.clock.advance(_LONG_MS)
        assert cluster.read("latest")[0].value != b"old 0"


def _arguments(folder: Path) -> list[str]:
    settings = [f"{name}={text}" for name, text in {**_AUTHORIZER, **_SMALL_TOPICS}.items()]
    return ["--data-dir", str(folder), *(word for setting in settings for word in ("--set", setting))]


def _expected(topic: str, stages: Iterable[str]) -> Counter[str]:
    if topic == "orders":
        return Counter(f"{stage} {codec} {number}" for stage in stages for codec in _CODECS for number in range(30))
    return Counter(f"{stage} committed {number}" for stage in stages for number in range(20))


def _check(client: _Client, stages: list[str], metadata: Mapping[str, object]) -> None:
    for topic in ("orders", "payments"):
        assert client.read(topic) == _expected(topic, stages)
    assert {f"{stages[-1]} {number}" for number in range(35, 40)} <= client.read("latest").keys()
    assert client.metadata() == metadata


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_real_kafka_goes_on_where_mockbroker_ended_and_mockbroker_where_kafka_ended(tmp_path: Path, end: str) -> None:
    needs.tool("java"), needs.tool("mvn")
    folder = tmp_path / "data"
    _fill(folder)
    broker = BrokerProcess(_arguments(folder), tmp_path / "mockbroker.log")
    properties = "".join(f"{name}={text}\n" for name, text in _AUTHORIZER.items())
    kafka = KafkaProcess(tmp_path, partition_count=1, data=folder / "node-0", settings=properties)
    try:
        broker.start()
        client = _Client(broker.bootstrap_servers)
        _write_all(client, "second")
        client.commit_offset(11)
        metadata = client.metadata()
        getattr(broker, end)()

        kafka.start()
        client = _Client(kafka.bootstrap_servers)
        _check(client, ["first", "second"], metadata)
        assert client.committed_offset() == 11
        _write_all(client, "third")
        client.commit_offset(13)
        metadata = client.metadata()
        getattr(kafka, end)()

        broker.start()
        client = _Client(broker.bootstrap_servers)
        _check(client, ["first", "second", "third"], metadata)
        assert client.committed_offset() == 13
        client.write_transactions("fourth")
        assert client.read("payments") == _expected("payments", ["first", "second", "third", "fourth"])
        broker.stop()

        kafka.start()
        assert _Client(kafka.bootstrap_servers).metadata() == metadata
        assert _Client(kafka.bootstrap_servers).read("payments")["fourth committed 19"] == 1
    except RuntimeError as error:
        pytest.fail(f"{error}\n{broker.log_tail()}")
    finally:
        broker.kill()
        kafka.kill()
