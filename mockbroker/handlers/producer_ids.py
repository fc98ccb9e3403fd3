"""InitProducerId (22): an id for an idempotent producer, or the epoch that fences the former owner of a name."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.state.metadata import CoordinatorKind

#: Older clients know only INVALID_PRODUCER_EPOCH.
_FENCED_SINCE = 4


def init_producer_id(request: InitProducerIdRequest, ctx: Context) -> Outcome:
    """Give a producer id. Source: Kafka's TransactionCoordinator.handleInitProducerId."""
    ids = ctx.node.producer_ids
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "producer id and epoch are given both, or not at all")
    name = request.transactional_id
    if name is None:
        return Reply(InitProducerIdResponse(producer_id=ids.fresh(), producer_epoch=0))
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if request.enable2_pc and not ctx.cluster.config.flag("transaction.two.phase.commit.enable"):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.keep_prepared_txn:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if not 0 < request.transaction_timeout_ms <= ctx.cluster.config.integer("transaction.max.timeout.ms"):
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"{request.transaction_timeout_ms} ms")
    if ctx.cluster.metadata.coordinator_for(CoordinatorKind.TRANSACTION, name) != ctx.node.node_id:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)
    expected = None if request.producer_id == -1 else (request.producer_id, request.producer_epoch)
    try:
        producer_id, epoch = ids.begin(name, timeout_ms=request.transaction_timeout_ms, expected=expected)
    except KafkaError as fenced:
        if fenced.code is ErrorCode.PRODUCER_FENCED and ctx.api_version < _FENCED_SINCE:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, fenced.message) from None
        raise
    return Reply(InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch))


def refuse_init_producer_id(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    """A response that carries an error, with neither id nor epoch."""
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)
