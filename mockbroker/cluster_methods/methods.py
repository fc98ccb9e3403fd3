"""`ClusterMethods`: all methods of a cluster by their subjects, for `Cluster` and for the control over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.cluster_methods.cluster_clock import ClusterClock
from mockbroker.cluster_methods.faults import FaultMethods
from mockbroker.cluster_methods.groups import GroupMethods
from mockbroker.cluster_methods.history import HistoryMethods
from mockbroker.cluster_methods.nodes import AsyncNodes, NodeMethods
from mockbroker.cluster_methods.topics import TopicMethods
from mockbroker.cluster_methods.waits import AsyncWaits, WaitMethods

if TYPE_CHECKING:
    from mockbroker.security.client_security import Library


class ClusterMethods(FaultMethods, GroupMethods, HistoryMethods, NodeMethods, TopicMethods, WaitMethods):
    """The methods of a cluster that runs in an event loop."""

    def client_settings(self, library: Library = "librdkafka") -> dict[str, object]:
        """The settings of a client of this cluster, by the names of its library: addresses, TLS, user and password.

        library: "librdkafka" (confluent-kafka), "kafka-python", "aiokafka" or "java". Raises: ValueError for another.
        """
        from mockbroker.security.client_security import ClientSecurity

        return (self._options.security or ClientSecurity()).client_settings(self.bootstrap_servers, library)

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of every node, comma-separated, for `bootstrap.servers` of clients."""
        return self._running().bootstrap()

    @property
    def cluster_id(self) -> str:
        """The id of the cluster; another one after `reset`, unless it has a seed."""
        return self._read(lambda server: server.core.state.cluster_id)

    @property
    def release(self) -> str:
        """The release of Kafka that the cluster is, "4.4"."""
        return self._options.config.release

    @property
    def profile(self) -> str:
        """The profile of timers, "kafka" or "quick"."""
        return self._options.profile

    @property
    def share_edition(self) -> str | None:
        """The edition of share groups, None for that of the release."""
        return self._options.share_edition

    @property
    def aio(self) -> AsyncMethods:
        """Waits and methods for nodes as coroutines, for asyncio."""
        return AsyncMethods(self)

    @property
    def clock(self) -> ClusterClock:
        """The cluster's clock, to read and to move."""
        return ClusterClock(self)


class AsyncMethods(AsyncNodes, AsyncWaits):
    """Methods of a cluster as coroutines for asyncio, `await cluster.aio.wait_for_group("g")`: waits and nodes.

    They do not block the event loop, so that clients in it go on. Arguments, results and errors are those of the
    methods of `Cluster` with the same names.
    """

    def __init__(self, cluster: ClusterMethods) -> None:
        AsyncNodes.__init__(self, cluster)
        AsyncWaits.__init__(self, cluster)
