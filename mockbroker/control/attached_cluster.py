"""`AttachedCluster`: the methods of a cluster that runs in an event loop which somebody else has started."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from mockbroker.cluster_methods.methods import ClusterMethods

if TYPE_CHECKING:
    from mockbroker.server import Server


class AttachedCluster(ClusterMethods):
    """Created in the thread and the event loop of a server that was started; its methods are called from others."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.options)
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._thread = threading.current_thread()
