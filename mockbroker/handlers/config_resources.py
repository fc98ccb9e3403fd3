"""ListConfigResources (74): everything that can be configured, by name."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.error_codes import ErrorCode
from kwire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, must
from mockbroker.state.configs import ResourceKind

#: Before, this API was ListClientMetricsResources.
_ALL_TYPES_SINCE = 1


def list_config_resources(request: ListConfigResourcesRequest, ctx: Context) -> Outcome:
    """Tell topics, brokers and their loggers, and the groups and client-metrics subscriptions that are configured.

    Pinned by the conversation other-list-config-resources.
    """
    must(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME, ctx)
    served = tuple(ResourceKind) if ctx.api_version >= _ALL_TYPES_SINCE else (ResourceKind.CLIENT_METRICS,)
    for kind in request.resource_types:
        if kind not in served:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"type {kind} is none of version {ctx.api_version}")
    wanted = [kind for kind in served if not request.resource_types or kind in request.resource_types]
    return Reply(
        ListConfigResourcesResponse(
            config_resources=[ConfigResource(name, kind) for kind in wanted for name in _names(kind, ctx)]
        )
    )


def _names(kind: ResourceKind, ctx: Context) -> Iterable[str]:
    if kind is ResourceKind.TOPIC:
        return (topic.name for topic in ctx.cluster.metadata.topics())
    if kind in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER):
        return (str(node_id) for node_id in ctx.cluster.nodes)
    return ctx.cluster.configs.names(kind)
