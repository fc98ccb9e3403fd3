"""An authorizer around the handlers: how it is configured, and what the conversations cannot show."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kwire.messages.describe_acls import DescribeAclsRequest
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest
from mockbroker.config import BrokerConfig, ConfigError
from mockbroker.state.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from tests.mockbroker.broker import Broker

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def broker(**config: str) -> Broker:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return Broker(topics={"orders": 1}, config={"authorizer.class.name": STANDARD, **settings})


def creation(kind: ResourceType, name: str, operation: Operation, permission: Permission) -> AclCreation:
    return AclCreation(kind, name, PatternType.LITERAL, "User:*", "*", operation, permission)


def create(broker: Broker, *rows: AclCreation) -> list[int]:
    answer = broker.ask(CreateAclsRequest(list(rows)), 3, connection="admin")
    return [row.error_code for row in answer.results]


def fetch(topic: str, max_wait_ms: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1000, topics=[FetchTopic(topic=topic, partitions=[partition])]
    )


def test_without_entries_nobody_may_do_anything_unless_so_configured() -> None:
    closed = broker()

    assert closed.ask(MetadataRequest(topics=None), 12).topics == []
    created = closed.ask(CreateTopicsRequest(topics=[CreatableTopic("more", 1, 1)]), 7)
    assert [row.error_code for row in created.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    entry = creation(ResourceType.CLUSTER, CLUSTER_NAME, Operation.ALL, Permission.ALLOW)
    assert create(closed, entry) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]


def test_everybody_may_do_everything_where_no_entry_is_found() -> None:
    opened = broker(allow_everyone_if_no_acl_found="true")

    assert [topic.name for topic in opened.ask(MetadataRequest(topics=None), 12).topics] == ["orders"]


def test_a_super_user_may_do_everything() -> None:
    opened = broker(super_users="User:admin; User:ANONYMOUS")

    assert create(opened, creation(ResourceType.TOPIC, "orders", Operation.ALL, Permission.DENY)) == [0]
    assert [topic.name for topic in opened.ask(MetadataRequest(topics=None), 12).topics] == ["orders"]


def test_a_super_user_without_a_type_is_a_wrong_configuration() -> None:
    with pytest.raises(ConfigError, match=r"super\.users: 'admin'"):
        broker(super_users="User:a;admin")


def test_other_authorizers_have_no_effect_and_are_told_so() -> None:
    config = {"authorizer.class.name": "com.example.Mine", "super.users": "admin"}
    told = BrokerConfig(config)

    assert told.ignored == ["authorizer.class.name"]
    assert told.unknown == ["super.users"]
    assert create(Broker(config=config), creation(ResourceType.TOPIC, "a", Operation.READ, Permission.DENY)) == [
        ErrorCode.SECURITY_DISABLED
    ]


def test_what_the_authorizer_is_told_is_neither_ignored_nor_unknown() -> None:
    told = BrokerConfig({"authorizer.class.name": STANDARD, "super.users": "User:a"})

    assert told.ignored == []
    assert told.unknown == []


@pytest.mark.parametrize(
    "request_",
    [
        CreateAclsRequest([AclCreation(ResourceType.TOPIC, "a", 0, "User:a", "*", 3, 3)]),
        DeleteAclsRequest([DeleteAclsFilter(ResourceType.TOPIC, "a", PatternType.LITERAL, None, None, 0, 1)]),
        DescribeAclsRequest(0, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY),
    ],
)
def test_a_choice_of_the_number_zero_ends_the_connection(request_: CreateAclsRequest) -> None:
    opened = broker(allow_everyone_if_no_acl_found="true")

    assert opened.ask(request_, 3) is None
    assert "a" in opened.closed


def test_a_waiting_fetch_is_not_refused_by_an_entry_made_meanwhile() -> None:
    opened = broker(allow_everyone_if_no_acl_found="true")
    assert opened.ask(fetch("orders", 500), 12) is None

    assert create(opened, creation(ResourceType.TOPIC, "orders", Operation.READ, Permission.DENY)) == [0]

    opened.advance(500)
    assert opened.answer().responses[0].partitions[0].error_code == ErrorCode.NONE
    refused = opened.ask(fetch("orders", 0), 12)
    assert refused.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
