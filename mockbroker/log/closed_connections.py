"""Logs connections that a node closes, and why."""

from __future__ import annotations

from mockbroker.log.subjects import CONNECTIONS


def log_close(node_id: int, host: str, port: int, reason: str) -> None:
    """Log why a node closes a connection; the lines about one host are limited together, as ports change."""
    CONNECTIONS.warning(
        "node %(node)d closes %(client)s: %(reason)s", about=host, node=node_id, client=f"{host}:{port}", reason=reason
    )
