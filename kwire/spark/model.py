"""What a report says, as plain values: filled by Spark in `gather`, drawn by `page`."""

from __future__ import annotations

from dataclasses import dataclass, field

# A long poll waits because it was asked to; its time says how idle the topic was, not how fast the broker is.
LONG_POLLS = ("Fetch", "ShareFetch")


@dataclass(frozen=True, slots=True)
class FileRow:
    """One capture file: what was read from it. Times are microseconds since 1970."""

    name: str
    requests: int
    ok: int
    connections: int
    first_us: int | None
    last_us: int | None


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


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """How often one API answered with one error, and when."""

    api: str
    error: str
    responses: int
    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """Counts by name in equal spans of time: `series[name][i]` lies at `start_us + i * step_us`."""

    start_us: int
    step_us: int
    bins: int
    series: dict[str, list[int]]

    @property
    def total(self) -> int:
        """The sum of all counts."""
        return sum(map(sum, self.series.values()))


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
    """What one member said of the records it held: records by kind of acknowledgement, and those that were refused."""

    group: str
    member: str
    client: str
    records: dict[str, int]
    refused: int

    @property
    def total(self) -> int:
        """Records acknowledged in any way that the broker took."""
        return sum(self.records.values())


@dataclass(frozen=True, slots=True)
class Report:
    """Everything on the page. The lists of rows may be cut: `omitted` says by how many, and the sums count them all."""

    files: list[FileRow]
    statuses: dict[str, int]
    clients: int
    connections: int
    latency: list[LatencyRow]
    traffic: Timeline
    errors: Timeline
    error_rows: list[ErrorRow]
    error_responses: int = 0
    share_traffic: Timeline | None = None
    groups: list[GroupRow] = field(default_factory=list)
    deliveries: list[DeliveryRow] = field(default_factory=list)
    delivery_counts: dict[str, dict[int, int]] = field(default_factory=dict)
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    acks: list[AckRow] = field(default_factory=list)
    refused_acks: int = 0
    omitted: dict[str, int] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        """All requests seen in the captures."""
        return sum(row.requests for row in self.files)

    @property
    def span_us(self) -> tuple[int, int] | None:
        """First and last moment of the traffic."""
        firsts = [row.first_us for row in self.files if row.first_us is not None]
        lasts = [row.last_us for row in self.files if row.last_us is not None]
        return (min(firsts), max(lasts)) if firsts and lasts else None
