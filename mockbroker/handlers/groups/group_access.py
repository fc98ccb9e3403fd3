"""Authorization of the topics of groups that use the newer protocols."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.error_codes import ErrorCode
from mockbroker.engine.context import Context
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, is_authorized
from mockbroker.kafka_error import KafkaError

#: The message for a group with topics that the client may not describe.
HIDES_TOPICS = "The group has topics that the client may not describe."


def require_describe(topic_names: Iterable[str] | None, ctx: Context) -> None:
    """Check that the client may describe all topics of a subscription, existing or not.

    Raises: TOPIC_AUTHORIZATION_FAILED.
    """
    if topic_names is not None and hides_topics(topic_names, ctx):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def hides_topics(topic_names: Iterable[str], ctx: Context) -> bool:
    """Return whether the client may not describe one of the topics."""
    if ctx.cluster.authorizer is None:
        return False
    return not all(is_authorized(AclOperation.DESCRIBE, ResourceType.TOPIC, name, ctx) for name in topic_names)
