"""Restarts of nodes that take time, by the cluster's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.faults.cluster_control import ClusterControl
from mockbroker.kafka_error import KafkaError
from mockbroker.log.subjects import SERVER

if TYPE_CHECKING:
    from mockbroker.net.network_server import NetworkServer


def restart_node(server: NetworkServer, node_id: int, *, after_ms: int, is_abrupt: bool) -> None:
    """Stop or kill a node now, and start it again so many milliseconds later by the cluster's clock.

    A node that was started meanwhile is left alone; one that cannot start is logged.
    Raises: KafkaError if it is down, ValueError for a negative time.
    """
    if after_ms < 0:
        raise ValueError(f"after_ms: {after_ms}; a restart takes 0 or more milliseconds")
    (server.kill_node if is_abrupt else server.stop_node)(node_id)
    core = server.core
    stopped = core.stopped_node(node_id)
    control = ClusterControl(core, lambda: server)

    def start(_now_ms: int) -> None:
        if core.stopped_node(node_id) is not stopped:
            return
        try:
            control.start_node(node_id)
        except (KafkaError, OSError) as error:
            if isinstance(error, OSError):
                core.kill_node(node_id, core.now_ms)
            template = "node %(node)d does not start again after its restart: %(reason)s"
            SERVER.warning(template, about=str(node_id), node=node_id, reason=str(error))

    core.state.inter_broker.schedule(after_ms, start, now_ms=core.now_ms, owner=None)
    server.run_due()
