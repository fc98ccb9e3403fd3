"""UnregisterBroker (64): a broker that will not return, or that has to register again."""

from __future__ import annotations

from kwire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, authorize_cluster
from mockbroker.kafka_error import KafkaError


def unregister_broker(request: UnregisterBrokerRequest, ctx: Context) -> Outcome:
    """Unregister a broker, even a running one: it leaves all ISRs and leads no partition.

    It stays so until it is started again. Pinned by the conversation other-unregister-broker.
    """
    authorize_cluster(AclOperation.ALTER, ctx, message="ALTER is not allowed.")
    assert ctx.cluster.controller is not None
    ctx.cluster.controller.unregister(request.broker_id, now_ms=ctx.now_ms)
    return Reply(UnregisterBrokerResponse())


def refuse_unregister_broker(request: UnregisterBrokerRequest, error: KafkaError) -> UnregisterBrokerResponse:
    """A response with the error, and always with a message."""
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message or error.code.name)
