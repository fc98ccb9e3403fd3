"""The cluster, its nodes and its clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.package_version import package_version
from mockbroker.control.models import clusters as models
from mockbroker.control.models.common import NoParameters
from mockbroker.control.operations import ClusterContext, ControlContext
from mockbroker.control.problems import ProblemError, ProblemKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from mockbroker.broker.node_views import NodeView


def get_cluster(control: ClusterContext, parameters: NoParameters) -> models.Cluster:
    """The cluster: addresses, release, profile, seed and nodes."""
    cluster = control.cluster
    return models.Cluster(
        bootstrap_servers=cluster.bootstrap_servers,
        bootstrap_controllers=cluster.run(lambda server: server.bootstrap_controllers()) or None,
        cluster_id=cluster.cluster_id,
        release=cluster.release,
        profile=cluster.profile,
        share_edition=cluster.share_edition,
        seed=cluster.seed,
        version=package_version(),
        nodes=list_nodes(control, parameters).nodes,
    )


def reset_cluster(control: ClusterContext, parameters: NoParameters) -> None:
    """Replace the cluster by a new one with the same options and addresses.

    Topics, records, groups, faults and history are those of a new cluster; the clock runs as the wall clock.
    """
    control.cluster.reset()


def shut_down(control: ControlContext, parameters: NoParameters) -> None:
    """End the process. Only for what the command `mockbroker` has started."""
    if control.shut_down is None:
        raise ProblemError(ProblemKind.CONFLICT, "the cluster belongs to a program, which stops it itself")
    control.shut_down()


def get_client_settings(control: ClusterContext, parameters: models.ClientSettingsParameters) -> models.ClientSettings:
    """The settings of a client of this cluster, by the names of its library."""
    settings = control.cluster.client_settings(parameters.library)
    plain = {
        name: value if isinstance(value, str | int | bool) or value is None else str(value)
        for name, value in settings.items()
    }
    return models.ClientSettings(library=parameters.library, settings=plain)


def list_nodes(control: ClusterContext, parameters: NoParameters) -> models.Nodes:
    """All nodes, those that are down included."""
    return models.Nodes(nodes=[node_model(view) for view in control.cluster.nodes()])


def list_listeners(control: ControlContext, parameters: NoParameters) -> models.Listeners:
    """Every listener of every node, with its bound and its advertised address."""
    rows = [
        models.Listener(
            node=view.node_id, name=view.name, protocol=view.protocol, bound=view.bound, advertised=view.advertised
        )
        for view in control.cluster.listeners()
    ]
    return models.Listeners(listeners=rows)


def get_node(control: ClusterContext, parameters: models.NodePath) -> models.Node:
    """A node."""
    for view in control.cluster.nodes():
        if view.node_id == parameters.node:
            return node_model(view)
    raise ProblemError(ProblemKind.NOT_FOUND, f"there is no node {parameters.node}")


def _change_node(control: ClusterContext, parameters: models.NodePath, change: Callable[[int], None]) -> models.Node:
    get_node(control, parameters)  # Which there must be.
    change(parameters.node)
    return get_node(control, parameters)


def stop_node(control: ClusterContext, parameters: models.NodePath) -> models.Node:
    """Stop a node cleanly: others become leaders, then its connections close."""
    return _change_node(control, parameters, control.cluster.stop_node)


def kill_node(control: ClusterContext, parameters: models.NodePath) -> models.Node:
    """Kill a node, as a power failure would."""
    return _change_node(control, parameters, control.cluster.kill_node)


def start_node(control: ClusterContext, parameters: models.NodePath) -> models.Node:
    """Start a node that is down, at its previous addresses."""
    return _change_node(control, parameters, control.cluster.start_node)


def restart_node(control: ClusterContext, parameters: models.NodePath, body: models.Restart) -> models.Node:
    """Stop a node, or kill it, and start it again later by the cluster's clock; answers at once."""

    def restart(node_id: int) -> None:
        control.cluster.restart_node(node_id, after_ms=body.after_ms, kill=body.kill)

    return _change_node(control, parameters, restart)


def pause_node(control: ClusterContext, parameters: models.NodePath) -> models.Node:
    """Let a node stand still: its connections stay open, and nothing is read, sent or timed."""
    return _change_node(control, parameters, control.cluster.pause_node)


def resume_node(control: ClusterContext, parameters: models.NodePath) -> models.Node:
    """Let a paused node go on."""
    return _change_node(control, parameters, control.cluster.resume_node)


def set_node_versions(control: ClusterContext, parameters: models.NodePath, body: models.NodeVersions) -> models.Node:
    """Let a node serve the API versions of an older Kafka on connections that are opened from now on."""
    control.cluster.set_node_versions(parameters.node, body.versions)
    return get_node(control, parameters)


def add_node(control: ClusterContext, parameters: NoParameters) -> models.Node:
    """Start one more node, until the cluster is reset."""
    return get_node(control, models.NodePath(node=control.cluster.add_node()))


def get_clock(control: ClusterContext, parameters: NoParameters) -> models.Clock:
    """The cluster's clock."""
    clock = control.cluster.clock
    return models.Clock(now_ms=clock.now_ms(), mode=clock.mode)


def freeze_clock(control: ClusterContext, parameters: NoParameters) -> models.Clock:
    """Freeze the clock: only `advance` moves it."""
    control.cluster.clock.freeze()
    return get_clock(control, parameters)


def resume_clock(control: ClusterContext, parameters: NoParameters) -> models.Clock:
    """Let the clock run as the wall clock again."""
    control.cluster.clock.thaw()
    return get_clock(control, parameters)


async def advance_clock(control: ClusterContext, parameters: NoParameters, body: models.ClockAdvance) -> models.Clock:
    """Move the clock forward; every deadline on the way runs before the answer.

    Where they take longer than the limit, the problem says how far the clock came, and it stays there.
    """
    await control.cluster.aio.advance_clock(body.duration_ms, timeout_s=body.timeout_ms / 1000)
    return await control.cluster.run_async(
        lambda server: models.Clock(now_ms=server.clock.now_ms(), mode=server.clock.mode)
    )


def automate_clock(control: ClusterContext, parameters: NoParameters, body: models.ClockAuto) -> models.Clock:
    """Let the clock jump to the next deadline whenever all clients wait."""
    control.cluster.clock.auto(settle_ms=body.settle_ms)
    return get_clock(control, parameters)


def node_model(view: NodeView) -> models.Node:
    """A node as it is sent."""
    return models.Node(
        node=view.node_id,
        state=view.state,
        is_controller=view.is_controller,
        rack=view.rack,
        endpoints=dict(view.endpoints),
    )
