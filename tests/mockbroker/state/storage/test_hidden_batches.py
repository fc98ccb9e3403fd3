"""Batches in a log that no reader is given."""

from __future__ import annotations

import pytest

from kwire.records import Record, ShareControlType, write_batch, write_share_control
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.state.metadata.configs import Configs, Resource, ResourceKind
from mockbroker.state.storage.hidden_batches import NO_STATE_STORED, HiddenBatches
from mockbroker.state.storage.log_cleaner import compact_log, delete_old_segments, find_cleanable_range
from mockbroker.state.storage.log_config import AppendRules, CleanerRules
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.storage.segments import RollRules


class Log:
    """A log of a topic with small segments, and the number of its callbacks."""

    def __init__(self, **settings: str) -> None:
        configs = Configs(BrokerConfig())
        texts = {name.replace("_", "."): text for name, text in settings.items()}
        configs.set_overrides(Resource(ResourceKind.TOPIC, "t"), texts)
        self.cleaning = CleanerRules.from_config(configs.topic("t"))
        self.moved = self.grown = 0
        self.log = PartitionLog(lambda: AppendRules.from_config(configs.topic("t")), self._moved, self._grown)

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
        return self.log.append_hidden_batch(data, now_ms=1000)

    def offsets(self, first: int = 0) -> list[int]:
        """The base offsets of what a reader is given."""
        return [batch.base_offset for batch in self.log.read(first, 1 << 20).batches]

    def hidden(self) -> list[int]:
        """The offsets of hidden batches that are there."""
        return [batch.base_offset for batch in self.log.batches_from(0) if batch.is_hidden]


def test_a_hidden_append_wakes_no_reader() -> None:
    log = Log()
    log.put("a")
    assert (log.moved, log.grown) == (1, 0)

    assert log.hide() == 1

    assert (log.moved, log.grown, log.log.end_offset) == (1, 1, 2)


def test_readers_skip_hidden_batches_at_any_position() -> None:
    log = Log()
    for step in "hpphhph":
        log.put("a", "b") if step == "p" else log.hide()

    assert log.hidden() == [0, 5, 6, 9]
    visible = [log.offsets(first) for first in (0, 1, 3, 4, 5, 6, 8, 9, 10)]
    assert visible == [[1, 3, 7], [1, 3, 7], [3, 7], [3, 7], [7], [7], [7], [], []]
    assert log.log.visible_end(10) == 9
    assert log.log.visible_end(7) == 5


def test_a_reader_skips_a_segment_of_hidden_batches() -> None:
    log = Log(segment_bytes="1048576")
    log.put("a")
    log.log.segments.roll_segment(log.log.end_offset, RollRules(1 << 20, 1 << 40), now_ms=1000)
    log.hide()
    log.log.segments.roll_segment(log.log.end_offset, RollRules(1 << 20, 1 << 40), now_ms=1000)
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


def test_hidden_batches_are_not_found_by_timestamp() -> None:
    log = Log()
    log.put("a")
    log.log.append_hidden_batch(write_share_control(ShareControlType.SHARE_DELTA, b"", timestamp=5000), now_ms=5000)

    result = log.log.offset_of_max_timestamp()
    assert result is not None
    assert (result.offset, result.timestamp) == (0, 1000)
    assert log.log.offset_for_timestamp(2000) is None


def test_truncation_and_deletion_remove_hidden_batches() -> None:
    log = Log()
    for step in "hphph":
        log.put("a") if step == "p" else log.hide()
    hidden = log.log.hidden_batches
    assert hidden is not None
    hidden.keep_from = 2

    log.log.delete_records_before(1)
    cut = log.log.truncate_to(3)

    assert (log.hidden(), len(hidden), hidden.offsets_between(0, 9)) == ([2], 1, [2])
    assert str(hidden.keep_from) == "None"
    log.log.restore_batches(cut)
    assert (log.hidden(), hidden.offsets_between(0, 9)) == ([2, 4], [2, 4])


@pytest.mark.parametrize(("keep_from", "left"), [(None, [1, 3, 5]), (3, [3, 5]), (5, [5]), (NO_STATE_STORED, [])])
def test_compaction_removes_hidden_batches_before_the_earliest_share_offset(
    keep_from: int | None, left: list[int]
) -> None:
    log = Log(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    for _ in range(3):
        log.put("a")
        log.hide()
    log.log.segments.roll_segment(log.log.end_offset, RollRules(1 << 20, 1 << 40), now_ms=1000)
    log.put("b")
    assert log.log.hidden_batches is not None
    log.log.hidden_batches.keep_from = keep_from

    cleanable = find_cleanable_range(log.log, log.cleaning, now_ms=1_000_000)
    assert cleanable is not None
    compact_log(log.log, cleanable, log.cleaning, now_ms=1_000_000)

    assert (log.hidden(), log.log.hidden_batches.offsets_between(0, 99)) == (left, left)
    assert log.offsets() == [4]
    assert log.offsets(5) == [6]


def test_an_unreplicated_offset_does_not_replace_older_batches() -> None:
    hidden = HiddenBatches()
    for offset in (1, 3, 5):
        hidden.add_offset(offset)
    hidden.keep_from = 5

    assert [hidden.must_keep(1, 2, high_watermark) for high_watermark in (4, 5, 6)] == [True, True, False]


@pytest.mark.parametrize(("keep_from", "start"), [(1, 0), (3, 2), (NO_STATE_STORED, 4)])
def test_retention_keeps_the_segment_with_the_earliest_share_offset(keep_from: int, start: int) -> None:
    log = Log(retention_ms="1000")
    for _ in range(2):
        log.put("a")
        log.hide()
        log.log.segments.roll_segment(log.log.end_offset, RollRules(1 << 20, 1 << 40), now_ms=1000)
    log.put("b")
    assert log.log.hidden_batches is not None
    log.log.hidden_batches.keep_from = keep_from
    log.log.segments[2].max_timestamp = 1_000_000

    delete_old_segments(log.log, log.cleaning, now_ms=1_000_000)

    assert log.log.start_offset == start
