"""API versions of single nodes, as in a cluster of which some nodes run an older release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.broker.cluster_state import NodeApis
from mockbroker.engine.routes import limit_routes
from mockbroker.kafka_error import KafkaError

if TYPE_CHECKING:
    from mockbroker.config.kafka_versions import ApiLimits
    from mockbroker.engine.core import Core


def limit_node(core: Core, node_id: int, limits: ApiLimits | None) -> None:
    """Serve the connections that a node accepts from now on these versions only; None: those of the cluster.

    Raises: BROKER_ID_NOT_REGISTERED for an unknown node, ConfigError as `limit_routes`.
    """
    state = core.state
    if not core.has_node(node_id):
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no node {node_id}")
    if limits is None:
        core.node_routes.pop(node_id, None)
        state.node_apis.pop(node_id, None)
        return
    routes = limit_routes(core.routes, limits)
    core.node_routes[node_id] = routes
    versions = {route.api_key: route.listed for route in routes.values()}
    state.node_apis[node_id] = NodeApis(versions, limits.limit_features(state.release.features))
