"""A socket-level Kafka cluster in one process, to test clients against."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.cluster import Cluster as Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> object:
    """Bring the cluster when it is asked for: its command does not pay for what it does not use."""
    if name == "Cluster":
        from mockbroker.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
