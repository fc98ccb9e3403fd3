"""May this client do that? What handlers ask; without an authorizer everybody may do everything.

Who a client is stands in its connection: User:ANONYMOUS, unless SASL or a certificate says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.config import BrokerConfig, ConfigError
from mockbroker.kafka_error import KafkaError
from mockbroker.state.acls import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from mockbroker.context import Context
    from mockbroker.state.authorizer import Authorizer

__all__ = ["CLUSTER_NAME", "Operation", "ResourceType", "authorizer_of", "may", "may_any", "must", "operations_on"]

#: What is answered to those who may not.
_ERRORS = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}

#: What can be done to a resource at all. Source: Kafka's AclEntry.supportedOperations.
_SUPPORTED = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
        Operation.ALTER,
        Operation.DESCRIBE,
    ),
}


def may(operation: Operation, kind: ResourceType, name: str, ctx: Context) -> bool:
    """Whether the client may do this to the resource of this name."""
    authorizer = ctx.cluster.authorizer
    return authorizer is None or authorizer.may(ctx.connection.principal, ctx.connection.host, operation, kind, name)


def must(operation: Operation, kind: ResourceType, name: str, ctx: Context, *, message: str | None = None) -> None:
    """Pass only if the client may do this.

    Raises: the code of the resource's type (29, 30, 31 or 53), with the message if there is one; Kafka has one in
    some APIs only.
    """
    if not may(operation, kind, name, ctx):
        raise KafkaError(_ERRORS[kind], message)


def may_any(operation: Operation, kind: ResourceType, ctx: Context) -> bool:
    """Whether there can be a resource of this type that the client may do this to."""
    authorizer = ctx.cluster.authorizer
    return authorizer is None or authorizer.may_any(ctx.connection.principal, ctx.connection.host, operation, kind)


def operations_on(kind: ResourceType, name: str, ctx: Context) -> int:
    """What the client may do to a resource, a bit each by the numbers of the operations: AuthorizedOperations."""
    if ctx.cluster.authorizer is None:
        return _all_operations(kind)
    return _bits(operation for operation in _SUPPORTED[kind] if may(operation, kind, name, ctx))


@cache
def _all_operations(kind: ResourceType) -> int:
    return _bits(_SUPPORTED[kind])


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


def authorizer_of(config: BrokerConfig) -> Authorizer | None:
    """The authorizer that a configuration names, if it is the standard one; others have no effect here.

    Raises: ConfigError for a super user without a type.
    """
    if not config.has_authorizer:
        return None
    from mockbroker.state.authorizer import Authorizer

    # These two belong to the authorizer: Kafka's own list of configurations does not know them.
    super_users = [user.strip() for user in config.given.get("super.users", "").split(";") if user.strip()]
    for user in super_users:
        if ":" not in user:
            raise ConfigError(f"super.users: {user!r} has no colon between type and name")
    allow = config.given.get("allow.everyone.if.no.acl.found", "").strip().lower() == "true"
    return Authorizer(super_users, allow_if_none_found=allow)
