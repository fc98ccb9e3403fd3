"""The loggers of a broker as a resource of the configuration APIs (type 8, KIP-412)."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.describe_configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from kwire.messages.incremental_alter_configs import AlterConfigsResource
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.security.authorize import CLUSTER_NAME, ResourceType, must
from mockbroker.security.authorize import Operation as Act
from mockbroker.state.config_changes import ConfigChange, Operation
from mockbroker.state.configs import Source


def describe_loggers(wanted: DescribeConfigsResource, ctx: Context) -> DescribeConfigsResult:
    """Tell the levels of this broker's loggers; pinned by the conversation other-broker-loggers.

    Raises: INVALID_REQUEST for another broker, or none.
    """
    _must_be_this_broker(wanted.resource_name, ctx)
    levels = ctx.node.loggers.levels(wanted.configuration_keys)
    return DescribeConfigsResult(
        resource_type=wanted.resource_type,
        resource_name=wanted.resource_name,
        configs=[
            DescribeConfigsResourceResult(name=name, value=level, config_source=Source.BROKER_LOGGER)
            for name, level in levels.items()
        ],
    )


def alter_loggers(wanted: AlterConfigsResource, ctx: Context, *, validate_only: bool) -> None:
    """Set or unset levels; a resource changes as a whole or not at all.

    Raises: CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST, INVALID_CONFIG, and UNKNOWN_SERVER_ERROR for an operation
    that does not exist, as 4.3.0 does.
    """
    must(Act.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME, ctx)
    _must_be_this_broker(wanted.resource_name, ctx)
    changes = []
    for config in wanted.configs:
        if config.config_operation not in Operation._value2member_map_:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        changes.append(ConfigChange(config.name, Operation(config.config_operation), config.value))
    ctx.node.loggers.check(changes)
    if not validate_only:
        ctx.node.loggers.apply(changes)


def _must_be_this_broker(name: str, ctx: Context) -> None:
    if name != str(ctx.node.node_id):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is broker {ctx.node.node_id}, not {name!r}")
