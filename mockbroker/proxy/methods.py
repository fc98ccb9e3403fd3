"""`ProxyMethods`: the methods of a proxy, for `Proxy` and for its control over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, cast

from mockbroker.cluster_methods.methods import SharedMethods

if TYPE_CHECKING:
    from mockbroker.proxy.proxy_server import ProxiedNode, ProxyServer


class ProxyMethods(SharedMethods):
    """The methods of a proxy that runs in an event loop."""

    @property
    def upstream(self) -> str:
        """HOST:PORT of the broker that the proxy was given."""
        return self._read(lambda server: str(cast("ProxyServer", server).bootstrap_endpoint))

    def nodes(self) -> list[ProxiedNode]:
        """The brokers of the cluster that the proxy knows, by their ids, each with its addresses on both sides."""
        return self._read(lambda server: cast("ProxyServer", server).proxied_nodes())

    def reset(self) -> NoReturn:
        """A proxy has nothing to reset. Raises: RuntimeError."""
        raise RuntimeError("a proxy cannot be reset: its state is that of the cluster behind it")
