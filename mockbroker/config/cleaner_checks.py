"""Configurations of the log cleaner that contradict each other."""

from __future__ import annotations

from mockbroker.config.keys import ConfigError, Value

#: The first must not be greater than the second.
COMPACTION_LAGS = ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
#: Bytes of `log.cleaner.dedupe.buffer.size` for each thread, exclusive.
_CLEANER_MEMORY_MIN = 1 << 20


def check_compaction_lags(least: tuple[str, Value], most: tuple[str, Value]) -> None:
    """Refuse records that must be compacted before they may be: names with values.

    Of topics, and of brokers at their start; a running broker accepts it. Source: Kafka's LogConfig and LogManager.
    """
    (low_name, low), (high_name, high) = least, most
    if isinstance(low, int) and isinstance(high, int) and low > high:
        raise ConfigError(f"{low_name} ({low}) must not be greater than {high_name} ({high})")


def check_cleaner_memory(threads: int, buffer_size: int) -> None:
    """Refuse a number of cleaner threads for which the buffer, in bytes, is too small. Raises: ConfigError."""
    if threads < 1:
        raise ConfigError(f"log.cleaner.threads: {threads} must be at least 1")
    if buffer_size // threads <= _CLEANER_MEMORY_MIN:
        raise ConfigError(
            f"log.cleaner.dedupe.buffer.size: {buffer_size} must be more than {_CLEANER_MEMORY_MIN} for each of the "
            f"{threads} log.cleaner.threads"
        )
