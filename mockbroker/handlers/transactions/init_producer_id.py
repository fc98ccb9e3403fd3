"""InitProducerId (22): an id for an idempotent producer, or a new epoch for a transactional id."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import (
    AclOperation,
    ResourceType,
    authorize,
    authorize_cluster,
    is_authorized_for_any,
)
from mockbroker.handlers.transactions.await_transaction_log import reply_when_recorded
from mockbroker.kafka_error import KafkaError
from mockbroker.state.transaction.transaction import ProducerIdAndEpoch
from mockbroker.state.transaction.transactions import NO_TIMEOUT

#: Older clients support only INVALID_PRODUCER_EPOCH.
_FENCED_SINCE = 4


def init_producer_id(request: InitProducerIdRequest, ctx: Context) -> Outcome:
    """Return a producer id and epoch. Source: Kafka's TransactionCoordinator.handleInitProducerId."""
    _require_permission(request, ctx)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "producer id and epoch have to be given together")
    name = request.transactional_id
    if name is None:
        return Reply(InitProducerIdResponse(producer_id=ctx.node.producer_ids.next_id(), producer_epoch=0))
    timeout_ms = _check_timeout(name, request, ctx)
    expected = None if request.producer_id == -1 else ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        producer = ctx.node.transactions.initialize_producer(
            name, timeout_ms=timeout_ms, expected=expected, now_ms=ctx.now_ms
        )
    except KafkaError as fenced:
        if fenced.code is ErrorCode.PRODUCER_FENCED and ctx.api_version < _FENCED_SINCE:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, fenced.message) from None
        raise
    response = InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)
    return reply_when_recorded(Reply(response), name, ctx)


def refuse_init_producer_id(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    """A response with the error, without id and epoch."""
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)


def _require_permission(request: InitProducerIdRequest, ctx: Context) -> None:
    """Check the permission for the transactional id, or without one to write idempotently.

    Raises: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED.
    """
    name = request.transactional_id
    if name is not None:
        authorize(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name, ctx)
        if request.enable2_pc:
            authorize(AclOperation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, name, ctx)
    elif not is_authorized_for_any(AclOperation.WRITE, ResourceType.TOPIC, ctx):
        authorize_cluster(AclOperation.IDEMPOTENT_WRITE, ctx)


def _check_timeout(name: str, request: InitProducerIdRequest, ctx: Context) -> int:
    """The transaction timeout of the request; none in a two-phase commit (KIP-939), whatever it says.

    Raises: INVALID_REQUEST, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION, INVALID_TRANSACTION_TIMEOUT.
    """
    config = ctx.node.config
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if request.enable2_pc and not config.boolean("transaction.two.phase.commit.enable"):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.keep_prepared_txn:  # Kafka 4.4 does not implement it either.
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if request.enable2_pc:
        return NO_TIMEOUT
    if not 0 < request.transaction_timeout_ms <= config.integer("transaction.max.timeout.ms"):
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"{request.transaction_timeout_ms} ms")
    return request.transaction_timeout_ms
