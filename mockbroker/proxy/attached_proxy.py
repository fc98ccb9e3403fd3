"""`AttachedProxy`: the methods of a proxy that the command runs."""

from __future__ import annotations

from mockbroker.control.attached_cluster import AttachedThread
from mockbroker.proxy.methods import ProxyMethods


class AttachedProxy(AttachedThread, ProxyMethods):
    """The methods of a proxy that runs in an event loop which the command has started."""
