"""Random administrative operations on a cluster without sockets, for tests of what is stored of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kwire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasRequestEntryData, OpData
from kwire.messages.alter_client_quotas import EntityData as QuotaEntityData
from kwire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.brokers.broker import Broker

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "key",
}


def create(broker: Broker, name: str, partitions: int = 1, factor: int = 3) -> None:
    """Create a topic."""
    broker.call(CreateTopicsRequest([CreatableTopic(name, partitions, factor)]), 7)


def configure(broker: Broker, kind: int, name: str, key: str, value: str | None) -> None:
    """Set a configuration of a resource, or remove it."""
    change = AlterableConfig(key, 0 if value is not None else 1, value)
    broker.call(IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, [change])]), 1)


NAMES, NODES = ["a", "b.c", "d"], [0, 1, 2]
OPERATIONS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(NAMES), st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(st.just("grow"), st.sampled_from(NAMES), st.integers(2, 5)),
    st.tuples(st.just("topic config"), st.sampled_from(NAMES), st.sampled_from(["1000", "2000", None])),
    st.tuples(st.just("group config"), st.sampled_from(NAMES), st.sampled_from(["40000", "50000", None])),
    st.tuples(st.just("cluster config"), st.sampled_from(["1", "2", None])),
    st.tuples(st.just("stop"), st.sampled_from(NODES)),
    st.tuples(st.just("start"), st.sampled_from(NODES)),
    st.tuples(st.just("quota"), st.sampled_from([*NAMES, None]), st.sampled_from([1.0, 2.0, None])),
    st.tuples(st.just("scram"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("acl"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("token"), st.sampled_from(NAMES)),
    st.tuples(st.just("share version"), st.integers(0, 2)),
    st.tuples(st.just("producer id")),
)


def operate(broker: Broker, operation: tuple[Any, ...]) -> None:
    """Do one operation; those that the cluster refuses change nothing."""
    match operation:
        case ("create", name, count, factor):
            create(broker, name, count, factor)
        case ("delete", name):
            broker.call(DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=30_000), 6)
        case ("grow", name, count):
            broker.call(CreatePartitionsRequest([CreatePartitionsTopic(name, count, None)], timeout_ms=30_000), 3)
        case ("topic config", name, value):
            configure(broker, 2, name, "segment.ms", value)
        case ("group config", name, value):
            configure(broker, 32, name, "consumer.session.timeout.ms", value)
        case ("cluster config", value):
            configure(broker, 4, "", "min.insync.replicas", value)
        case _:
            operate_brokers(broker, operation)


def operate_brokers(broker: Broker, operation: tuple[Any, ...]) -> None:
    """Do an operation on brokers, quotas or features."""
    nodes = broker.core.state.inter_broker.nodes
    match operation:
        case ("stop", stopped) if stopped in nodes and stopped != 0:
            broker.stop_node(stopped)
        case ("start", started) if started not in nodes:
            broker.start_node(started)
        case ("quota", name, value):
            change = OpData("producer_byte_rate", value or 0.0, value is None)
            broker.call(
                AlterClientQuotasRequest(
                    [AlterClientQuotasRequestEntryData([QuotaEntityData("user", name)], [change])]
                ),
                1,
            )
        case ("share version", level):
            update = FeatureUpdateKey("share.version", level, upgrade_type=1)
            broker.call(UpdateFeaturesRequest(feature_updates=[update]), 2)
        case ("producer id",):
            broker.call(InitProducerIdRequest(None, 60_000), 4)
        case _:
            operate_security(broker, operation)


def operate_security(broker: Broker, operation: tuple[Any, ...]) -> None:
    """Do an operation on users, entries or tokens."""
    match operation:
        case ("scram", name, is_deleted):
            deletions = [ScramCredentialDeletion(name, 1)] if is_deleted else []
            upsertions = [] if is_deleted else [ScramCredentialUpsertion(name, 1, 4096, b"salt", b"p" * 32)]
            broker.call(AlterUserScramCredentialsRequest(deletions, upsertions), 0)
        case ("acl", name, True):
            broker.call(CreateAclsRequest([AclCreation(2, name, 3, "User:u", "*", 3, 3)]), 3)
        case ("acl", name, False):
            broker.call(DeleteAclsRequest([DeleteAclsFilter(2, name, 3, None, None, 1, 1)]), 3)
        case ("token", name):
            times = {"lifetime_ms": 0, "now_ms": broker.now_ms}
            tokens = broker.core.state.security.tokens
            tokens.create_token(name, owner="User:o", requester="User:r", renewers=("User:n",), **times)
