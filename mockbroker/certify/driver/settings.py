"""The neutral settings of clients, by kind: what `open` has in `settings`. Times are milliseconds, sizes are bytes."""

from __future__ import annotations

from typing import Literal, TypedDict

Acks = Literal[0, 1, "all"]


class CommonSettings(TypedDict, total=False):
    """Settings of every kind of client. tls_ca_file: the path of a PEM file."""

    bootstrap_servers: list[str]
    client_id: str
    request_timeout_ms: int
    metadata_max_age_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    connections_max_idle_ms: int
    socket_setup_timeout_ms: int
    rebootstrap: bool
    rebootstrap_trigger_ms: int
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    sasl_mechanism: str
    username: str
    password: str
    tls_ca_file: str


class ProducerSettings(CommonSettings, total=False):
    """Settings of producers. acks: 0, 1 or "all"."""

    acks: Acks
    idempotence: bool
    linger_ms: int
    batch_size: int
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    max_in_flight: int
    retries: int
    delivery_timeout_ms: int
    max_request_size: int
    transactional_id: str
    transaction_timeout_ms: int
    max_block_ms: int


class ConsumerSettings(CommonSettings, total=False):
    """Settings of consumers. assignors: those of the classic protocol."""

    group_id: str
    group_protocol: Literal["classic", "consumer"]
    group_instance_id: str
    assignors: list[Literal["range", "roundrobin", "cooperative-sticky"]]
    remote_assignor: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    auto_offset_reset: Literal["earliest", "latest", "none"]
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: Literal["read_uncommitted", "read_committed"]
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    client_rack: str
    check_crcs: bool


class ShareConsumerSettings(CommonSettings, total=False):
    """Settings of share consumers."""

    group_id: str
    share_acknowledgement_mode: Literal["implicit", "explicit"]
    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    client_rack: str
    check_crcs: bool


class AdminSettings(CommonSettings, total=False):
    """Settings of admin clients."""


#: The settings of each kind of client.
SETTINGS_BY_KIND = {
    "producer": frozenset(ProducerSettings.__annotations__),
    "consumer": frozenset(ConsumerSettings.__annotations__),
    "share_consumer": frozenset(ShareConsumerSettings.__annotations__),
    "admin": frozenset(AdminSettings.__annotations__),
}
SETTINGS = frozenset().union(*SETTINGS_BY_KIND.values())
