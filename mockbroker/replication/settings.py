"""`ReplicationSettings`: the configuration of fetches between replicas and of the ISR, by Kafka's names."""

from __future__ import annotations

import msgspec

from mockbroker.config.broker_config import BrokerConfig


class FetchLimits(msgspec.Struct, frozen=True):
    """What a follower asks for: bytes of all partitions together and of each one, and how long the leader may wait."""

    bytes_min: int
    bytes_max: int
    partition_bytes_max: int
    wait_max_ms: int


class ReplicationSettings(msgspec.Struct, frozen=True):
    """Times in milliseconds. backoff_ms: after an error. fetcher_count: of each follower, for each leader."""

    lag_max_ms: int
    backoff_ms: int
    fetcher_count: int
    limits: FetchLimits

    @classmethod
    def from_config(cls, config: BrokerConfig) -> ReplicationSettings:
        """Read them from the configuration of the brokers."""
        limits = FetchLimits(
            bytes_min=config.integer("replica.fetch.min.bytes"),
            bytes_max=config.integer("replica.fetch.response.max.bytes"),
            partition_bytes_max=config.integer("replica.fetch.max.bytes"),
            wait_max_ms=config.integer("replica.fetch.wait.max.ms"),
        )
        return cls(
            lag_max_ms=config.integer("replica.lag.time.max.ms"),
            backoff_ms=config.integer("replica.fetch.backoff.ms"),
            fetcher_count=config.integer("num.replica.fetchers"),
            limits=limits,
        )
