"""Logs where nodes listen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mockbroker.log.subjects import SERVER

if TYPE_CHECKING:
    from mockbroker.net.listeners import Listener
    from mockbroker.net.node_listeners import BoundListener


def log_bound(node_id: int, bound: Iterable[BoundListener]) -> None:
    """Log the addresses of the listeners of a node."""
    for entry in bound:
        listener, advertised = entry.listener, "{}:{}".format(*entry.advertised)
        address = f"{listener.host}:{entry.port}"
        fields = {"node": node_id, "listener": listener.name, "protocol": listener.protocol}
        template = "node %(node)d listens on %(listener)s://%(address)s"
        if advertised != address:
            template += ", advertised as %(advertised)s"
        SERVER.info(template, about=str(node_id), **fields, address=address, advertised=advertised)


def log_reachable(listeners: Iterable[Listener]) -> None:
    """Log the listeners that are not only for this machine."""
    for listener in listeners:
        if not listener.is_loopback:
            template = "%(listener)s listens on %(host)s, which other machines may reach"
            SERVER.warning(template, listener=listener.name, host=listener.host)
