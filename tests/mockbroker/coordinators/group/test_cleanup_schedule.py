"""The times at which a group coordinator looks for expired offsets: Kafka's, without those at which there are none."""

from __future__ import annotations

from mockbroker.config.broker_config import BrokerConfig
from mockbroker.coordinators.group.cleanup_schedule import CleanupSchedule
from mockbroker.state.timers import Timers

_INTERVAL_MS = 100


class Checks:
    """A schedule whose checks are recorded. next_ms: what each returns, as a time after it; None: no further one."""

    def __init__(self) -> None:
        self.times_ms: list[int] = []
        self.next_ms: int | None = None
        self.timers = Timers()
        config = BrokerConfig({"offsets.retention.check.interval.ms": str(_INTERVAL_MS)})
        self.schedule = CleanupSchedule(config, self.timers, self._check)

    def _check(self, now_ms: int) -> int | None:
        self.times_ms.append(now_ms)
        return None if self.next_ms is None else now_ms + self.next_ms

    def advance_to(self, end_ms: int) -> list[int]:
        """Run what is due, each at its time. Returns: the times of the checks."""
        self.times_ms = []
        while (due_ms := self.timers.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.timers.expire(now_ms=due_ms)
        return self.times_ms


def test_there_is_no_check_before_the_first_write() -> None:
    assert Checks().advance_to(1_000) == []


def test_after_a_write_there_is_one_check_and_more_only_if_something_may_expire() -> None:
    checks = Checks()
    checks.schedule.record_write(30)

    assert checks.advance_to(1_000) == [130]
    checks.next_ms = 0
    checks.schedule.record_write(1_000)
    assert checks.advance_to(1_250) == [1_030, 1_130, 1_230]


def test_the_checks_until_something_expires_are_left_out_unless_there_is_a_write() -> None:
    checks = Checks()
    checks.schedule.record_write(0)
    checks.next_ms = 950

    assert checks.advance_to(2_000) == [100, 1_100]
    checks.schedule.record_write(2_001)
    checks.schedule.record_write(2_002)
    assert checks.advance_to(3_000) == [2_100]


def test_a_century_without_anything_to_expire_has_one_check() -> None:
    checks = Checks()
    checks.schedule.record_write(0)

    assert checks.advance_to(100 * 365 * 24 * 3_600_000) == [100]
