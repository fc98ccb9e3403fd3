"""Snapshots of the listeners of nodes: where they listen, and the addresses that clients are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.net.node_listeners import NodeListeners


@dataclass(frozen=True, slots=True)
class ListenerView:
    """A listener of a node. bound: HOST:PORT of its socket. advertised: HOST:PORT that clients are given."""

    node_id: int
    name: str
    protocol: str
    bound: str
    advertised: str

    def __str__(self) -> str:
        """One line of `--print-listeners`."""
        facts = f"node={self.node_id} name={self.name} protocol={self.protocol}"
        return f"listener {facts} bound={self.bound} advertised={self.advertised}"


def listener_views(listeners: NodeListeners) -> list[ListenerView]:
    """All listeners by node, those of nodes that are down included: their addresses stay reserved."""
    return [
        ListenerView(
            node_id,
            entry.listener.name,
            entry.listener.protocol,
            format_address(entry.listener.host, entry.port),
            format_address(*entry.advertised),
        )
        for node_id in sorted(listeners.node_ids)
        for entry in listeners.bound(node_id)
    ]


def format_address(host: str, port: int) -> str:
    """HOST:PORT, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
