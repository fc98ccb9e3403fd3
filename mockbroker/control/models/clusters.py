"""Bodies of the cluster, its nodes and its clock."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mockbroker.broker.node_views import NodeState
from mockbroker.clock import ClockMode
from mockbroker.cluster_methods.cluster_clock import MOVE_MS_MAX, MOVE_TIMEOUT_S
from mockbroker.cluster_methods.nodes import RESTART_MS
from mockbroker.control.models.common import WAIT_MS_MAX, RequestModel, ResponseModel


class Node(ResponseModel, frozen=True):
    """A node. endpoints: HOST:PORT by the name of the listener."""

    node: int
    state: NodeState
    is_controller: bool
    rack: str | None
    endpoints: dict[str, str]


class Nodes(ResponseModel, frozen=True):
    """All nodes by their ids."""

    nodes: list[Node]


class Cluster(ResponseModel, frozen=True):
    """A cluster. bootstrapServers: for clients. bootstrapControllers: null without a listener of the controller.

    seed: null without one. version: of mockbroker.
    """

    bootstrap_servers: str
    bootstrap_controllers: str | None
    cluster_id: str
    release: str
    profile: str
    share_edition: str | None
    seed: int | None
    version: str
    nodes: list[Node]


class ClientSettings(ResponseModel, frozen=True):
    """Settings of a client by the names of its library."""

    library: str
    settings: dict[str, str | int | bool | None]


class ClientSettingsParameters(RequestModel, frozen=True):
    """library: whose names the settings have."""

    library: Literal["librdkafka", "kafka-python", "aiokafka", "java"] = "librdkafka"


class NodePath(RequestModel, frozen=True):
    """node: the id of a node."""

    node: int


class NodeVersions(RequestModel, frozen=True):
    """versions: a release, "2.8", or the last version by the name of the API, -1 for none; null for all versions."""

    versions: str | dict[str, int] | None


class Restart(RequestModel, frozen=True):
    """afterMs: how long the node is down, by the cluster's clock. kill: as a power failure."""

    after_ms: Annotated[int, msgspec.Meta(ge=0, le=MOVE_MS_MAX)] = RESTART_MS
    kill: bool = False


class Listener(ResponseModel, frozen=True):
    """A listener of a node. bound: HOST:PORT of its socket. advertised: HOST:PORT that clients are given."""

    node: int
    name: str
    protocol: str
    bound: str
    advertised: str


class Listeners(ResponseModel, frozen=True):
    """All listeners by their nodes."""

    listeners: list[Listener]


class Clock(ResponseModel, frozen=True):
    """The cluster's clock. nowMs: milliseconds since 1970."""

    now_ms: int
    mode: ClockMode


class ClockAdvance(RequestModel, frozen=True):
    """durationMs: how far the clock moves; each deadline on the way runs at its own time. timeoutMs: for all of them,
    of the wall clock."""

    duration_ms: Annotated[int, msgspec.Meta(ge=0, le=MOVE_MS_MAX)]
    timeout_ms: Annotated[int, msgspec.Meta(ge=0, le=WAIT_MS_MAX)] = round(MOVE_TIMEOUT_S * 1000)


class ClockAuto(RequestModel, frozen=True):
    """settleMs: how long no request may arrive before the clock jumps, milliseconds of the wall clock."""

    settle_ms: Annotated[int, msgspec.Meta(ge=0, le=60_000)] = 10
