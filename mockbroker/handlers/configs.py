"""DescribeConfigs (32), AlterConfigs (33) and IncrementalAlterConfigs (44): what is configured, told and changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kwire.error_codes import ErrorCode
from kwire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kwire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from kwire.messages.alter_configs import AlterConfigsResourceResponse as ReplacedRow
from kwire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from mockbroker.context import Context
from mockbroker.handlers.broker_loggers import alter_loggers, describe_loggers
from mockbroker.handlers.draft_configs import by_released_names, described
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, ResourceType, must
from mockbroker.security.authorize import Operation as Act
from mockbroker.state.config_changes import ConfigChange, Operation, altered, replaced
from mockbroker.state.config_entries import ConfigEntry, describe
from mockbroker.state.configs import Resource, ResourceKind
from mockbroker.state.metadata import validate_topic_name

#: Types whose resources Kafka does not describe without a name.
_NAMED = (ResourceKind.GROUP, ResourceKind.CLIENT_METRICS)


def describe_configs(request: DescribeConfigsRequest, ctx: Context) -> Outcome:
    """Tell configuration in force.

    Pinned by the conversations other-describe-configs, other-client-metrics-configs and share-config-describe.
    """
    return Reply(DescribeConfigsResponse(results=[_described(row, request, ctx) for row in request.resources]))


def refuse_describe_configs(request: DescribeConfigsRequest, error: KafkaError) -> DescribeConfigsResponse:
    """A response that carries an error in every row."""
    return DescribeConfigsResponse(results=[_not_described(row, error) for row in request.resources])


def alter_configs(request: AlterConfigsRequest, ctx: Context) -> Outcome:
    """Replace the whole configuration of resources: what a row does not name goes back to its default.

    Of a resource that is named twice a 4.3.0 broker tells nothing, and never answers; here both rows are refused.
    Pinned by the conversations other-legacy-alter-configs*.
    """
    named = Counter((row.resource_type, row.resource_name) for row in request.resources)
    rows = []
    for row in request.resources:
        times = named[row.resource_type, row.resource_name]
        try:
            _replace(row, ctx, times=times, validate_only=request.validate_only)
        except KafkaError as error:
            rows.append(ReplacedRow(error.code, error.message, row.resource_type, row.resource_name))
        else:
            rows.append(ReplacedRow(0, None, row.resource_type, row.resource_name))
    return Reply(AlterConfigsResponse(responses=rows))


def refuse_alter_configs(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    """A response that carries an error in every row."""
    return AlterConfigsResponse(
        responses=[
            ReplacedRow(error.code, error.message, row.resource_type, row.resource_name) for row in request.resources
        ]
    )


def incremental_alter_configs(request: IncrementalAlterConfigsRequest, ctx: Context) -> Outcome:
    """Change configuration, or only say whether it could be changed. A resource changes as a whole or not at all.

    Pinned by the conversations other-alter-configs, share-config-bounds and share-config-cross-check.
    """
    named = Counter((row.resource_type, row.resource_name) for row in request.resources)
    rows = []
    for row in request.resources:
        times = named[row.resource_type, row.resource_name]
        rows.append(_altered(row, ctx, times=times, validate_only=request.validate_only))
    return Reply(IncrementalAlterConfigsResponse(responses=rows))


def refuse_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, error: KafkaError
) -> IncrementalAlterConfigsResponse:
    """A response that carries an error in every row."""
    return IncrementalAlterConfigsResponse(responses=[_alter_row(row, error) for row in request.resources])


def _described(wanted: DescribeConfigsResource, request: DescribeConfigsRequest, ctx: Context) -> DescribeConfigsResult:
    try:
        _must(Act.DESCRIBE_CONFIGS, wanted.resource_type, wanted.resource_name, ctx)
        if wanted.resource_type == ResourceKind.BROKER_LOGGER:
            return describe_loggers(wanted, ctx)
        resource = _checked(wanted.resource_type, wanted.resource_name, ctx)
        if resource.kind in _NAMED and not resource.name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{resource.kind.name}: the name must not be empty")
        if resource.kind is ResourceKind.TOPIC:
            validate_topic_name(resource.name)
            if ctx.cluster.metadata.topic(resource.name) is None:
                # Kafka has nothing to say about it but the code.
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    except KafkaError as error:
        return _not_described(wanted, error)
    if ctx.cluster.config.dialect is None:
        entries = describe(ctx.cluster.configs, resource, wanted.configuration_keys)
    else:
        entries = described(describe(ctx.cluster.configs, resource, None), resource, wanted.configuration_keys, ctx)
    return DescribeConfigsResult(
        resource_type=wanted.resource_type,
        resource_name=wanted.resource_name,
        configs=[_entry_row(entry, synonyms=request.include_synonyms) for entry in entries],
    )


def _entry_row(entry: ConfigEntry, *, synonyms: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(one.name, one.value, one.source) for one in entry.synonyms]
        if synonyms
        else [],
        config_type=entry.type,
        documentation=None,
    )


def _not_described(wanted: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(error.code, error.message, wanted.resource_type, wanted.resource_name)


def _must(operation: Act, resource_type: int, name: str, ctx: Context) -> None:
    """Pass only those who may do this to the configuration; that of brokers is the cluster's.

    Raises: TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED.
    """
    message = f"{operation.name} is not allowed."
    if resource_type == ResourceKind.TOPIC:
        must(operation, ResourceType.TOPIC, name, ctx, message=message)
    elif resource_type == ResourceKind.GROUP:
        must(operation, ResourceType.GROUP, name, ctx, message=message)
    else:
        must(operation, ResourceType.CLUSTER, CLUSTER_NAME, ctx, message=message)


def _checked(resource_type: int, name: str, ctx: Context) -> Resource:
    """The resource that a request means. A broker answers for itself alone.

    Raises: INVALID_REQUEST for other types and other brokers.
    """
    if resource_type in (ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLIENT_METRICS):
        return Resource(ResourceKind(resource_type), name)
    if resource_type == ResourceKind.BROKER:
        if name and name != str(ctx.node.node_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"this is broker {ctx.node.node_id}; {name!r} is neither that nor empty"
            )
        return Resource(ResourceKind.BROKER, name)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource_type}")


def _altered(
    wanted: AlterConfigsResource, ctx: Context, *, times: int, validate_only: bool
) -> AlterConfigsResourceResponse:
    try:
        _must_be_named_once(times)
        _must_be_in_form([config.name for config in wanted.configs], _nulls(wanted))
        if wanted.resource_type == ResourceKind.BROKER_LOGGER:
            alter_loggers(wanted, ctx, validate_only=validate_only)
            return _alter_row(wanted, None)
        changes = _changes(wanted, by_released_names(wanted.resource_type, wanted.configs, ctx))
        resource = _checked(wanted.resource_type, wanted.resource_name, ctx)
        _must(Act.ALTER_CONFIGS, wanted.resource_type, wanted.resource_name, ctx)
        after = altered(ctx.cluster.configs, resource, changes)
        _must_exist(resource, ctx)
    except KafkaError as error:
        return _alter_row(wanted, error)
    if not validate_only:
        ctx.cluster.configs.put(resource, after)
    return _alter_row(wanted, None)


def _replace(wanted: ReplacedResource, ctx: Context, *, times: int, validate_only: bool) -> None:
    _must_be_named_once(times)
    configs = by_released_names(wanted.resource_type, wanted.configs, ctx)
    given = {config.name: config.value for config in configs if config.value is not None}
    nulls = [config.name for config in wanted.configs if config.value is None]
    _must_be_in_form([config.name for config in wanted.configs], nulls)
    resource = _checked(wanted.resource_type, wanted.resource_name, ctx)
    _must(Act.ALTER_CONFIGS, wanted.resource_type, wanted.resource_name, ctx)
    after = replaced(ctx.cluster.configs, resource, given)
    _must_exist(resource, ctx)
    if not validate_only:
        ctx.cluster.configs.put(resource, after)


def _must_be_named_once(times: int) -> None:
    if times > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def _must_be_in_form(names: list[str], nulls: list[str]) -> None:
    """Raises: INVALID_REQUEST for a key that comes twice and for values that are null."""
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def _must_exist(resource: Resource, ctx: Context) -> None:
    """Raises: UNKNOWN_TOPIC_OR_PARTITION; nothing else has to be there to be configured."""
    if resource.kind is ResourceKind.TOPIC and ctx.cluster.metadata.topic(resource.name) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")


def _nulls(wanted: AlterConfigsResource) -> list[str]:
    return [
        config.name for config in wanted.configs if config.value is None and config.config_operation != Operation.DELETE
    ]


def _changes(wanted: AlterConfigsResource, configs: Sequence[AlterableConfig]) -> list[ConfigChange]:
    """Raises: INVALID_REQUEST or UNKNOWN_SERVER_ERROR for an operation that does not exist."""
    changes = []
    for config in configs:
        if config.config_operation not in Operation._value2member_map_:
            # A broker looks at its own changes; of all others Kafka's controller makes a server error without words.
            if wanted.resource_type == ResourceKind.BROKER:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {config.config_operation}")
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        changes.append(ConfigChange(config.name, Operation(config.config_operation), config.value))
    return changes


def _alter_row(wanted: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    if error is None:
        return AlterConfigsResourceResponse(0, None, wanted.resource_type, wanted.resource_name)
    return AlterConfigsResourceResponse(error.code, error.message, wanted.resource_type, wanted.resource_name)
