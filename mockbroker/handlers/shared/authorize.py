"""Authorization checks for handlers; without an authorizer every client may do everything.

The principal of a client is in its connection: User:ANONYMOUS, unless it authenticated by SASL or a certificate.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.security.operations import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from mockbroker.engine.context import Context

__all__ = [
    "CLUSTER_NAME",
    "AclOperation",
    "ResourceType",
    "is_authorized",
    "is_authorized_for_any",
    "is_authorized_on_cluster",
    "authorize",
    "authorize_cluster",
    "authorized_operations",
    "cluster_operations",
]

#: The error of a refused operation, by resource type.
_ERRORS = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}

#: The operations that a resource type supports. Source: Kafka's AclEntry.supportedOperations.
_SUPPORTED = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
    ),
}


def is_authorized(operation: AclOperation, kind: ResourceType, name: str, ctx: Context) -> bool:
    """Whether the client may perform an operation on the resource with this name."""
    authorizer = ctx.cluster.authorizer
    client = ctx.connection
    return authorizer is None or authorizer.is_allowed(client.principal, client.host, operation, kind, name)


def authorize(
    operation: AclOperation, kind: ResourceType, name: str, ctx: Context, *, message: str | None = None
) -> None:
    """Check that the client may perform an operation.

    Raises: KafkaError with the code of the resource type (29, 30, 31 or 53), and the message if one is given; Kafka has
    one in some APIs only.
    """
    if ctx.cluster.authorizer is not None and not is_authorized(operation, kind, name, ctx):
        raise KafkaError(_ERRORS[kind], message)


def is_authorized_on_cluster(operation: AclOperation, ctx: Context) -> bool:
    """Whether the client may perform an operation on the cluster."""
    return is_authorized(operation, ResourceType.CLUSTER, CLUSTER_NAME, ctx)


def authorize_cluster(operation: AclOperation, ctx: Context, *, message: str | None = None) -> None:
    """Check that the client may perform an operation on the cluster. Raises: CLUSTER_AUTHORIZATION_FAILED."""
    authorize(operation, ResourceType.CLUSTER, CLUSTER_NAME, ctx, message=message)


def is_authorized_for_any(operation: AclOperation, kind: ResourceType, ctx: Context) -> bool:
    """Whether a resource of this type may exist on which the client may perform the operation."""
    authorizer = ctx.cluster.authorizer
    client = ctx.connection
    return authorizer is None or authorizer.is_allowed_for_any(client.principal, client.host, operation, kind)


def authorized_operations(kind: ResourceType, name: str, ctx: Context) -> int:
    """The operations that the client may perform on a resource: the bit field of AuthorizedOperations."""
    if ctx.cluster.authorizer is None:
        return _all_operations(kind)
    return sum(1 << operation for operation in _SUPPORTED[kind] if is_authorized(operation, kind, name, ctx))


def cluster_operations(ctx: Context) -> int:
    """The operations that the client may do on the cluster; 0 if it may not describe it."""
    if not is_authorized_on_cluster(AclOperation.DESCRIBE, ctx):
        return 0
    return authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME, ctx)


@cache
def _all_operations(kind: ResourceType) -> int:
    return sum(1 << operation for operation in _SUPPORTED[kind])
