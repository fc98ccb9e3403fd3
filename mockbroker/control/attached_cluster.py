"""`AttachedCluster`: the methods of a cluster that runs in an event loop which somebody else has started."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from mockbroker.cluster_methods.cluster_thread import ClusterThread
from mockbroker.cluster_methods.methods import ClusterMethods
from mockbroker.control.deferred_control import DeferredControl

if TYPE_CHECKING:
    from mockbroker.cluster_methods.methods import SharedMethods
    from mockbroker.control.operations import ControlApi
    from mockbroker.control.options import ControlOptions
    from mockbroker.server import Server


class AttachedThread(ClusterThread):
    """Created in the thread and the event loop of a server that was started; its methods are called from others."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.options)
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._thread = threading.current_thread()


class AttachedCluster(AttachedThread, ClusterMethods):
    """The methods of such a cluster."""


def start_control(
    attached: SharedMethods, load_api: Callable[[], ControlApi], options: ControlOptions, ended: asyncio.Event
) -> DeferredControl:
    """Start the control of what a command runs. load_api: imports what is served.

    ended: of this event loop; it is set to end the process. Raises: OSError if the address is in use or unknown.
    """
    loop = asyncio.get_running_loop()

    def shut_down() -> None:
        loop.call_soon_threadsafe(ended.set)

    control = DeferredControl(attached, load_api, options, shut_down)
    control.start()
    return control
