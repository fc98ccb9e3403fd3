"""`Context`: what a request handler receives with its request: time, connection, node and cluster state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.broker.node import Node
    from mockbroker.cluster_services.cluster_services import WakeKey
    from mockbroker.engine.request_throttle import RequestThrottle
    from mockbroker.kafka_error import KafkaError


#: The principal of a client that has not authenticated.
ANONYMOUS = "User:ANONYMOUS"


class ConnectionInfo(msgspec.Struct):
    """One client connection, as the node that accepted it sees it.

    host, port: the client's address. listener: the name of the listener that accepted it, and protocol that one's
    security protocol. principal: the client, "User:alice". is_token: whether it logged in with a delegation token.
    software_name, software_version: as sent in ApiVersions v3+, "" until then. client: its address as "host:port".
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
    client: str = ""

    def __post_init__(self) -> None:
        self.client = f"{self.host}:{self.port}"


class Context(msgspec.Struct):
    """The circumstances of one run of a handler or of a `resume`.

    now_ms: milliseconds of the cluster's clock. api_version: the version of the request, and so of its response.
    client_host: as Kafka writes it in group descriptions, "/127.0.0.1". partition_errors: errors that a fault gives to
    partitions (id of the topic, index) in this request. throttle: counts what it uses of quotas, None without any.
    """

    now_ms: int
    api_version: int
    client_id: str | None
    connection: ConnectionInfo
    node: Node
    cluster: ClusterState
    partition_errors: Mapping[tuple[bytes, int], KafkaError] | None = None
    throttle: RequestThrottle | None = None

    def check_partition(self, topic_id: bytes, partition_index: int) -> None:
        """Raises: KafkaError where a fault gives an error to this partition."""
        if self.partition_errors is not None and (topic_id, partition_index) in self.partition_errors:
            raise self.partition_errors[topic_id, partition_index]

    @property
    def client_host(self) -> str:
        """The client's address in the form of Java's InetAddress, "/127.0.0.1"."""
        return f"/{self.connection.host}"

    @property
    def is_at_controller(self) -> bool:
        """Whether the request came by the listener of the controller."""
        endpoint = self.cluster.controller_endpoint
        return endpoint is not None and endpoint.listener == self.connection.listener

    @property
    def rng(self) -> random.Random:
        """The cluster's seeded random generator."""
        return self.cluster.rng

    def wake(self, key: WakeKey) -> None:
        """Resume the requests that wait for this key, after this handler has returned."""
        self.cluster.wake(key)

    def new_wake_key(self) -> WakeKey:
        """A wake key that is used nowhere else."""
        return self.cluster.new_wake_key()
