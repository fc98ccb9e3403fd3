"""What a report says, as plain values: filled by Spark in `gather`, drawn by `page`.

Times are microseconds since 1970; where a name ends in `_us` and is no time, it is a length of time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kwire.spark.row_types import (
    AckRow,
    BatchRow,
    BreachRow,
    ClientRow,
    ConnectionRow,
    DeliveryRow,
    DepthRow,
    ErrorRow,
    FileRow,
    GroupRow,
    LatencyRow,
    LifeRow,
    LockRow,
    LockUseRow,
    PoisonRow,
    RebalanceRow,
    RuleRow,
    SlowRow,
    StepRow,
    VersionRow,
)
from kwire.spark.share_panel import SharePanel


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
    req_bytes: int = 0
    resp_bytes: int = 0
    slowest: list[SlowRow] = field(default_factory=list)
    share_traffic: Timeline | None = None
    groups: list[GroupRow] = field(default_factory=list)
    deliveries: list[DeliveryRow] = field(default_factory=list)
    delivery_counts: dict[str, dict[int, int]] = field(default_factory=dict)
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    acks: list[AckRow] = field(default_factory=list)
    refused_acks: int = 0
    panels: list[SharePanel] = field(default_factory=list)
    poison: list[PoisonRow] = field(default_factory=list)
    lives: list[LifeRow] = field(default_factory=list)
    locks: list[LockRow] = field(default_factory=list)
    lock_use: list[LockUseRow] = field(default_factory=list)
    client_rows: list[ClientRow] = field(default_factory=list)
    versions: list[VersionRow] = field(default_factory=list)
    batches: list[BatchRow] = field(default_factory=list)
    connection_rows: list[ConnectionRow] = field(default_factory=list)
    churn: Timeline | None = None
    troubles: dict[str, int] = field(default_factory=dict)
    depth: list[DepthRow] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    rebalances: list[RebalanceRow] = field(default_factory=list)
    rules: list[RuleRow] = field(default_factory=list)
    breaches: list[BreachRow] = field(default_factory=list)
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
