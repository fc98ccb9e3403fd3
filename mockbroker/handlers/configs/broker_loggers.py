"""Loggers of a broker as a resource of the configuration APIs (type 8, KIP-412)."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.describe_configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from kwire.messages.incremental_alter_configs import AlterConfigsResource
from mockbroker.engine.context import Context
from mockbroker.handlers.configs.node_names import names_node
from mockbroker.handlers.shared.authorize import AclOperation, authorize_cluster
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.config_changes import ConfigChange, ConfigOperation
from mockbroker.state.metadata.configs import ConfigSource


def describe_loggers(resource: DescribeConfigsResource, ctx: Context) -> DescribeConfigsResult:
    """Return the levels of this broker's loggers; pinned by the conversation other-broker-loggers.

    Raises: INVALID_REQUEST for another broker, or none.
    """
    _require_this_broker(resource.resource_name, ctx)
    rows = [
        DescribeConfigsResourceResult(name=name, value=level, config_source=ConfigSource.BROKER_LOGGER)
        for name, level in ctx.node.loggers.levels(resource.configuration_keys).items()
    ]
    return DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, configs=rows
    )


def alter_loggers(resource: AlterConfigsResource, ctx: Context, *, validate_only: bool) -> None:
    """Set or unset levels; all changes of a resource are applied or none.

    Raises: CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST, INVALID_CONFIG, and UNKNOWN_SERVER_ERROR for an operation
    that does not exist, in releases that do not check it.
    """
    authorize_cluster(AclOperation.ALTER_CONFIGS, ctx)
    _require_this_broker(resource.resource_name, ctx)
    changes = []
    for config in resource.configs:
        if config.config_operation not in ConfigOperation._value2member_map_:
            if ctx.cluster.release.admin.checks_logger_operations:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{config.config_operation} is not an operation")
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        change = ConfigChange(config.name, ConfigOperation(config.config_operation), config.value)
        ctx.node.loggers.check_change(change)
        changes.append(change)
    if not validate_only:
        ctx.node.loggers.apply_changes(changes)


def _require_this_broker(name: str, ctx: Context) -> None:
    if not names_node(name, ctx.node.node_id):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is broker {ctx.node.node_id}, not {name!r}")
