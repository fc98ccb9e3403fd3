"""The content of a report as plain values: computed in `build`, rendered in `page`.

Times are microseconds since 1970. Names that end in `_us` are times or durations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kwire.report import row_types


@dataclass(frozen=True, slots=True)
class Timeline:
    """Counts by name in equal time bins: the bin of `series[name][i]` begins at `start_us + i * step_us`."""

    start_us: int
    step_us: int
    bins: int
    series: dict[str, list[int]]

    @property
    def total(self) -> int:
        """The sum of all counts."""
        return sum(map(sum, self.series.values()))


@dataclass(frozen=True, slots=True)
class Reading:
    """A step in which the state was read or reset, and the cause, one of `OPEN_ENDED`."""

    bin: int
    cause: str


@dataclass(frozen=True, slots=True)
class SharePanel:
    """One share partition in steps of `step_us`; each value is that at the end of its step.

    series: records between start and end, by state. peaks: the maximum acquired at once within the step. starts, ends:
    start and end offset, None while they are not known. begin, end: the start offset at the first and the last
    transition. deliveries_max: the highest delivery count. inferred: how many transitions are in no message.
    """

    group: str
    topic: str
    partition: int
    start_us: int
    step_us: int
    series: dict[str, list[int]]
    peaks: list[int]
    starts: list[int | None]
    ends: list[int | None]
    readings: list[Reading]
    begin: int
    end: int
    deliveries_max: int
    transitions: int
    inferred: int


@dataclass(frozen=True, slots=True)
class Report:
    """Everything on the page. Lists of rows may be cut: `omitted` has the number of omitted rows; sums include them."""

    files: list[row_types.FileRow]
    statuses: dict[str, int]
    clients: int
    connections: int
    latency: list[row_types.LatencyRow]
    traffic: Timeline
    errors: Timeline
    error_rows: list[row_types.ErrorRow]
    error_responses: int = 0
    req_bytes: int = 0
    resp_bytes: int = 0
    slowest: list[row_types.SlowRow] = field(default_factory=list)
    share_traffic: Timeline | None = None
    groups: list[row_types.GroupRow] = field(default_factory=list)
    deliveries: list[row_types.DeliveryRow] = field(default_factory=list)
    delivery_counts: dict[str, dict[int, int]] = field(default_factory=dict)
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    acks: list[row_types.AckRow] = field(default_factory=list)
    refused_acks: int = 0
    panels: list[SharePanel] = field(default_factory=list)
    poison: list[row_types.PoisonRow] = field(default_factory=list)
    dead_letters: list[row_types.DeadLetterRow] = field(default_factory=list)
    delivery_histories: list[row_types.RecordDeliveryRow] = field(default_factory=list)
    locks: list[row_types.LockRow] = field(default_factory=list)
    lock_use: list[row_types.LockUseRow] = field(default_factory=list)
    client_rows: list[row_types.ClientRow] = field(default_factory=list)
    versions: list[row_types.VersionRow] = field(default_factory=list)
    batches: list[row_types.BatchRow] = field(default_factory=list)
    connection_rows: list[row_types.ConnectionRow] = field(default_factory=list)
    connection_churn: Timeline | None = None
    connection_problems: dict[str, int] = field(default_factory=dict)
    requests_in_flight: list[row_types.InFlightRow] = field(default_factory=list)
    steps: list[row_types.StepRow] = field(default_factory=list)
    rebalances: list[row_types.RebalanceRow] = field(default_factory=list)
    rules: list[row_types.RuleRow] = field(default_factory=list)
    breaches: list[row_types.BreachRow] = field(default_factory=list)
    omitted: dict[str, int] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        """The number of requests in the captures."""
        return sum(row.requests for row in self.files)

    @property
    def breach_count(self) -> int:
        """How often rules of the protocol were broken."""
        return sum(row.breaches for row in self.rules)

    @property
    def span_us(self) -> tuple[int, int] | None:
        """First and last time of the traffic, microseconds; None without traffic."""
        return row_types.span_of_files(self.files)
