"""InitProducerId (22): an id for an idempotent producer, or the epoch that fences the former owner of a name."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, may_any, must
from mockbroker.state.transaction import Holder

#: Older clients know only INVALID_PRODUCER_EPOCH.
_FENCED_SINCE = 4


def init_producer_id(request: InitProducerIdRequest, ctx: Context) -> Outcome:
    """Give a producer id. Source: Kafka's TransactionCoordinator.handleInitProducerId."""
    _must_be_allowed(request, ctx)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "producer id and epoch are given both, or not at all")
    name = request.transactional_id
    if name is None:
        return Reply(InitProducerIdResponse(producer_id=ctx.node.producer_ids.fresh(), producer_epoch=0))
    timeout_ms = _timeout_ms(name, request, ctx)
    expected = None if request.producer_id == -1 else Holder(request.producer_id, request.producer_epoch)
    try:
        holder = ctx.node.transactions.initialize(name, timeout_ms=timeout_ms, expected=expected, now_ms=ctx.now_ms)
    except KafkaError as fenced:
        if fenced.code is ErrorCode.PRODUCER_FENCED and ctx.api_version < _FENCED_SINCE:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, fenced.message) from None
        raise
    return Reply(InitProducerIdResponse(producer_id=holder.producer_id, producer_epoch=holder.epoch))


def refuse_init_producer_id(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    """A response that carries an error, with neither id nor epoch."""
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)


def _must_be_allowed(request: InitProducerIdRequest, ctx: Context) -> None:
    """Pass only for those who may use the transactional id, or without one may write idempotently somewhere.

    Raises: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED.
    """
    name = request.transactional_id
    if name is not None:
        must(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name, ctx)
        if request.enable2_pc:
            must(Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, name, ctx)
    elif not may_any(Operation.WRITE, ResourceType.TOPIC, ctx):
        must(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME, ctx)


def _timeout_ms(name: str, request: InitProducerIdRequest, ctx: Context) -> int:
    """How long a transaction may stay open.

    Raises: INVALID_REQUEST, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION, INVALID_TRANSACTION_TIMEOUT.
    """
    config = ctx.cluster.config
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if request.enable2_pc and not config.flag("transaction.two.phase.commit.enable"):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.keep_prepared_txn:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if not 0 < request.transaction_timeout_ms <= config.integer("transaction.max.timeout.ms"):
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"{request.transaction_timeout_ms} ms")
    return request.transaction_timeout_ms
