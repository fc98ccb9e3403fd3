"""DescribeConfigs (32), AlterConfigs (33) and IncrementalAlterConfigs (44)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from msgspec import structs

from kwire.error_codes import ErrorCode
from kwire.messages import alter_configs as replace
from kwire.messages import describe_configs as describe
from kwire.messages import incremental_alter_configs as incremental
from mockbroker.config.keys import Scope
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.configs.broker_loggers import alter_loggers, describe_loggers
from mockbroker.handlers.configs.node_names import NODE_ID_MAX, names_node, parse_node_id
from mockbroker.handlers.configs.resource_changes import Change, ControllerFailure, alter_each
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, authorize_cluster
from mockbroker.kafka_error import KafkaError
from mockbroker.state.java.hash_order import JavaMap
from mockbroker.state.metadata import config_entries
from mockbroker.state.metadata.broker_threads import check_broker_threads
from mockbroker.state.metadata.cluster_image import validate_topic_name
from mockbroker.state.metadata.config_changes import (
    ConfigChange,
    ConfigOperation,
    apply_changes,
    replace_config,
    require_list,
)
from mockbroker.state.metadata.config_entries import ConfigEntry
from mockbroker.state.metadata.configs import Resource, ResourceKind
from mockbroker.state.metadata.record_limit import count_config_records
from mockbroker.state.metadata.topics import java_hash


class _Resource(Protocol):
    resource_type: int
    resource_name: str


C = TypeVar("C", incremental.AlterableConfig, replace.AlterableConfig)
Q = TypeVar("Q", incremental.AlterConfigsResource, replace.AlterConfigsResource)
R = TypeVar("R")

_SCOPES = {
    ResourceKind.TOPIC: Scope.TOPIC,
    ResourceKind.BROKER: Scope.BROKER,
    ResourceKind.GROUP: Scope.GROUP,
    ResourceKind.CLIENT_METRICS: Scope.CLIENT_METRICS,
}
#: Types with permissions of their own.
_RESOURCE_NAMES: Mapping[int, str] = {ResourceKind.TOPIC: "topic", ResourceKind.GROUP: "group"}
#: Types whose resources Kafka describes only by name.
_KINDS_WITH_NAME = (ResourceKind.GROUP, ResourceKind.CLIENT_METRICS)


def describe_configs(request: describe.DescribeConfigsRequest, ctx: Context) -> Outcome:
    """Return effective configuration.

    Pinned by the conversations other-describe-configs, other-client-metrics-configs, share-config-describe and
    other-broker-settings-inherited.
    """
    for resource in request.resources:
        if resource.resource_type not in ResourceKind._value2member_map_:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource.resource_type}")
    rows = [_describe_resource(row, request, ctx) for row in request.resources]
    return Reply(describe.DescribeConfigsResponse(results=rows))


def refuse_describe_configs(
    request: describe.DescribeConfigsRequest, error: KafkaError
) -> describe.DescribeConfigsResponse:
    """A response with the error in every row."""
    return describe.DescribeConfigsResponse(
        results=_error_rows(request.resources, error, describe.DescribeConfigsResult)
    )


def alter_configs(request: replace.AlterConfigsRequest, ctx: Context) -> Outcome:
    """Replace the whole configuration of resources: keys that a row does not list return to their defaults.

    A 4.3.0 broker never responds when a resource is listed twice; here both rows are rejected.
    Pinned by the conversations other-legacy-alter-configs*.
    """
    plan = partial(_plan_replacement, ctx=ctx)
    rows = alter_each(
        request.resources, plan, replace.AlterConfigsResourceResponse, ctx, validate_only=request.validate_only
    )
    return Reply(replace.AlterConfigsResponse(responses=rows))


def refuse_alter_configs(request: replace.AlterConfigsRequest, error: KafkaError) -> replace.AlterConfigsResponse:
    """A response with the error in every row."""
    rows = _error_rows(request.resources, error, replace.AlterConfigsResourceResponse)
    return replace.AlterConfigsResponse(responses=rows)


def incremental_alter_configs(request: incremental.IncrementalAlterConfigsRequest, ctx: Context) -> Outcome:
    """Change configuration; with validate_only only check it. All changes of a resource apply or none.

    Pinned by the conversations other-alter-configs, share-config-bounds and share-config-cross-check.
    """
    plan = partial(_plan_changes, ctx=ctx, validate_only=request.validate_only)
    rows = alter_each(
        request.resources, plan, incremental.AlterConfigsResourceResponse, ctx, validate_only=request.validate_only
    )
    return Reply(incremental.IncrementalAlterConfigsResponse(responses=rows))


def refuse_incremental_alter_configs(
    request: incremental.IncrementalAlterConfigsRequest, error: KafkaError
) -> incremental.IncrementalAlterConfigsResponse:
    """A response with the error in every row."""
    rows = _error_rows(request.resources, error, incremental.AlterConfigsResourceResponse)
    return incremental.IncrementalAlterConfigsResponse(responses=rows)


def _error_rows(
    resources: Sequence[_Resource], error: KafkaError, row_class: Callable[[int, str | None, int, str], R]
) -> list[R]:
    return [row_class(error.code, error.message, row.resource_type, row.resource_name) for row in resources]


def _describe_resource(
    row: describe.DescribeConfigsResource, request: describe.DescribeConfigsRequest, ctx: Context
) -> describe.DescribeConfigsResult:
    try:
        _require_permission(AclOperation.DESCRIBE_CONFIGS, row.resource_type, row.resource_name, ctx)
        if row.resource_type == ResourceKind.BROKER_LOGGER:
            return describe_loggers(row, ctx)
        resource = _parse_resource(row.resource_type, row.resource_name, ctx)
        if resource.kind in _KINDS_WITH_NAME and not resource.name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{resource.kind.name}: the name must not be empty")
        if resource.kind is ResourceKind.TOPIC:
            validate_topic_name(resource.name)
            if ctx.cluster.metadata.topic(resource.name) is None:
                # Kafka returns the code without a message.
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    except KafkaError as error:
        return _error_rows([row], error, describe.DescribeConfigsResult)[0]
    source = ctx.cluster.config_api_dialect or config_entries
    entries = source.describe_entries(ctx.cluster.configs, resource, row.configuration_keys, ctx.node.node_id)
    texts = _documentation(resource.kind) if request.include_documentation else {}
    rows = [_entry_row(entry, texts.get(entry.name), synonyms=request.include_synonyms) for entry in entries]
    return describe.DescribeConfigsResult(
        resource_type=row.resource_type, resource_name=row.resource_name, configs=rows
    )


def _documentation(kind: ResourceKind) -> Mapping[str, str]:
    """The text of each configuration of a resource type, by name; loaded only when a client requests it."""
    from mockbroker.config.config_docs import config_docs

    return config_docs(_SCOPES[kind])


def _entry_row(
    entry: ConfigEntry, documentation: str | None, *, synonyms: bool
) -> describe.DescribeConfigsResourceResult:
    listed = entry.synonyms if synonyms else ()
    return describe.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[describe.DescribeConfigsSynonym(row.name, row.value, row.source) for row in listed],
        config_type=entry.type,
        documentation=documentation,
    )


def _require_permission(operation: AclOperation, resource_type: int, name: str, ctx: Context) -> None:
    """Check the permission for a configuration; brokers' configuration needs it on the cluster.

    Raises: TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED.
    """
    message = f"Authorization failed: {operation.name} of {_RESOURCE_NAMES.get(resource_type, 'the cluster')}"
    message += f" {name} is not allowed." if resource_type in _RESOURCE_NAMES else " is not allowed."
    if resource_type == ResourceKind.TOPIC:
        authorize(operation, ResourceType.TOPIC, name, ctx, message=message)
    elif resource_type == ResourceKind.GROUP:
        authorize(operation, ResourceType.GROUP, name, ctx, message=message)
    else:
        authorize_cluster(operation, ctx, message=message)


def _authorize_broker_first(resource_type: int, ctx: Context) -> None:
    """Raises: CLUSTER_AUTHORIZATION_FAILED without a text."""
    if resource_type == ResourceKind.BROKER and ctx.cluster.release.admin.authorizes_broker_first:
        authorize_cluster(AclOperation.ALTER_CONFIGS, ctx)


def _parse_resource(resource_type: int, name: str, ctx: Context) -> Resource:
    """The resource that a request names. A broker accepts requests only for itself.

    Raises: INVALID_REQUEST for other types and other brokers.
    """
    if resource_type in (ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLIENT_METRICS):
        return Resource(ResourceKind(resource_type), name)
    if resource_type == ResourceKind.BROKER:
        if name and not names_node(name, ctx.node.node_id):
            why = f"this is broker {ctx.node.node_id}; {name!r} is neither its id nor empty"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        return Resource(ResourceKind.BROKER, name)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource_type}")


def _parse_altered_resource(resource_type: int, name: str, ctx: Context) -> Resource:
    """The resource that a request changes. The controller accepts requests for every registered broker.

    Raises: INVALID_REQUEST, BROKER_ID_NOT_REGISTERED.
    """
    if resource_type != ResourceKind.BROKER or not name or not ctx.is_at_controller:
        return _parse_resource(resource_type, name, ctx)
    node_id = parse_node_id(name)
    if node_id is None or node_id < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name!r} is no broker id, a number from 0 to {NODE_ID_MAX}")
    controller = ctx.cluster.controller
    if node_id not in ctx.cluster.nodes and (controller is None or node_id not in controller.fenced):
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {name}")
    return Resource(ResourceKind.BROKER, name)


def _plan_changes(row: incremental.AlterConfigsResource, ctx: Context, *, validate_only: bool) -> Change:
    if row.resource_type == ResourceKind.BROKER_LOGGER:
        alter_loggers(row, ctx, validate_only=validate_only)
        return Change(lambda: None)
    _authorize_broker_first(row.resource_type, ctx)
    configs = _to_released_names(row.resource_type, row.configs, ctx)
    resource = _parse_altered_resource(row.resource_type, row.resource_name, ctx)
    _require_permission(AclOperation.ALTER_CONFIGS, row.resource_type, row.resource_name, ctx)
    after = apply_changes(ctx.cluster.configs, resource, _parse_changes(resource, configs, ctx))
    return _plan_override(resource, after, [config.name for config in configs], ctx)


def _plan_replacement(row: replace.AlterConfigsResource, ctx: Context) -> Change:
    configs = _to_released_names(row.resource_type, row.configs, ctx)
    given = {config.name: config.value for config in configs if config.value is not None}
    _authorize_broker_first(row.resource_type, ctx)
    resource = _parse_altered_resource(row.resource_type, row.resource_name, ctx)
    _require_permission(AclOperation.ALTER_CONFIGS, row.resource_type, row.resource_name, ctx)
    return _plan_override(resource, replace_config(ctx.cluster.configs, resource, given), list(given), ctx)


def _plan_override(resource: Resource, after: Mapping[str, str], named: Sequence[str], ctx: Context) -> Change:
    if resource.kind is ResourceKind.BROKER and not ctx.is_at_controller:
        listeners = ctx.node.listener_names()
        check_broker_threads(ctx.cluster.configs, ctx.node.node_id, resource, after, listeners=listeners)
        if resource.name and ctx.cluster.key_stores is not None:
            ctx.cluster.key_stores.check_change(ctx.node.node_id, after)
    _require_topic_exists(resource, ctx)
    configs = ctx.cluster.configs
    count = count_config_records(resource, configs.overrides(resource), after, named, has_elr=configs.elr)
    return Change(lambda: configs.set_overrides(resource, after), count)


def _to_released_names(resource_type: int, configs: Sequence[C], ctx: Context) -> Sequence[C]:
    """The configurations of a request by their released names. Raises: see `ConfigApiNames`."""
    dialect = ctx.cluster.config_api_dialect
    if dialect is None:
        return configs
    names = dialect.to_released_names(resource_type, [(config.name, config.value) for config in configs])
    return [structs.replace(config, name=name) for config, name in zip(configs, names, strict=True)]


def _require_topic_exists(resource: Resource, ctx: Context) -> None:
    """Raises: UNKNOWN_TOPIC_OR_PARTITION; other resources need not exist to be configured."""
    if resource.kind is ResourceKind.TOPIC and ctx.cluster.metadata.topic(resource.name) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")


def _parse_changes(
    resource: Resource, configs: Sequence[incremental.AlterableConfig], ctx: Context
) -> list[ConfigChange]:
    """The changes of a resource, in the order of Kafka's controller: that of a Java map of their names.

    A broker rejects an operation that does not exist before it looks at anything else of its own changes. With other
    resources Kafka's controller fails at such an operation, unless it has found a key before that is no list.
    Raises: INVALID_REQUEST, INVALID_CONFIG, ControllerFailure. Source: Kafka's ConfigurationControlManager; pinned by
    the conversations other-alter-configs-operations*.
    """
    by_name = JavaMap[str, incremental.AlterableConfig](java_hash)
    for config in configs:
        by_name[config.name] = config
        if resource.kind is ResourceKind.BROKER and not ctx.is_at_controller and not _is_operation(config):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {config.config_operation}")
    changes = []
    for name in by_name:
        config = by_name[name]
        if not _is_operation(config):
            raise ControllerFailure(ErrorCode.UNKNOWN_SERVER_ERROR)
        change = ConfigChange(name, ConfigOperation(config.config_operation), config.value)
        require_list(ctx.cluster.configs, resource, change)
        if change.value is None and change.operation is ConfigOperation.SET:
            change = structs.replace(change, operation=ConfigOperation.DELETE)
        elif change.value is None and change.operation is not ConfigOperation.DELETE:
            raise ControllerFailure(ErrorCode.UNKNOWN_SERVER_ERROR)
        changes.append(change)
    return changes


def _is_operation(config: incremental.AlterableConfig) -> bool:
    return config.config_operation in ConfigOperation._value2member_map_
