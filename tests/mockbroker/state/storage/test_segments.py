"""Segments: when one is full, and where a log is cut."""

from __future__ import annotations

from mockbroker.state.storage.segments import LogSegments, RollRules

RULES = RollRules(size_max=100, age_max_ms=1_000)


def filled_segments(*batches: tuple[int, int, int], rules: RollRules = RULES) -> LogSegments:
    """Batches as base offset, size and largest timestamp, appended at their own time."""
    segments = LogSegments()
    for base, size, timestamp in batches:
        segments.add_batch(base, size, timestamp, rules, now_ms=max(0, timestamp))
    return segments


def base_offsets(segments: LogSegments) -> list[int]:
    return [segment.base_offset for segment in segments]


def test_a_batch_that_does_not_fit_begins_a_segment() -> None:
    assert base_offsets(filled_segments((0, 60, 5), (3, 40, 5), (5, 1, 5), (9, 99, 5))) == [0, 5]
    assert base_offsets(filled_segments((0, 60, 5), (3, 41, 5))) == [0, 3]


def test_a_batch_later_than_the_first_by_more_than_the_age_begins_a_segment() -> None:
    assert base_offsets(filled_segments((0, 1, 500), (1, 1, 1_500))) == [0]
    assert base_offsets(filled_segments((0, 1, 500), (1, 1, 1_501), (2, 1, 900), (3, 1, 2_501))) == [0, 1]


def test_without_timestamps_the_age_is_that_of_the_segment() -> None:
    segments = LogSegments()
    for base, now_ms in enumerate((0, 1_000, 1_001)):
        segments.add_batch(base, 1, -1, RULES, now_ms=now_ms)

    assert base_offsets(segments) == [0, 2]
    assert segments[0].newest_ms == 1_000


def test_the_jitter_ends_a_segment_earlier_and_spares_each_another_part_of_its_age() -> None:
    rules = RollRules(size_max=1 << 30, age_max_ms=1_000, jitter_ms=900)
    segments = filled_segments(*((at, 1, at * 50) for at in range(200)), rules=rules)

    ages = {after.base_offset - before.base_offset for before, after in zip(segments, list(segments)[1:], strict=False)}
    assert len(ages) > 3
    assert max(ages) <= 21


def test_no_read_goes_beyond_the_end_of_a_segment() -> None:
    segments = filled_segments((0, 60, 5), (3, 60, 5), (7, 60, 5))

    assert [segments.segment_end(offset) for offset in (0, 2, 3, 6, 7, 100)] == [3, 3, 7, 7, None, None]
    assert [segments.floor_index(offset) for offset in (-1, 0, 2, 3, 6, 7, 100)] == [0, 0, 0, 1, 1, 2, 2]


def test_a_truncated_log_keeps_the_segments_below_and_is_clean_no_further() -> None:
    segments = filled_segments((0, 60, 5), (3, 60, 5), (7, 60, 5))
    segments.cleaned_to = 7
    segments.truncate_to(3)

    assert base_offsets(segments) == [0]
    assert segments.cleaned_to == 3
