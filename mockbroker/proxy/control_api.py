"""`PROXY_API`: the control over HTTP of a proxy, with the operations that it shares with clusters."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kwire.package_version import package_version
from mockbroker.control.models.common import NoParameters, RequestModel, ResponseModel
from mockbroker.control.operations import ControlApi, ControlContext, Operation
from mockbroker.control.routes import SHARED_OPERATIONS
from mockbroker.faults.cluster_model import ClusterFault
from mockbroker.faults.model import Fault
from mockbroker.proxy.methods import ProxyMethods


@dataclass(frozen=True, slots=True)
class ProxyContext(ControlContext):
    """What the functions of operations act on that only a proxy has."""

    cluster: ProxyMethods


class ProxiedNode(ResponseModel, frozen=True):
    """A broker of the cluster behind the proxy. address: HOST:PORT for clients. upstream: HOST:PORT of the broker."""

    node: int
    address: str
    upstream: str


class ProxiedCluster(ResponseModel, frozen=True):
    """A cluster behind a proxy. bootstrapServers: for clients. upstream: HOST:PORT of the broker that was given.

    seed: of the faults' random choices; null without one. version: of mockbroker. nodes: those that the proxy has
    learned of.
    """

    bootstrap_servers: str
    upstream: str
    seed: int | None
    version: str
    nodes: list[ProxiedNode]


def get_proxied_cluster(control: ProxyContext, parameters: NoParameters) -> ProxiedCluster:
    """The cluster behind the proxy: addresses on both sides, and nodes."""
    proxy = control.cluster
    return ProxiedCluster(
        bootstrap_servers=proxy.bootstrap_servers,
        upstream=proxy.upstream,
        seed=proxy.seed,
        version=package_version(),
        nodes=[ProxiedNode(node=row.node_id, address=row.address, upstream=row.upstream) for row in proxy.nodes()],
    )


class RequestFaults(RequestModel, frozen=True):
    """Several faults of requests and connections: a proxy has no nodes of its own."""

    faults: tuple[Fault, ...] = ()


def _describe_for_proxy(operation: Operation) -> Operation:
    """The operation without faults of nodes in its description."""
    if ClusterFault not in operation.body_types:
        return operation
    return replace(operation, body_types=(Fault, RequestFaults))


PROXY_API = ControlApi(
    (
        Operation("GET", "/v1/cluster", get_proxied_cluster, "cluster"),
        *map(_describe_for_proxy, SHARED_OPERATIONS),
    ),
    ProxyContext,
    ("request", "exchange", "fault"),
    "Controls a mockbroker proxy: faults of requests, waits for requests, and the history of requests. Errors are "
    "problems by RFC 9457, with a `type` that stays the same.",
    absent="a proxy does not have this, since it has no nodes, topics, groups and clock of its own",
)
