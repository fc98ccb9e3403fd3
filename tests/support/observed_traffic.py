"""Exchanges as conformance rules read them, written by hand."""

from __future__ import annotations

from typing import Any

import msgspec

from kwire import registry
from kwire.conformance.checker import Observation, find_notes
from kwire.conformance.model import ConnectionEnd, ConnectionGap, ConnectionGapEnd, Note, ObservedExchange

_MS = 1_000_000


class ObservedTraffic:
    """Collects exchanges; times are milliseconds."""

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self._count = 0

    def send(
        self,
        at_ms: float,
        request: msgspec.Struct,
        response: msgspec.Struct | None = None,
        *,
        version: int | None = None,
        took_ms: float = 1,
        connection: str = "c1",
        client: str = "10.0.0.1:5000",
        **more: Any,
    ) -> int:
        """Add an exchange. version: the newest by default. Returns: its number."""
        self._count += 1
        api_key: int = type(request).API_KEY  # type: ignore[attr-defined]
        answered = None if response is None else at_ms + took_ms
        fields: dict[str, Any] = {
            "number": self._count,
            "connection": connection,
            "node": "node 0",
            "client": client,
            "client_id": "client",
            "api_key": api_key,
            "api_name": registry.api_name(api_key),
            "api_version": registry.api_versions(api_key)[1] if version is None else version,
            "correlation_id": self._count,
            "sent_ns": int(at_ms * _MS),
            "sent_ms": at_ms,
            "request": request,
            "response": response,
            "answered_ns": None if answered is None else int(answered * _MS),
            "answered_ms": answered,
        }
        self.observations.append(ObservedExchange(**{**fields, **more}))
        return self._count

    def close(self, at_ms: float, connection: str = "c1", *, is_clean: bool = True) -> None:
        """End a connection."""
        self.observations.append(ConnectionEnd(connection, int(at_ms * _MS), is_clean))

    def lose(self, at_ms: float, connection: str = "c1", *, until_ms: float | None = None) -> None:
        """Lose one message of a connection, or what it has until a time."""
        self.observations.append(ConnectionGap(connection, int(at_ms * _MS), is_open=until_ms is not None))
        if until_ms is not None:
            self.observations.append(ConnectionGapEnd(connection, int(until_ms * _MS)))

    def notes(self) -> list[Note]:
        """All notes."""
        return find_notes(self.observations)

    def broken(self) -> list[tuple[str, tuple[int, ...]]]:
        """The rules that were broken, each with the exchanges that the note rests on."""
        return [(note.rule, note.exchanges) for note in self.notes()]
