"""Logs connections that a node closes and tokens that it refuses, and why."""

from __future__ import annotations

from mockbroker.log.subjects import CONNECTIONS


def log_close(node_id: int, host: str, port: int, reason: str) -> None:
    """Log why a node closes a connection; the lines about one host are limited together, as ports change."""
    CONNECTIONS.warning(
        "node %(node)d closes %(client)s: %(reason)s", about=host, node=node_id, client=f"{host}:{port}", reason=reason
    )


def log_refused_token(node_id: int, host: str, port: int, reason: str) -> None:
    """Log why a node refuses a token of OAUTHBEARER, after which the client ends the exchange. It is not shown."""
    template = "node %(node)d refuses the token of %(client)s: %(reason)s"
    CONNECTIONS.warning(template, about=host, node=node_id, client=f"{host}:{port}", reason=reason)
