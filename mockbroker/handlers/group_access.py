"""What groups of the newer protocols ask of their members' topics, where there is an authorizer."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.error_codes import ErrorCode
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.security.authorize import Operation, ResourceType, may

#: Said of a group whose members have topics that the client may not describe.
HIDES_TOPICS = "The group has topics that the client may not describe."


def must_see(topic_names: Iterable[str] | None, ctx: Context) -> None:
    """Pass only for those who may describe all topics of a subscription, known or not.

    Raises: TOPIC_AUTHORIZATION_FAILED.
    """
    if topic_names is not None and hides_topics(topic_names, ctx):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def hides_topics(topic_names: Iterable[str], ctx: Context) -> bool:
    """Whether one of the topics may not be described."""
    if ctx.cluster.authorizer is None:
        return False
    return not all(may(Operation.DESCRIBE, ResourceType.TOPIC, name, ctx) for name in topic_names)
