"""Topic configuration of logs: rules for appends, for segments and for the log cleaner. Source: Kafka's LogConfig."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from kwire.records import Codec
from mockbroker.config.limits import READ_BYTES_MAX, BatchLimits
from mockbroker.state.settings import read_int
from mockbroker.state.storage.segments import RollRules

#: The largest size that a batch of a log is decompressed to. Kafka has no such limit; here it protects against
#: decompression bombs in the files of a data directory.
DECOMPRESSED_MAX = READ_BYTES_MAX

#: The default of `flush.messages` and `flush.ms`.
NEVER = (1 << 63) - 1

#: compression.type -> codec; `producer`, which is not listed, leaves a batch as the producer compressed it.
_CODECS = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}


class ChangedResource(Protocol):
    """A topic, a broker or another resource with a configuration."""

    @property
    def name(self) -> str:
        """The name of the topic, the id of the broker, and so on."""
        ...

    @property
    def is_topic(self) -> bool:
        """Whether its configuration concerns only the topic of this name."""
        ...

    @property
    def is_broker(self) -> bool:
        """Whether its configuration may concern every topic."""
        ...


class TopicConfigs(Protocol):
    """The part of the cluster's configuration that logs read.

    node_id: the broker that a log is on, or that leads it.
    """

    @property
    def generation(self) -> int:
        """The number of changes."""
        ...

    batch_limits: BatchLimits

    def resources_changed_since(self, generation: int) -> Iterable[ChangedResource] | None:
        """The resources whose own configuration has changed since a generation, None if it is unknown."""

    def topic(self, name: str, node_id: int | None = None) -> Mapping[str, object]:
        """The effective configuration of a topic; node_id is None for a log without a broker."""

    def broker(self, node_id: int) -> Mapping[str, object]:
        """The effective configuration of a broker."""

    def brokers(self) -> Mapping[str, object]:
        """The effective configuration of all brokers."""


class FlushRules(msgspec.Struct, frozen=True):
    """When a log in files is written to the disk: after so many records, or so many milliseconds."""

    messages_max: int
    interval_max_ms: int


class AppendRules(msgspec.Struct, frozen=True):
    """The topic configuration that appends depend on. Times in milliseconds, sizes in bytes. flush: None for never.

    record_bytes_max: the largest record in a compressed batch; releases before 4.4 have no such limit. limits: of this
    broker, for compressed batches.
    """

    compacted: bool
    append_time: bool
    before_max_ms: int
    after_max_ms: int
    message_bytes_max: int
    record_bytes_max: int
    roll: RollRules
    codec: Codec | None
    level: int | None
    flush: FlushRules | None = None
    limits: BatchLimits = BatchLimits()

    @classmethod
    def from_config(cls, config: Mapping[str, object], limits: BatchLimits | None = None) -> AppendRules:
        """Read them from a topic's effective configuration. limits: None for the defaults."""
        policy, compression = config["cleanup.policy"], config["compression.type"]
        assert isinstance(policy, list)
        assert isinstance(compression, str)
        level = config.get(f"compression.{compression}.level")
        record_limit = config.get("max.decompressed.message.bytes")
        return cls(
            compacted="compact" in policy,
            append_time=config["message.timestamp.type"] == "LogAppendTime",
            before_max_ms=read_int(config, "message.timestamp.before.max.ms"),
            after_max_ms=read_int(config, "message.timestamp.after.max.ms"),
            message_bytes_max=read_int(config, "max.message.bytes"),
            record_bytes_max=record_limit if isinstance(record_limit, int) else DECOMPRESSED_MAX,
            roll=roll_rules(config),
            codec=_CODECS.get(compression),
            level=level if isinstance(level, int) else None,
            flush=flush_rules(config),
            limits=BatchLimits() if limits is None else limits,
        )


class CleanerRules(msgspec.Struct, frozen=True):
    """The topic configuration that the log cleaner uses. Times in milliseconds, sizes in bytes, -1 for no limit."""

    compacts: bool
    deletes: bool
    retention_ms: int
    retention_bytes: int
    dirty_ratio_min: float
    lag_min_ms: int
    lag_max_ms: int
    tombstones_ms: int
    roll: RollRules

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> CleanerRules:
        """Read them from a topic's effective configuration."""
        policy, ratio = config["cleanup.policy"], config["min.cleanable.dirty.ratio"]
        assert isinstance(policy, list)
        assert isinstance(ratio, (int, float))
        return cls(
            compacts="compact" in policy,
            deletes="delete" in policy,
            retention_ms=read_int(config, "retention.ms"),
            retention_bytes=read_int(config, "retention.bytes"),
            dirty_ratio_min=float(ratio),
            lag_min_ms=read_int(config, "min.compaction.lag.ms"),
            lag_max_ms=read_int(config, "max.compaction.lag.ms"),
            tombstones_ms=read_int(config, "delete.retention.ms"),
            roll=roll_rules(config),
        )


def flush_rules(config: Mapping[str, object]) -> FlushRules | None:
    """When logs of the topic are written to the disk; None where the system decides it."""
    rules = FlushRules(read_int(config, "flush.messages"), read_int(config, "flush.ms"))
    return None if min(rules.messages_max, rules.interval_max_ms) == NEVER else rules


def roll_rules(config: Mapping[str, object]) -> RollRules:
    """When segments of the topic are full."""
    policy, small = config["cleanup.policy"], config.get("internal.segment.bytes")
    assert isinstance(policy, list)
    age_ms = read_int(config, "segment.ms")
    if "compact" in policy:
        # A segment closes at the latest when its records have to be compacted.
        age_ms = min(age_ms, read_int(config, "max.compaction.lag.ms"))
    size = small if isinstance(small, int) else read_int(config, "segment.bytes")
    return RollRules(size, age_ms, read_int(config, "segment.jitter.ms"), read_int(config, "index.interval.bytes"))
