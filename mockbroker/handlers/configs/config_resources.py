"""ListConfigResources (74): the names of everything that can be configured."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.error_codes import ErrorCode
from kwire.messages.list_config_resources import ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, authorize_cluster
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.configs import ResourceKind

#: Before this version the API was ListClientMetricsResources.
_ALL_TYPES_SINCE = 1


def list_config_resources(request: ListConfigResourcesRequest, ctx: Context) -> Outcome:
    """List topics, brokers and their loggers, and configured groups and client-metrics subscriptions.

    Pinned by the conversation other-list-config-resources.
    """
    authorize_cluster(AclOperation.DESCRIBE_CONFIGS, ctx)
    served = tuple(ResourceKind) if ctx.api_version >= _ALL_TYPES_SINCE else (ResourceKind.CLIENT_METRICS,)
    for kind in request.resource_types:
        if kind not in served:
            why = f"type {kind} is not supported in version {ctx.api_version}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, why)
    kinds = [kind for kind in served if not request.resource_types or kind in request.resource_types]
    resources = [ConfigResource(name, kind) for kind in kinds for name in _resource_names(kind, ctx)]
    return Reply(ListConfigResourcesResponse(config_resources=resources))


def _resource_names(kind: ResourceKind, ctx: Context) -> Iterable[str]:
    if kind is ResourceKind.TOPIC:
        return (topic.name for topic in ctx.cluster.metadata.topics())
    if kind in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER):
        return (str(node_id) for node_id in ctx.cluster.nodes)
    return ctx.cluster.configs.configured_names(kind)
