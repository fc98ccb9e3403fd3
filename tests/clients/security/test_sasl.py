"""Clients that authenticate: librdkafka, kafka-python, aiokafka and Kafka's own tools against SASL listeners."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer

from mockbroker import Cluster
from tests.clients.java_tools import CONSOLE_CONSUMER, ToolShell
from tests.clients.librdkafka import PATIENCE_S, QUIET, share_from_earliest

pytestmark = [pytest.mark.client, pytest.mark.timeout(300)]

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PROPERTIES = {
    "group.initial.rebalance.delay.ms": 0,
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{_PLAIN} required user_alice="alice-secret" user_bob="bob-secret" user_admin="admin-secret";'
    ),
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
}
USERS = ["SCRAM-SHA-256=[name=alice,password=alice-secret]", "SCRAM-SHA-512=[name=alice,password=alice-secret]"]
ACLS = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:admin"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2, topics={"orders": 2}, properties=PROPERTIES, add_scram=USERS) as running:
        yield running


def _as(
    cluster: Cluster, user: str, mechanism: str = "PLAIN", password: str | None = None
) -> dict[str, str | int | float | bool]:
    """The configuration of librdkafka for a user."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password if password is not None else f"{user}-secret",
        **QUIET,
    }


def _as_alice(bootstrap: str) -> dict[str, str]:
    """The configuration of kafka-python and aiokafka for alice."""
    login = {"sasl_plain_username": "alice", "sasl_plain_password": "alice-secret"}
    return {"bootstrap_servers": bootstrap, "security_protocol": "SASL_PLAINTEXT", **login}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_librdkafka_produces_and_consumes_as_a_user(cluster: Cluster, mechanism: str) -> None:
    producer = Producer(_as(cluster, "alice", mechanism))
    for number in range(20):
        producer.produce("orders", b"v%d" % number)
    assert producer.flush(PATIENCE_S) == 0
    group = {"group.id": "readers", "auto.offset.reset": "earliest"}
    with closing(Consumer({**_as(cluster, "alice", mechanism), **group})) as consumer:
        consumer.subscribe(["orders"])
        messages = consumer.consume(20, PATIENCE_S)

    assert len(messages) == 20
    assert {exchange.principal for exchange in cluster.exchanges("Produce")} == {"User:alice"}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_librdkafka_reports_a_wrong_password(cluster: Cluster, mechanism: str) -> None:
    errors: list[KafkaError] = []
    producer = Producer({**_as(cluster, "alice", mechanism, "misremembered"), "error_cb": errors.append})
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and not any(one.code() == KafkaError._AUTHENTICATION for one in errors):
        producer.poll(0.1)

    assert any(one.code() == KafkaError._AUTHENTICATION for one in errors)
    assert "misremembered" not in str([exchange.to_json() for exchange in cluster.exchanges()])


def test_librdkafka_reauthenticates_before_its_session_ends() -> None:
    with Cluster(topics={"orders": 1}, properties={**PROPERTIES, "connections.max.reauth.ms": 1_000}) as cluster:
        producer = Producer(_as(cluster, "alice"))
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and len(cluster.exchanges("SaslHandshake")) < 4:
            producer.produce("orders", b"v")
            assert producer.flush(PATIENCE_S) == 0
            producer.poll(0.1)

        by_connection = [exchange.connection_id for exchange in cluster.exchanges("SaslHandshake")]

        assert len(set(by_connection)) < len(by_connection)
        assert all(exchange.closed is None for exchange in cluster.exchanges())


def test_a_share_consumer_gets_what_its_user_may_have() -> None:
    with Cluster(topics={"orders": 1}, properties={**PROPERTIES, **ACLS}) as cluster:
        admin = AdminClient(_as(cluster, "admin"))
        patterns = [
            (ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL),
            (ResourceType.GROUP, "read", ResourcePatternType.PREFIXED),
        ]
        read, allow = AclOperation.READ, AclPermissionType.ALLOW
        acls = [AclBinding(kind, name, pattern, "User:alice", "*", read, allow) for kind, name, pattern in patterns]
        for future in admin.create_acls(acls).values():
            future.result(PATIENCE_S)
        share_from_earliest(_as(cluster, "admin"), "readers")
        producer = Producer(_as(cluster, "admin"))
        producer.produce("orders", b"v")
        assert producer.flush(PATIENCE_S) == 0

        assert _shared(cluster, "alice") == [b"v"]
        with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
            _shared(cluster, "bob")


def _shared(cluster: Cluster, user: str) -> list[bytes | None]:
    """What a share consumer of this user gets. Raises: KafkaException."""
    values: list[bytes | None] = []
    deadline = time.monotonic() + PATIENCE_S
    with closing(ShareConsumer({**_as(cluster, user), "group.id": "readers"})) as consumer:
        consumer.subscribe(["orders"])
        while time.monotonic() < deadline and not values:
            values = [message.value() for message in consumer.poll(0.2)]
    return values


