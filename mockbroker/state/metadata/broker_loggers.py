"""Broker loggers: names and levels that can be read and changed while a broker runs (KIP-412).

They are those of Kafka's own logging configuration. The levels are stored but do not change the mock's own log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.config_changes import ConfigChange, ConfigOperation

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


class BrokerLoggers:
    """The loggers of one broker; a level of None is inherited. A restart restores the standard levels."""

    def __init__(self) -> None:
        self._levels: dict[str, str | None] = dict(_STANDARD)

    def levels(self, names: Collection[str] | None) -> dict[str, str]:
        """The effective levels of these loggers as far as they exist, or of all without names."""
        return {name: self._effective_level(name) for name in self._levels if not names or name in names}

    def check_change(self, change: ConfigChange) -> None:
        """Reject an invalid change as Kafka's RuntimeLoggerManager does.

        Raises: INVALID_CONFIG for an unknown logger or level, INVALID_REQUEST for an operation that is not supported.
        """
        if change.operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            message = f"{change.operation.name} operation is not allowed for a BROKER_LOGGER"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if change.name not in self._levels:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
        if change.operation is ConfigOperation.SET and change.value not in LEVELS:
            message = f"{change.name}: {change.value!r} is none of {', '.join(LEVELS)}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)
        if change.operation is ConfigOperation.DELETE and change.name == ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the level of the root logger cannot be removed")

    def apply_changes(self, changes: Sequence[ConfigChange]) -> None:
        """Apply changes that `check_change` has accepted."""
        for change in changes:
            self._levels[change.name] = change.value if change.operation is ConfigOperation.SET else None

    def _effective_level(self, name: str) -> str:
        """Its own level, or that of its nearest ancestor by dots that has one."""
        level = self._levels.get(name)
        while level is None:
            name = name.rpartition(".")[0] or ROOT
            level = self._levels.get(name)
        return level
