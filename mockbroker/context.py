"""What a handler knows beside its request: who asks, on which node, and what time it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mockbroker.kept import Kept
from mockbroker.state.share_rules import RELEASED, ShareRules

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from mockbroker.calls import Calls
    from mockbroker.config import BrokerConfig
    from mockbroker.controller import Controller
    from mockbroker.coordinators.edition_records import EditionRecords
    from mockbroker.node import Node
    from mockbroker.outcome import Key
    from mockbroker.routes import Route
    from mockbroker.security.rooms import Security
    from mockbroker.state.authorizer import Authorizer
    from mockbroker.state.configs import Configs
    from mockbroker.state.logs import LogStore
    from mockbroker.state.metadata import Metadata


#: Who has not said who he is.
ANONYMOUS = "User:ANONYMOUS"


class ConnectionInfo(msgspec.Struct):
    """One client connection, as the node that accepted it sees it.

    host, port: the client's address. listener: the name of the listener it came in by, and protocol what that speaks.
    principal: who it is, "User:alice". is_token: whether it logged in by a delegation token.
    software_name, software_version: what ApiVersions v3+ said of the client, "" until then.
    """

    id: int
    node_id: int
    host: str
    port: int
    listener: str = "PLAINTEXT"
    principal: str = ANONYMOUS
    protocol: str = "PLAINTEXT"
    is_token: bool = False
    software_name: str = ""
    software_version: str = ""


class ClusterState(msgspec.Struct):
    """What every node knows: the controller's image, the configuration, and the way to other nodes.

    nodes: the brokers that clients are told of, in order of their ids; those that run are `calls.nodes`.
    store: all logs, which have a timer of their own; a node reaches those that it leads by its `logs`.
    routes: the APIs that are served, by key. security: users, and what listeners demand of
    them. rules: what the edition of KIP-932 decides about share groups. records: in which it keeps them, None for the
    released ones.
    """

    cluster_id: str
    config: BrokerConfig
    configs: Configs
    metadata: Metadata
    features: dict[str, int]
    nodes: dict[int, Node]
    calls: Calls
    rng: random.Random
    wake: Callable[[Key], None]
    routes: Mapping[int, Route]
    security: Security
    rules: ShareRules = RELEASED
    records: EditionRecords | None = None
    authorizer: Authorizer | None = None
    store: LogStore | None = None
    controller: Controller | None = None
    kept: Kept = msgspec.field(default_factory=Kept)
    keys_made: int = 0

    def new_key(self) -> Key:
        """A wake key that nobody else has: what a request parks on until its own work is done."""
        self.keys_made += 1
        return ("done", self.keys_made)


class Context(msgspec.Struct):
    """One run of a handler or of a `resume`.

    now_ms: milliseconds of the cluster's clock. api_version: the version of the request, and so of its response.
    client_host: as Kafka writes it in group descriptions, "/127.0.0.1".
    """

    now_ms: int
    api_version: int
    client_id: str | None
    connection: ConnectionInfo
    node: Node
    cluster: ClusterState

    @property
    def client_host(self) -> str:
        """The client's address in the form of Java's InetAddress, "/127.0.0.1"."""
        return f"/{self.connection.host}"

    @property
    def rng(self) -> random.Random:
        """The cluster's seeded source of chance."""
        return self.cluster.rng

    def wake(self, key: Key) -> None:
        """Have whoever waits for this key look again, after this handler has returned."""
        self.cluster.wake(key)

    def new_key(self) -> Key:
        """A wake key that nobody else has."""
        return self.cluster.new_key()
