"""Helpers for tests of share partitions: settings, record batches, and a leader whose writes wait."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.error_codes import ErrorCode
from mockbroker.state.share.acknowledgement import AcknowledgementBatch, AcknowledgementResult, acknowledge_records
from mockbroker.state.share.acquisition import AcquireMode, Span, acquire_records
from mockbroker.state.share.pending_write import PendingWrite
from mockbroker.state.share.share_partition import SharePartition
from mockbroker.state.share.state_batches import StateBatch

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


def settings(delivery_limit: int = 5, lock_ms: int = 30_000, in_flight_limit: int = 2000) -> dict[str, object]:
    """The group's configuration, by Kafka's names."""
    return {
        "share.delivery.count.limit": delivery_limit,
        "share.record.lock.duration.ms": lock_ms,
        "share.partition.max.record.locks": in_flight_limit,
        "share.renew.acknowledge.enable": True,
        "share.isolation.level": "read_uncommitted",
        "share.auto.offset.reset": "earliest",
    }


def spans(*texts: str) -> list[Span]:
    """Record batches: spans("0-9", "10-19")."""
    return [Span(*(int(part) for part in text.split("-"))) for text in texts]


def stored_batches(*texts: str) -> list[StateBatch]:
    """State batches in the notation of the page: stored("100-104:0/1")."""
    result = []
    for text in texts:
        offsets, _, rest = text.partition(":")
        first, _, last = offsets.partition("-")
        state, _, count = rest.partition("/")
        result.append(StateBatch(int(first), int(last or first), int(state), int(count)))
    return result


class Leader:
    """A loaded share partition over a log, whose writes stay under way until `complete_writes` lets them arrive."""

    def __init__(
        self,
        log: Sequence[Span] = (),
        *,
        start: int = 0,
        batches: Sequence[StateBatch] = (),
        config: dict[str, object] | None = None,
    ) -> None:
        self.log = list(log)
        self.config = settings() if config is None else config
        self.sent: list[PendingWrite] = []
        self.waiting: list[PendingWrite] = []
        self.wakes = 0
        self.now_ms = 0
        self.partition = SharePartition(self.config, send_write=self._send_write, wake=self._wake)
        self.partition.load_state(start, 0, batches)

    def _send_write(self, partition: SharePartition, write: PendingWrite, now_ms: int) -> None:
        self.sent.append(write)
        self.waiting.append(write)

    def _wake(self) -> None:
        self.wakes += 1

    def fetch(
        self,
        member: str = "m1",
        *,
        max_records: int = 500,
        batch_size: int = 500,
        mode: int = 0,
        aborted: Sequence[Span] = (),
        read: int | None = None,
    ) -> list[str]:
        """What a fetch acquires, as "0-9/1"; it reads the log from the next fetch offset on, `read` batches at most."""
        if not self.partition.can_acquire():
            return []
        offset = self.partition.next_fetch_offset()
        found = [span for span in self.log if span.last_offset >= offset][:read]
        acquired = acquire_records(
            self.partition,
            member,
            found,
            now_ms=self.now_ms,
            fetch_offset=offset,
            mode=AcquireMode(mode),
            batch_size=batch_size,
            max_records=max_records,
            aborted=aborted,
        )
        return [f"{run.first}-{run.last}/{run.delivery_count}" for run in acquired]

    def start_acknowledgement(self, member: str, *batches: tuple[int, int, list[int]]) -> AcknowledgementResult:
        """Acknowledge, and leave the write under way."""
        texts = [AcknowledgementBatch(*batch) for batch in batches]
        settlement = acknowledge_records(self.partition, member, texts, now_ms=self.now_ms)
        if settlement.write is not None:
            self._send_write(self.partition, settlement.write, self.now_ms)
        return settlement

    def acknowledge(self, member: str, *batches: tuple[int, int, list[int]]) -> int:
        """Acknowledge and complete the write. Returns: the error code."""
        settlement = self.start_acknowledgement(member, *batches)
        self.complete_writes()
        return 0 if settlement.error is None else int(settlement.error.code)

    def end_session(self, member: str) -> None:
        """The member's session ends."""
        write = self.partition.release_member(member, now_ms=self.now_ms)
        if write is not None:
            self._send_write(self.partition, write, self.now_ms)

    def complete_writes(self, error: ErrorCode | None = None) -> None:
        """Complete every write under way, or fail it."""
        waiting, self.waiting = self.waiting, []
        for write in waiting:
            self.partition.complete_write(write, error, now_ms=self.now_ms)

    def advance(self, ms: int) -> int:
        """Advance the time. Returns: how many records were released."""
        self.now_ms += ms
        return self.partition.expire(now_ms=self.now_ms)

    @property
    def start(self) -> int:
        """SPSO."""
        return self.partition.start_offset

    @property
    def complete_count(self) -> int:
        """Delivery-complete count."""
        return self.partition.window.delivery_complete_count

    def last_write(self) -> tuple[int, int, list[str]]:
        """Start, count and batches of the last write, as "0-9:2/1"."""
        write = self.sent[-1]
        batches = [f"{b.first}-{b.last}:{b.state}/{b.delivery_count}" for b in write.batches]
        return write.start_offset, write.delivery_complete_count, batches

    def states(self, first: int, last: int) -> str:
        """One character for each offset: v available, q acquired, k acknowledged, x archived."""
        return "".join("vqk?x"[self.partition.window.record_state(offset)] for offset in range(first, last + 1))


def holding(*texts: str, config: dict[str, object] | None = None) -> Leader:
    """A leader over these record batches, which a first fetch has acquired for m1."""
    leader = Leader(spans(*texts), config=config)
    leader.fetch()
    return leader
