"""DescribeClientQuotas (48) and AlterClientQuotas (49). A change of a quota is in effect for the next request."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.error_codes import ErrorCode
from kwire.messages import alter_client_quotas as alter
from kwire.messages import describe_client_quotas as describe
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, authorize_cluster
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.client_quotas import FilterComponent, QuotaChange, QuotaEntity, make_entity
from mockbroker.state.metadata.record_limit import check_record_count


def describe_client_quotas(request: describe.DescribeClientQuotasRequest, ctx: Context) -> Outcome:
    """Return the quotas that match a filter. Pinned by the conversation other-client-quotas-describe."""
    authorize_cluster(AclOperation.DESCRIBE_CONFIGS, ctx)
    components = [FilterComponent(row.entity_type, row.match_type, row.match) for row in request.components]
    matching = ctx.cluster.broker_storage.quotas.find_entities(components, strict=request.strict)
    entries = [
        describe.EntryData(
            [describe.EntityData(*part) for part in entity], [describe.ValueData(*value) for value in values.items()]
        )
        for entity, values in matching
    ]
    return Reply(describe.DescribeClientQuotasResponse(entries=entries))


def refuse_describe_client_quotas(
    request: describe.DescribeClientQuotasRequest, error: KafkaError
) -> describe.DescribeClientQuotasResponse:
    """A response with the error and no list."""
    return describe.DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


def alter_client_quotas(request: alter.AlterClientQuotasRequest, ctx: Context) -> Outcome:
    """Change quotas; with validate_only only check them. Entities fail one by one.

    Pinned by the conversations other-client-quotas-alter and other-client-quotas-errors.
    """
    authorize_cluster(AclOperation.ALTER_CONFIGS, ctx, message="ALTER_CONFIGS is not allowed.")
    quotas = ctx.cluster.broker_storage.quotas
    rows: dict[QuotaEntity, alter.AlterClientQuotasResponseEntryData] = {}
    changed: dict[QuotaEntity, dict[str, float]] = {}
    record_count = 0
    for entry in request.entries:
        entity = make_entity({part.entity_type: part.entity_name for part in entry.entity})
        try:
            if entity in rows:  # The change of its first row stays.
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the entity is listed twice")
            changes = [QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops]
            before, after = quotas.values_of(entity), quotas.apply_changes(entity, changes)
            record_count += sum(before.get(key) != after.get(key) for key in before.keys() | after.keys())
            changed[entity] = after
            rows[entity] = _result_row(entity, None)
        except KafkaError as error:
            rows[entity] = _result_row(entity, error)
    check_record_count(record_count)
    if not request.validate_only:
        for entity, after in changed.items():
            quotas.set_quotas(entity, after)
    return Reply(alter.AlterClientQuotasResponse(entries=list(rows.values())))


def refuse_alter_client_quotas(
    request: alter.AlterClientQuotasRequest, error: KafkaError
) -> alter.AlterClientQuotasResponse:
    """A response with the error in every row."""
    entities = [[(part.entity_type, part.entity_name) for part in row.entity] for row in request.entries]
    return alter.AlterClientQuotasResponse(entries=[_result_row(entity, error) for entity in entities])


def _result_row(
    entity: Iterable[tuple[str, str | None]], error: KafkaError | None
) -> alter.AlterClientQuotasResponseEntryData:
    code, message = (error.code, error.message) if error else (ErrorCode.NONE, None)
    return alter.AlterClientQuotasResponseEntryData(code, message, [alter.EntityData(*part) for part in entity])
