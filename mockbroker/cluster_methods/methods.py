"""`ClusterMethods`: all methods of a cluster by their subjects; `SharedMethods`: those that a proxy has too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.cluster_methods.cluster_clock import AsyncClock, ClusterClock
from mockbroker.cluster_methods.faults import FaultMethods
from mockbroker.cluster_methods.groups import GroupMethods
from mockbroker.cluster_methods.history import AsyncHistory, HistoryMethods
from mockbroker.cluster_methods.nodes import AsyncNodes, NodeMethods
from mockbroker.cluster_methods.request_waits import AsyncRequestWaits, RequestWaits
from mockbroker.cluster_methods.topics import TopicMethods
from mockbroker.cluster_methods.waits import AsyncWaits, WaitMethods
from mockbroker.config.keys import ConfigError

if TYPE_CHECKING:
    from mockbroker.cluster_methods.cluster_tls import AsyncTls, ClusterTls
    from mockbroker.cluster_methods.oauth import ClusterOAuth
    from mockbroker.net.listener_views import ListenerView
    from mockbroker.security.client_security import Library
    from mockbroker.security.issued_certificates import IssuedCertificate


class SharedMethods(FaultMethods, HistoryMethods, RequestWaits):
    """Faults, history and waits for requests."""

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of every node, comma-separated, for `bootstrap.servers` of clients; of a proxy the first one."""
        return self._running().bootstrap()

    def listeners(self) -> list[ListenerView]:
        """Every listener of every node, with the address of its socket and the one that clients are given."""
        return self._read(lambda server: server.listeners())

    @property
    def share_edition(self) -> str | None:
        """The edition of share groups, None for that of the release, as always with a proxy."""
        return self._options.share_edition

    @property
    def aio(self) -> AsyncSharedMethods:
        """Waits and checks as coroutines, for asyncio."""
        return AsyncSharedMethods(self)


class AsyncSharedMethods(AsyncHistory, AsyncRequestWaits):
    """Methods as coroutines for asyncio, `await proxy.aio.wait_for_request("Produce")`.

    They do not block the event loop, so that clients in it go on. Arguments, results and errors are those of the
    methods with the same names.
    """

    def __init__(self, cluster: SharedMethods) -> None:
        AsyncHistory.__init__(self, cluster)
        AsyncRequestWaits.__init__(self, cluster)


class ClusterMethods(SharedMethods, GroupMethods, NodeMethods, TopicMethods, WaitMethods):
    """The methods of a cluster that runs in an event loop."""

    @property
    def bootstrap_controllers(self) -> str:
        """HOST:PORT of the controller's own listener, for `bootstrap.controllers` of clients.

        Raises: ConfigError if the cluster has none, since it was started without `controller_port`.
        """
        address = self._running().bootstrap_controllers()
        if not address:
            raise ConfigError("bootstrap_controllers: the cluster was started without controller_port")
        return address

    def client_settings(
        self, library: Library = "librdkafka", *, certificate: IssuedCertificate | None = None
    ) -> dict[str, object]:
        """The settings of a client of this cluster, by the names of its library: addresses, TLS, user and password.

        library: "librdkafka" (confluent-kafka), "kafka-python", "aiokafka" or "java". certificate: that it shows, of
        `tls.issue`, instead of the one that the cluster has for clients. Raises: ValueError for another library.
        """
        from mockbroker.security.client_security import ClientSecurity

        security = self._options.security or ClientSecurity()
        settings = security.client_settings(self.bootstrap_servers, library, certificate)
        if security.issuer is not None and security.sasl is not None and library in ("kafka-python", "aiokafka"):
            from mockbroker.cluster_methods import token_providers

            create = token_providers.kafka_python_provider
            create = create if library == "kafka-python" else token_providers.aiokafka_provider
            settings["sasl_oauth_token_provider"] = create(self.oauth, security.sasl.user)
        return settings

    @property
    def oauth(self) -> ClusterOAuth:
        """Tokens for clients, of a cluster with `sasl="OAUTHBEARER"`. Raises: RuntimeError for another."""
        from mockbroker.cluster_methods.oauth import ClusterOAuth

        return ClusterOAuth(self)

    @property
    def tls(self) -> ClusterTls:
        """The certificates of a cluster with `tls="auto"`. Raises: RuntimeError for another."""
        from mockbroker.cluster_methods.cluster_tls import ClusterTls

        return ClusterTls(self)

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
    def aio(self) -> AsyncMethods:
        """Waits, checks and methods for nodes as coroutines, for asyncio."""
        return AsyncMethods(self)

    @property
    def clock(self) -> ClusterClock:
        """The cluster's clock, to read and to move."""
        return ClusterClock(self)


class AsyncMethods(AsyncClock, AsyncNodes, AsyncSharedMethods, AsyncWaits):
    """Methods of a cluster as coroutines for asyncio, `await cluster.aio.wait_for_group("g")`.

    They do not block the event loop, so that clients in it go on. Arguments, results and errors are those of the
    methods of `Cluster` with the same names.
    """

    def __init__(self, cluster: ClusterMethods) -> None:
        self._cluster_methods = cluster
        AsyncClock.__init__(self, cluster)
        AsyncNodes.__init__(self, cluster)
        AsyncSharedMethods.__init__(self, cluster)

    @property
    def tls(self) -> AsyncTls:
        """As `Cluster.tls`."""
        from mockbroker.cluster_methods.cluster_tls import AsyncTls

        return AsyncTls(self._cluster_methods)
