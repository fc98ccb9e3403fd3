"""UnregisterBroker (64): a broker that will not come back, or that has to register anew."""

from __future__ import annotations

from kwire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, must


def unregister_broker(request: UnregisterBrokerRequest, ctx: Context) -> Outcome:
    """Strike a broker off, even one that runs: nothing of it is in sync any more, and it leads nothing.

    It stays so until it is started again. Pinned by the conversation other-unregister-broker.
    """
    must(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, ctx, message="ALTER is not allowed.")
    assert ctx.cluster.controller is not None
    ctx.cluster.controller.unregister(request.broker_id, now_ms=ctx.now_ms)
    return Reply(UnregisterBrokerResponse())


def refuse_unregister_broker(request: UnregisterBrokerRequest, error: KafkaError) -> UnregisterBrokerResponse:
    """A response that carries an error, and always words for it."""
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message or error.code.name)