def test_librdkafka_makes_a_user_of_scram_who_then_logs_in(cluster: Cluster) -> None:
    admin = AdminClient(_as(cluster, "admin"))
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    made = UserScramCredentialUpsertion("carol", credential, b"carol-secret")
    for future in admin.alter_user_scram_credentials([made]).values():
        future.result(PATIENCE_S)
    futures = admin.describe_user_scram_credentials(["carol"])
    assert isinstance(futures, dict)
    described = futures["carol"].result(PATIENCE_S)

    [info] = described.scram_credential_infos
    assert (info.mechanism, info.iterations) == (ScramMechanism.SCRAM_SHA_512, 8192)
    carol = AdminClient(_as(cluster, "carol", "SCRAM-SHA-512"))
    assert "orders" in carol.list_topics(timeout=PATIENCE_S).topics


def test_kafka_python_logs_in_by_scram(cluster: Cluster) -> None:
    options = {**_as_alice(cluster.bootstrap_servers), "sasl_mechanism": "SCRAM-SHA-512"}
    producer = KafkaProducer(**options)
    producer.send("orders", b"v").get(PATIENCE_S)
    producer.close()
    reads = {"group_id": "g", "auto_offset_reset": "earliest", "consumer_timeout_ms": int(PATIENCE_S * 1_000)}
    consumer = KafkaConsumer("orders", **reads, **options)

    assert next(consumer).value == b"v"
    consumer.close()


def test_aiokafka_logs_in_by_plain_and_scram(cluster: Cluster) -> None:
    assert asyncio.run(_through_aiokafka(cluster.bootstrap_servers)) == b"v"


async def _through_aiokafka(bootstrap: str) -> bytes | None:
    options = _as_alice(bootstrap)
    producer = AIOKafkaProducer(sasl_mechanism="PLAIN", **options)
    await producer.start()
    await producer.send_and_wait("orders", b"v")
    await producer.stop()
    consumer = AIOKafkaConsumer("orders", sasl_mechanism="SCRAM-SHA-256", auto_offset_reset="earliest", **options)
    await consumer.start()
    message = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
    await consumer.stop()
    value: bytes | None = message.value
    return value


def _login(path: Path, module: str, options: str, mechanism: str) -> str:
    """Write the login configuration of a Java client. Returns: the path of the file."""
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={module} required {options};\n"
    )
    return str(path)


def test_kafkas_tools_create_users_and_tokens_and_log_in_with_them(tmp_path: Path, tools: ToolShell) -> None:
    properties = {**PROPERTIES, "delegation.token.secret.key": "mysterious"}
    with Cluster(topics={"orders": 1}, properties=properties) as cluster:
        server = ("--bootstrap-server", cluster.bootstrap_servers)
        admin = _login(tmp_path / "admin", _PLAIN, 'username="admin" password="admin-secret"', "PLAIN")
        tools.run(
            "kafka.admin.ConfigCommand",
            *(*server, "--command-config", admin, "--alter", "--entity-type", "users", "--entity-name", "carol"),
            *("--add-config", "SCRAM-SHA-256=[iterations=8192,password=carol-secret]"),
        )
        carol = _login(tmp_path / "carol", _SCRAM, 'username="carol" password="carol-secret"', "SCRAM-SHA-256")
        made = tools.run(
            "org.apache.kafka.tools.DelegationTokenCommand",
            *(*server, "--command-config", carol, "--create", "--max-life-time-period", "-1"),
        )
        token_id, hmac = made.splitlines()[-1].split()[:2]
        by_token = f'username="{token_id}" password="{hmac}" tokenauth="true"'
        token = _login(tmp_path / "token", _SCRAM, by_token, "SCRAM-SHA-256")
        topics = tools.run(
            "kafka.admin.ConfigCommand",
            *(*server, "--command-config", token, "--describe", "--entity-type", "topics", "--entity-name", "orders"),
        )
        producer = Producer(_as(cluster, "alice"))
        producer.produce("orders", b"v")
        assert producer.flush(PATIENCE_S) == 0
        consumed = tools.run(
            CONSOLE_CONSUMER,
            *(*server, "--command-config", carol, "--topic", "orders", "--from-beginning", "--max-messages", "1"),
        )
        users = tools.run(
            "kafka.admin.ConfigCommand", *(*server, "--command-config", admin, "--describe", "--entity-type", "users")
        )

        assert consumed == "v"
        assert "configs for topic orders are" in topics
        assert "'carol' are SCRAM-SHA-256=iterations=8192" in users
        assert {exchange.principal for exchange in cluster.exchanges("Metadata")} >= {"User:carol"}
        assert hmac not in str([exchange.to_json() for exchange in cluster.exchanges()])
