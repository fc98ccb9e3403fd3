"""Clusters that tests of another process request: start one, stop and start its nodes, stop it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from mockbroker import Cluster
from mockbroker.kafka_error import KafkaError

#: The host of all listeners, as Kafka's own test clusters have it: some tests compare it.
HOST = "localhost"
#: The release of Kafka whose tests run.
RELEASE = "4.3"


class ClusterRequest(NamedTuple):
    """The cluster that a test requests. node_properties: in addition to `properties`, by node."""

    nodes: int = 1
    properties: Mapping[str, str] = {}
    node_properties: Mapping[int, Mapping[str, str]] = {}
    features: Mapping[str, int] = {}


class RunningCluster(Protocol):
    """A cluster outside of the tests' process."""

    def addresses(self) -> dict[int, str]:
        """HOST:PORT of each node, stopped nodes included."""
        ...

    def stop_node(self, node: int) -> None:
        """Stop a node cleanly."""
        ...

    def start_node(self, node: int) -> None:
        """Start a stopped node again, at the same address."""
        ...

    def close(self) -> None:
        """End the cluster with all its processes."""
        ...


class StartCluster(Protocol):
    """Starts the cluster of a request. Raises: OSError, RuntimeError or ValueError if it does not start."""

    def __call__(self, request: ClusterRequest) -> RunningCluster: ...


class MockCluster:
    """A cluster of mockbroker in a thread of this process, on ports that the system chooses."""

    def __init__(self, request: ClusterRequest) -> None:
        features = [f"{name}={level}" for name, level in request.features.items()]
        properties = {
            # As in Kafka's own test clusters: memory for one cleaner thread.
            "log.cleaner.dedupe.buffer.size": "2097152",
            **request.properties,
            "listeners": f"PLAINTEXT://{HOST}:0",
            # Some tests expect that a coordinator is not available before its topic exists.
            "mockbroker.cold.coordinators": "true",
        }
        self._cluster = Cluster(nodes=request.nodes, properties=properties, features=features, release=RELEASE).start()

    def addresses(self) -> dict[int, str]:
        """HOST:PORT of each node, stopped nodes included."""
        return dict(enumerate(self._cluster.bootstrap_servers.split(",")))

    def stop_node(self, node: int) -> None:
        """Stop a node cleanly."""
        self._cluster.stop_node(node)

    def start_node(self, node: int) -> None:
        """Start a stopped node again, at the same address."""
        self._cluster.start_node(node)

    def close(self) -> None:
        """End the cluster."""
        self._cluster.stop()


class ClusterControl:
    """Carries out the commands that tests send for their cluster, one cluster at a time."""

    def __init__(self, start: StartCluster) -> None:
        self._start = start
        self._cluster: RunningCluster | None = None

    def carry_out(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out {"cluster": "start" | "stop" | "stop-node" | "start-node", ...}.

        Returns: {"addresses": {node: HOST:PORT}}, {} after "stop", or {"error": text} when it failed.
        """
        try:
            self._run(message)
        except (OSError, RuntimeError, ValueError, LookupError, KafkaError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        if self._cluster is None:
            return {}
        return {"addresses": self._cluster.addresses()}

    def _run(self, message: Mapping[str, Any]) -> None:
        command = message["cluster"]
        if command == "start":
            self.close()
            self._cluster = self._start(_read_request(message))
        elif self._cluster is None:
            raise RuntimeError("no cluster is running")
        elif command == "stop":
            self.close()
        elif command == "stop-node":
            self._cluster.stop_node(message["node"])
        elif command == "start-node":
            self._cluster.start_node(message["node"])
        else:
            raise ValueError(f"{command!r} is not a command")

    def close(self) -> None:
        """End the cluster, if one is running."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()


def _read_request(message: Mapping[str, Any]) -> ClusterRequest:
    node_properties = {int(node): values for node, values in message["node_properties"].items()}
    return ClusterRequest(message["nodes"], message["properties"], node_properties, message["features"])
