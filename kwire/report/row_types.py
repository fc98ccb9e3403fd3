"""The rows of a report's tables, as plain values whose fields are named like the columns they come from.

Times are microseconds since 1970. Names that end in `_us` are times or durations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kwire.report import percentiles
from kwire.spark.long_polls import LONG_POLLS


@dataclass(frozen=True, slots=True)
class FileRow:
    """One capture file."""

    name: str
    requests: int
    ok: int
    connections: int
    first_us: int | None
    last_us: int | None

    @property
    def length_us(self) -> int | None:
        """The time from the first packet to the last; None without packets."""
        return None if self.first_us is None or self.last_us is None else self.last_us - self.first_us


def span_of_files(files: Sequence[FileRow]) -> tuple[int, int] | None:
    """First and last time of the traffic in all files; None without traffic."""
    firsts = [row.first_us for row in files if row.first_us is not None]
    lasts = [row.last_us for row in files if row.last_us is not None]
    return (min(firsts), max(lasts)) if firsts and lasts else None


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """The latency of one API, in microseconds, over the requests that were answered."""

    api: str
    versions: str
    requests: int
    p50_us: int
    p95_us: int
    p99_us: int
    max_us: int

    @property
    def is_long_poll(self) -> bool:
        """Whether the broker may have waited for data on purpose."""
        return self.api in LONG_POLLS

    @property
    def shown_percentiles(self) -> dict[str, int | None]:
        """The percentiles by name; None where there are too few requests for one."""
        values = {50: self.p50_us, 95: self.p95_us, 99: self.p99_us}
        return {f"p{rank}": percentiles.shown(rank, value, self.requests) for rank, value in values.items()}


@dataclass(frozen=True, slots=True)
class SlowRow:
    """One request with a high latency."""

    api_name: str
    api_version: int
    client_id: str | None
    latency_us: int
    error_name: str | None
    req_us: int | None
    file: str
    conn_id: str
    correlation_id: int
    req_packet: int | None
    resp_packet: int | None


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One error of one API for one partition (None: for the whole request): how often, and when."""

    api_name: str
    error_name: str | None
    topic: str | None
    partition: int | None
    failures: int
    clients: int
    first_us: int | None
    last_us: int | None
    file: str
    correlation_id: int | None
    resp_packet: int | None


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """One partition as one share group received it, in records."""

    group: str
    topic: str
    partition: int
    acquisitions: int
    records: int
    redelivered: int
    delivery_count_max: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One share group, all its partitions together, in records."""

    group: str
    acquisitions: int
    records: int
    redelivered: int
    delivery_count_max: int


@dataclass(frozen=True, slots=True)
class AckRow:
    """Acknowledgements of one member: records by kind of acknowledgement, and those that the broker refused."""

    group: str
    member: str
    client: str
    records: dict[str, int]
    refused: int

    @property
    def total(self) -> int:
        """Records with an acknowledgement that the broker accepted."""
        return sum(self.records.values())


@dataclass(frozen=True, slots=True)
class PoisonRow:
    """One record that consumers fail to process; `resp_packet`: the packet of its last acquisition.

    `key` and `value`: the first bytes of its content, if that was requested.
    """

    group_id: str | None
    topic: str | None
    partition: int
    offset: int
    deliveries: int
    delivery_count_max: int
    members: int
    outcome: str
    file: str
    resp_packet: int | None
    key: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """The records of a group and topic that went to a dead-letter queue for one reason."""

    group_id: str
    topic: str | None
    reason: str | None
    queue: str | None
    records: int
    first_offset: int | None
    last_offset: int | None
    delivery_count_max: int | None


@dataclass(frozen=True, slots=True)
class RecordDeliveryRow:
    """One delivery of one record to one member, and the member's acknowledgement."""

    group_id: str | None
    topic: str | None
    partition: int
    offset: int
    member_id: str | None
    client_id: str | None
    delivery_count: int | None
    acquired_us: int | None
    lock_timeout_ms: int | None
    ack_us: int | None
    ack_name: str | None
    ack_error: str | None


@dataclass(frozen=True, slots=True)
class LockRow:
    """Records that were acquired together and acknowledged together; late if `lock_share` is above 1."""

    group_id: str | None
    topic: str | None
    partition: int
    member_id: str | None
    client_id: str | None
    ack_us: int
    ack_name: str
    ack_error: str | None
    lock_timeout_ms: int | None
    renewals: int
    held_us: int
    lock_share: float | None
    first_offset: int
    last_offset: int
    records: int
    file: str
    correlation_id: int | None
    req_packet: int | None


@dataclass(frozen=True, slots=True)
class LockUseRow:
    """How one member used its acquisition locks, in records; the percentiles are those of `ranges` times."""

    group_id: str | None
    member_id: str | None
    client_id: str | None
    records: int
    ranges: int
    p50_us: int
    p95_us: int
    max_us: int
    lock_timeout_ms: int | None
    renewals: int
    late: int
    refused: int


@dataclass(frozen=True, slots=True)
class ClientRow:
    """One client id with one client software."""

    client_id: str | None
    software: str
    requests: int
    connections: int
    apis: int
    errors: int
    req_bytes: int
    resp_bytes: int
    requests_per_s: float | None


@dataclass(frozen=True, slots=True)
class VersionRow:
    """Which versions of one API one client uses."""

    client_id: str | None
    api_name: str
    versions: list[int]
    requests: int


@dataclass(frozen=True, slots=True)
class BatchRow:
    """Sizes of one client's Produce requests or fetch responses; `req_packet`: request of the first tiny one."""

    client_id: str | None
    api_name: str
    requests: int
    records: int
    batch_bytes: int
    p50_bytes: int
    p50_records: int
    tiny: int
    codecs: list[str]
    file: str | None
    req_packet: int | None


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """One connection, from its first packet to its last; latencies are those of `answered` requests, no long polls."""

    file: str
    conn_id: str
    stream_epoch: int
    client_id: str | None
    kind: str
    ended: str
    first_us: int
    last_us: int
    first_packet: int | None
    requests: int
    errors: int
    answered: int
    p50_us: int | None
    max_us: int | None
    in_flight_max: int | None
    throttle_ms_max: int | None
    rtt_us: int | None
    packets: int
    bytes: int
    retransmits: int
    lost_bytes: int
    zero_windows: int
    idle_us: int | None


@dataclass(frozen=True, slots=True)
class InFlightRow:
    """One connection in one time bin."""

    file: str
    conn_id: str
    stream_epoch: int
    client_id: str | None
    bin: int
    requests: int
    in_flight_max: int
    throttle_ms_max: int


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step of a group member: its state from one time to another."""

    group_id: str | None
    member_id: str
    client_id: str | None
    kind: str
    state: str
    epoch: int | None
    error_name: str | None
    first_us: int
    last_us: int
    file: str
    correlation_id: int | None
    req_packet: int | None


@dataclass(frozen=True, slots=True)
class RebalanceRow:
    """One group: its members, and the cost of its rebalances."""

    group_id: str | None
    kind: str
    members: int
    epochs: int
    errors: int
    left: int
    waited_us: int


@dataclass(frozen=True, slots=True)
class BreachRow:
    """One breach of the protocol's rules."""

    rule: str
    file: str
    conn_id: str | None
    client_id: str | None
    api_name: str | None
    correlation_id: int | None
    req_packet: int | None
    resp_packet: int | None
    ts_us: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class RuleRow:
    """How often one rule was broken."""

    rule: str
    breaches: int
    connections: int
    first_us: int | None
    last_us: int | None
