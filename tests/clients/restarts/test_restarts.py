"""librdkafka's clients go on when the cluster has ended, cleanly or by SIGKILL, and has started from its folder."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.clients.librdkafka import PATIENCE_S, QUIET, share_from_earliest
from tests.support.stored.stored_process import StoredProcess

pytestmark = pytest.mark.client

BOTH_ENDS = pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
QUICK = ("--topic", "orders:2", "--profile", "quick")


def client_settings(process: StoredProcess, **more: Any) -> dict[str, Any]:
    fast = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20}
    return {
        "bootstrap.servers": process.bootstrap,
        **QUIET,
        **fast,
        **{key.replace("_", "."): more[key] for key in more},
    }


def produce(producer: Producer, values: Iterable[str], topic: str = "orders") -> None:
    errors: list[Any] = []
    for value in values:
        producer.produce(topic, value.encode(), on_delivery=lambda error, _: errors.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert errors == []


def poll(consumer: Consumer, count: int) -> list[str]:
    """The values of so many records."""
    found: list[str] = []
    while len(found) < count:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"{len(found)} of {count} records came: {found}"
        error = message.error()
        assert error is None or error.retriable(), error
        if error is None:
            found.append((message.value() or b"").decode())
    return found


def consume_all(process: StoredProcess, count: int, topic: str = "orders") -> list[str]:
    """All committed records of a topic, up to its end."""
    settings = client_settings(process, group_id="all", isolation_level="read_committed", enable_partition_eof=True)
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    partitions = [TopicPartition(topic, index, 0) for index in range(count)]
    consumer.assign(partitions)
    values: list[str] = []
    ended: set[int | None] = set()
    while len(ended) < len(partitions):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        error = message.error()
        if error is not None:
            # A partition ends more than once if its last transaction ends in between.
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
        else:
            values.append((message.value() or b"").decode())
    consumer.close()
    return values


@BOTH_ENDS
def test_a_producer_and_a_group_go_on_without_loss_and_without_duplicates(tmp_path: Path, end: signal.Signals) -> None:
    with StoredProcess(tmp_path / "data", *QUICK) as process:
        producer = Producer(client_settings(process, enable_idempotence=True))
        first = Consumer(client_settings(process, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False))
        first.subscribe(["orders"])
        produce(producer, (f"a{n}" for n in range(30)))
        assert Counter(poll(first, 30)) == Counter(f"a{n}" for n in range(30))
        first.commit(asynchronous=False)
        produce(producer, (f"b{n}" for n in range(30)))

        process.restart(end)

        produce(producer, (f"c{n}" for n in range(30)))
        first.close()
        second = Consumer(client_settings(process, group_id="g", auto_offset_reset="error", enable_auto_commit=False))
        second.subscribe(["orders"])
        expected = [f"b{n}" for n in range(30)] + [f"c{n}" for n in range(30)]
        assert Counter(poll(second, 60)) == Counter(expected)
        second.close()
        assert Counter(consume_all(process, 2)) == Counter([f"a{n}" for n in range(30)] + expected)


@BOTH_ENDS
def test_an_open_transaction_is_committed_after_a_restart_and_an_aborted_one_stays_hidden(
    tmp_path: Path, end: signal.Signals
) -> None:
    with StoredProcess(tmp_path / "data", *QUICK) as process:
        aborted, opened = (Producer(client_settings(process, transactional_id=name)) for name in ("x", "y"))
        for producer in (aborted, opened):
            producer.init_transactions(PATIENCE_S)
            producer.begin_transaction()
        produce(aborted, ["aborted"])
        aborted.abort_transaction(PATIENCE_S)
        produce(opened, ["before"])

        process.restart(end)

        produce(opened, ["after"])
        opened.commit_transaction(PATIENCE_S)
        aborted.begin_transaction()
        produce(aborted, ["next"])
        aborted.commit_transaction(PATIENCE_S)
        assert Counter(consume_all(process, 2)) == Counter(["before", "after", "next"])


def test_a_transaction_whose_producer_is_gone_is_aborted_by_its_timeout(tmp_path: Path) -> None:
    with StoredProcess(tmp_path / "data", *QUICK) as process:
        settings = client_settings(process, transactional_id="x", transaction_timeout_ms=1_000)
        producer = Producer(settings)
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        produce(producer, ["lost"])

        process.restart(signal.SIGKILL)

        produce(Producer(client_settings(process)), ["kept"])
        committed = client_settings(
            process, group_id="g", isolation_level="read_committed", auto_offset_reset="earliest"
        )
        consumer = Consumer(committed)
        consumer.subscribe(["orders"])
        assert poll(consumer, 1) == ["kept"]  # It may be behind the transaction, whose end it then waits for.
        consumer.close()
        assert consume_all(process, 2) == ["kept"]


def take(consumer: ShareConsumer, count: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < count:
        messages = consumer.poll(PATIENCE_S)
        assert messages, f"{len(found)} of {count} records came"
        found += [message for message in messages if message.error() is None]
    return found


@BOTH_ENDS
def test_a_share_group_gets_what_it_has_not_accepted(tmp_path: Path, end: signal.Signals) -> None:
    with StoredProcess(tmp_path / "data", *QUICK) as process:
        settings = client_settings(process)
        share_from_earliest(settings, "s")
        explicit = {**settings, "group.id": "s", "share.acknowledgement.mode": "explicit"}
        consumer = ShareConsumer(explicit)
        consumer.subscribe(["orders"])
        produce(Producer(settings), (f"a{n}" for n in range(10)))
        accepted: set[Any] = set()
        for message in consumer.poll(PATIENCE_S):
            is_accepted = len(accepted) < 4
            consumer.acknowledge(message, AcknowledgeType.ACCEPT if is_accepted else AcknowledgeType.RELEASE)
            if is_accepted:
                accepted.add(message.value())
        assert accepted
        for _, error in consumer.commit_sync(PATIENCE_S).items():
            assert error is None
        consumer.close()

        process.restart(end)

        again = ShareConsumer({**settings, "group.id": "s"})
        again.subscribe(["orders"])
        left = Counter(message.value() for message in take(again, 10 - len(accepted)))
        again.close()
        assert left == Counter(f"a{n}".encode() for n in range(10) if f"a{n}".encode() not in accepted)


@BOTH_ENDS
def test_users_and_access_control_entries_are_there_after_a_restart(tmp_path: Path, end: signal.Signals) -> None:
    authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    options = ("--sasl", "SCRAM-SHA-256 admin:secret", "--set", authorizer, "--set", "super.users=User:admin")
    with StoredProcess(tmp_path / "data", "--topic", "orders:2", "--topic", "secrets:1", *options) as process:
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
        settings = {**client_settings(process), **login}
        admin = AdminClient({**settings, "sasl.username": "admin", "sasl.password": "secret"})
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion("bob", credential, b"password")
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(PATIENCE_S)
        literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
        acl = AclBinding(ResourceType.TOPIC, "orders", literal, "User:bob", "*", AclOperation.WRITE, allow)
        for made in admin.create_acls([acl]).values():
            made.result(PATIENCE_S)

        process.restart(end)

        bob = Producer({**settings, "sasl.username": "bob", "sasl.password": "password", "message.timeout.ms": 20_000})
        produce(bob, ["allowed"])
        with pytest.raises(AssertionError, match="TOPIC_AUTHORIZATION_FAILED"):
            produce(bob, ["denied"], topic="secrets")
        listed = admin.describe_acls(acl_filter()).result(PATIENCE_S)
        assert [(one.name, one.principal) for one in listed] == [("orders", "User:bob")]


def acl_filter() -> AclBindingFilter:
    any_name: Any = None
    kinds = (ResourceType.ANY, any_name, ResourcePatternType.ANY, any_name, any_name)
    return AclBindingFilter(*kinds, AclOperation.ANY, AclPermissionType.ANY)


def test_topics_of_the_admin_client_have_the_same_ids_after_a_restart(tmp_path: Path) -> None:
    with StoredProcess(tmp_path / "data", *QUICK) as process:
        settings = client_settings(process)

        def describe() -> tuple[str, str]:
            admin = AdminClient(settings)
            topic = admin.describe_topics(TopicCollection(["orders"]))["orders"].result(PATIENCE_S)
            return admin.describe_cluster().result(PATIENCE_S).cluster_id, str(topic.topic_id)

        before = describe()
        process.restart(signal.SIGKILL)

        assert describe() == before
        again = AdminClient(settings)
        created = again.create_topics([NewTopic("orders", 2)])["orders"]
        with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
            created.result(PATIENCE_S)
