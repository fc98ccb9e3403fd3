"""Broker loggers: names and levels that can be told and changed while a broker runs (KIP-412).

They are those of Kafka's own logging configuration. The mock writes nothing by them: its own log has its own level.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.config_changes import ConfigChange, Operation

ROOT = "root"
LEVELS = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")

#: What the log4j2.yaml of Kafka's distribution sets.
_STANDARD: Mapping[str, str] = {
    ROOT: "INFO",
    "kafka": "INFO",
    "kafka.authorizer.logger": "INFO",
    "kafka.network.RequestChannel$": "WARN",
    "kafka.request.logger": "WARN",
    "org.apache.kafka": "INFO",
    "org.apache.kafka.controller": "INFO",
    "org.apache.kafka.storage.internals.log.LogCleaner": "INFO",
    "state.change.logger": "INFO",
}


class Loggers:
    """The loggers of one broker; a level of None is inherited. A restart brings the standard levels back."""

    def __init__(self) -> None:
        self._levels: dict[str, str | None] = dict(_STANDARD)

    def levels(self, names: Collection[str] | None) -> dict[str, str]:
        """The levels in force, of these loggers as far as they exist, or of all when none is named."""
        return {name: self._level(name) for name in self._levels if not names or name in names}

    def check(self, changes: Sequence[ConfigChange]) -> None:
        """Refuse changes as Kafka's RuntimeLoggerManager does.

        Raises: INVALID_CONFIG for a logger or a level that does not exist, INVALID_REQUEST for what cannot be done.
        """
        for change in changes:
            if change.operation not in (Operation.SET, Operation.DELETE):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"{change.operation.name} operation is not allowed for a broker logger"
                )
            if change.name not in self._levels:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
            if change.operation is Operation.SET and change.value not in LEVELS:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG, f"{change.name}: {change.value!r} is none of {', '.join(LEVELS)}"
                )
            if change.operation is Operation.DELETE and change.name == ROOT:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the level of the root logger cannot be removed")

    def apply(self, changes: Sequence[ConfigChange]) -> None:
        """Do what `check` let through."""
        for change in changes:
            self._levels[change.name] = change.value if change.operation is Operation.SET else None

    def _level(self, name: str) -> str:
        """Its own level, or that of its nearest ancestor by dots that has one."""
        level = self._levels.get(name)
        while level is None:
            name = name.rpartition(".")[0] or ROOT
            level = self._levels.get(name)
        return level
