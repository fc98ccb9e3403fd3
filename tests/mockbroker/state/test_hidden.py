"""Batches in a log that no reader is given."""

from __future__ import annotations

import pytest

from kwire.records import Record, ShareControlType, write_batch, write_share_control
from mockbroker.config import BrokerConfig
from mockbroker.state.batch_rules import TopicRules
from mockbroker.state.cleaning import compact, delete_old, dirt
from mockbroker.state.configs import Configs, Resource, ResourceKind
from mockbroker.state.hidden import NOTHING_KEPT, Hidden
from mockbroker.state.log import PartitionLog
from mockbroker.state.segments import RollRules
from mockbroker.state.upkeep import _rules as rules_of


class Log:
    """A log of a topic with small segments, and how often it said that it moved or grew."""

    def __init__(self, **settings: str) -> None:
        configs = Configs(BrokerConfig())
        configs.put(
            Resource(ResourceKind.TOPIC, "t"), {name.replace("_", "."): text for name, text in settings.items()}
        )
        self.cleaning = rules_of(configs.topic("t"))
        self.moved = self.grown = 0
        self.log = PartitionLog(lambda: TopicRules.of(configs.topic("t")), self._moved, self._grown)

    def _moved(self) -> None:
        self.moved += 1

    def _grown(self) -> None:
        self.grown += 1

    def put(self, *keys: str) -> None:
        """One batch of records with these keys."""
        records = [Record(n, 1000, key.encode(), b"value") for n, key in enumerate(keys)]
        self.log.append(write_batch(records), now_ms=1000)

    def hide(self) -> int:
        """One hidden batch."""
        data = write_share_control(ShareControlType.SHARE_DELTA, b"state", timestamp=1000)
        return self.log.append_hidden(data, now_ms=1000)

    def offsets(self, first: int = 0) -> list[int]:
        """The base offsets of what a reader is given."""
        return [batch.base_offset for batch in self.log.read(first, 1 << 20).batches]

    def hidden(self) -> list[int]:
        """The offsets of hidden batches that are there."""
        return [batch.base_offset for batch in self.log.from_offset(0) if batch.hidden]


def test_writing_one_is_no_move_of_the_log() -> None:
    log = Log()
    log.put("a")
    assert (log.moved, log.grown) == (1, 0)

    assert log.hide() == 1

    assert (log.moved, log.grown, log.log.end_offset) == (1, 1, 2)


def test_readers_pass_them_wherever_they_begin() -> None:
    log = Log()
    for step in "hpphhph":
        log.put("a", "b") if step == "p" else log.hide()

    assert log.hidden() == [0, 5, 6, 9]
    assert [log.offsets(first) for first in (0, 1, 3, 4, 5, 6, 8, 9, 10)] == [
        *([1, 3, 7], [1, 3, 7], [3, 7], [3, 7], [7], [7], [7], [], []),
    ]
    assert log.log.readable_end(10) == 9
    assert log.log.readable_end(7) == 5


def test_a_reader_gets_past_a_segment_of_nothing_else() -> None:
    log = Log(segment_bytes="1048576")
    log.put("a")
    log.log.segments.roll(log.log.end_offset, RollRules(1 << 20, 1 << 40), now_ms=1000)
    log.hide()
    log.log.segments.roll(log.log.end_offset, RollRules(1 << 20, 1 << 40), now_ms=1000)
    log.put("b")

    assert log.offsets(1) == [2]


def test_bytes_of_hidden_batches_do_not_count_against_the_limit() -> None:
    log = Log()
    log.put("a")
    for _ in range(50):
        log.hide()
    log.put("b")
    size = log.log.read(0, 1 << 20).size

    assert [batch.base_offset for batch in log.log.read(0, size).batches] == [0, 51]


def test_they_have_no_timestamp_to_be_found_by() -> None:
    log = Log()
    log.put("a")
    log.log.append_hidden(write_share_control(ShareControlType.SHARE_DELTA, b"", timestamp=5000), now_ms=5000)

    found = log.log.offset_of_max_timestamp()
    assert found is not None
    assert (found.offset, found.timestamp) == (0, 1000)
    assert log.log.offset_for_timestamp(2000) is None


def test_truncation_and_deletion_forget_them() -> None:
    log = Log()
    for step in "hphph":
        log.put("a") if step == "p" else log.hide()
    hidden = log.log.hidden
    assert hidden is not None
    hidden.keep_from = 2

    log.log.delete_before(1)
    cut = log.log.truncate(3)

    assert (log.hidden(), len(hidden), hidden.offsets(0, 9)) == ([2], 1, [2])
    assert str(hidden.keep_from) == "None"
    log.log.restore(cut)
    assert (log.hidden(), hidden.offsets(0, 9)) == ([2, 4], [2, 4])


@pytest.mark.parametrize(("keep_from", "left"), [(None, [1, 3, 5]), (3, [3, 5]), (5, [5]), (NOTHING_KEPT, [])])
def test_compaction_takes_those_before_the_earliest_share_offset(keep_from: int | None, left: list[int]) -> None:
    log = Log(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    for _ in range(3):
        log.put("a")
        log.hide()
    log.log.segments.roll(log.log.end_offset, RollRules(1 << 20, 1 << 40), now_ms=1000)
    log.put("b")
    assert log.log.hidden is not None
    log.log.hidden.keep_from = keep_from

    found = dirt(log.log, log.cleaning, now_ms=1_000_000)
    assert found is not None
    compact(log.log, found, log.cleaning, now_ms=1_000_000)

    assert (log.hidden(), log.log.hidden.offsets(0, 99)) == (left, left)
    assert log.offsets() == [4]
    assert log.offsets(5) == [6]


def test_an_offset_that_not_all_replicas_have_makes_nothing_superfluous() -> None:
    hidden = Hidden()
    for offset in (1, 3, 5):
        hidden.add(offset)
    hidden.keep_from = 5

    assert [hidden.keeps(1, 2, high_watermark) for high_watermark in (4, 5, 6)] == [True, True, False]


@pytest.mark.parametrize(("keep_from", "start"), [(1, 0), (3, 2), (NOTHING_KEPT, 4)])
def test_retention_leaves_the_segment_that_holds_the_earliest_share_offset(keep_from: int, start: int) -> None:
    log = Log(retention_ms="1000")
    for _ in range(2):
        log.put("a")
        log.hide()
        log.log.segments.roll(log.log.end_offset, RollRules(1 << 20, 1 << 40), now_ms=1000)
    log.put("b")
    assert log.log.hidden is not None
    log.log.hidden.keep_from = keep_from
    log.log.segments[2].max_timestamp = 1_000_000

    delete_old(log.log, log.cleaning, now_ms=1_000_000)

    assert log.log.start_offset == start
