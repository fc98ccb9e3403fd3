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
from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.state.security.acls import PatternType, Permission
from mockbroker.state.security.operations import CLUSTER_NAME, AclOperation, ResourceType
from tests.support.brokers.broker import Broker

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def broker(**config: str) -> Broker:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return Broker(topics={"orders": 1}, config={"authorizer.class.name": STANDARD, **settings})


def creation(kind: ResourceType, name: str, operation: AclOperation, permission: Permission) -> AclCreation:
    return AclCreation(kind, name, PatternType.LITERAL, "User:*", "*", operation, permission)


def create(broker: Broker, *rows: AclCreation) -> list[int]:
    answer = broker.call(CreateAclsRequest(list(rows)), 3, connection="admin")
    return [row.error_code for row in answer.results]


def fetch(topic: str, max_wait_ms: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1000, topics=[FetchTopic(topic=topic, partitions=[partition])]
    )


def test_without_entries_all_operations_are_denied_by_default() -> None:
    closed = broker()

    assert closed.call(MetadataRequest(topics=None), 12).topics == []
    created = closed.call(CreateTopicsRequest(topics=[CreatableTopic("more", 1, 1)]), 7)
    assert [row.error_code for row in created.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    entry = creation(ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.ALL, Permission.ALLOW)
    assert create(closed, entry) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]


def test_without_entries_all_operations_can_be_allowed() -> None:
    opened = broker(allow_everyone_if_no_acl_found="true")

    assert [topic.name for topic in opened.call(MetadataRequest(topics=None), 12).topics] == ["orders"]


def test_a_super_user_may_do_everything() -> None:
    opened = broker(super_users="User:admin; User:ANONYMOUS")

    assert create(opened, creation(ResourceType.TOPIC, "orders", AclOperation.ALL, Permission.DENY)) == [0]
    assert [topic.name for topic in opened.call(MetadataRequest(topics=None), 12).topics] == ["orders"]


def test_a_super_user_without_a_type_is_a_wrong_configuration() -> None:
    with pytest.raises(ConfigError, match=r"super\.users: 'admin'"):
        broker(super_users="User:a;admin")


def test_other_authorizers_have_no_effect_and_are_reported() -> None:
    config = {"authorizer.class.name": "com.example.Mine", "super.users": "admin"}
    warnings = BrokerConfig(config)

    assert [plugin.name for plugin in warnings.unsupported_plugins] == ["authorizer.class.name"]
    assert warnings.unknown == ["super.users"]
    assert create(Broker(config=config), creation(ResourceType.TOPIC, "a", AclOperation.READ, Permission.DENY)) == [
        ErrorCode.SECURITY_DISABLED
    ]


def test_configuration_of_the_authorizer_is_neither_ignored_nor_unknown() -> None:
    config = BrokerConfig({"authorizer.class.name": STANDARD, "super.users": "User:a"})

    assert config.ignored == []
    assert config.unknown == []


@pytest.mark.parametrize(
    "request_",
    [
        CreateAclsRequest([AclCreation(ResourceType.TOPIC, "a", 0, "User:a", "*", 3, 3)]),
        DeleteAclsRequest([DeleteAclsFilter(ResourceType.TOPIC, "a", PatternType.LITERAL, None, None, 0, 1)]),
        DescribeAclsRequest(0, None, PatternType.ANY, None, None, AclOperation.ANY, Permission.ANY),
    ],
)
def test_an_enumeration_value_of_zero_closes_the_connection(request_: CreateAclsRequest) -> None:
    opened = broker(allow_everyone_if_no_acl_found="true")

    assert opened.call(request_, 3) is None
    assert "a" in opened.closed


def test_a_waiting_fetch_is_not_denied_by_a_new_entry() -> None:
    opened = broker(allow_everyone_if_no_acl_found="true")
    assert opened.call(fetch("orders", 500), 12) is None

    assert create(opened, creation(ResourceType.TOPIC, "orders", AclOperation.READ, Permission.DENY)) == [0]

    opened.advance(500)
    assert opened.take_response().responses[0].partitions[0].error_code == ErrorCode.NONE
    refused = opened.call(fetch("orders", 0), 12)
    assert refused.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
