"""DescribeClientQuotas (48) and AlterClientQuotas (49). Quotas are kept and told; nobody is throttled by them."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.error_codes import ErrorCode
from kwire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)
from kwire.messages.alter_client_quotas import EntityData as AlteredEntity
from kwire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, must
from mockbroker.state.quotas import Component, Entity, QuotaChange, entity_of


def describe_client_quotas(request: DescribeClientQuotasRequest, ctx: Context) -> Outcome:
    """Tell the quotas that a filter matches. Pinned by the conversation other-client-quotas-describe."""
    must(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME, ctx)
    components = [Component(one.entity_type, one.match_type, one.match) for one in request.components]
    found = ctx.cluster.kept.quotas.find(components, strict=request.strict)
    entries = [
        EntryData(
            entity=[EntityData(entity_type, name) for entity_type, name in entity],
            values=[ValueData(key, value) for key, value in values.items()],
        )
        for entity, values in found
    ]
    return Reply(DescribeClientQuotasResponse(entries=entries))


def refuse_describe_client_quotas(
    request: DescribeClientQuotasRequest, error: KafkaError
) -> DescribeClientQuotasResponse:
    """A response that carries an error, and no list."""
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


def alter_client_quotas(request: AlterClientQuotasRequest, ctx: Context) -> Outcome:
    """Change quotas, or only say whether they could be changed; entities fail one by one.

    Pinned by the conversations other-client-quotas-alter and other-client-quotas-errors.
    """
    must(Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME, ctx, message="ALTER_CONFIGS is not allowed.")
    rows: dict[Entity, AlterClientQuotasResponseEntryData] = {}
    for entry in request.entries:
        entity = entity_of({one.entity_type: one.entity_name for one in entry.entity})
        if entity in rows:
            # What its first row changed stays changed all the same.
            rows[entity] = _row(entity, KafkaError(ErrorCode.INVALID_REQUEST, "the entity comes twice"))
            continue
        try:
            _alter(entity, entry, ctx, validate_only=request.validate_only)
        except KafkaError as error:
            rows[entity] = _row(entity, error)
        else:
            rows[entity] = _row(entity, None)
    return Reply(AlterClientQuotasResponse(entries=list(rows.values())))


def refuse_alter_client_quotas(request: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    """A response that carries an error in every row."""
    entries = [_row(((one.entity_type, one.entity_name) for one in row.entity), error) for row in request.entries]
    return AlterClientQuotasResponse(entries=entries)


def _alter(entity: Entity, entry: AlterClientQuotasRequestEntryData, ctx: Context, *, validate_only: bool) -> None:
    quotas = ctx.cluster.kept.quotas
    after = quotas.altered(entity, [QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops])
    if not validate_only:
        quotas.put(entity, after)


def _row(entity: Iterable[tuple[str, str | None]], error: KafkaError | None) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=error.code if error else 0,
        error_message=error.message if error else None,
        entity=[AlteredEntity(entity_type, name) for entity_type, name in entity],
    )
