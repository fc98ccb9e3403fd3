"""How often lines of one kind are logged, and the numbers of those that are left out."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mockbroker.log.repetitions import LineKind, Repetitions


class _Time:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class _Lines:
    """Lines that are logged: a name for one in full, and (name, number, seconds) for those that were left out."""

    def __init__(self, **limits: float) -> None:
        self.time = _Time()
        self.repetitions = Repetitions(now_s=self.time, **limits)  # type: ignore[arg-type]
        self.written: list[str | tuple[str, int, float]] = []

    def log(self, name: str, *, template: str = "t") -> None:
        lines = self.written

        class Line:
            def write_count(self, count: int, seconds: float) -> None:
                lines.append((name, count, seconds))

        if self.repetitions.admit(LineKind("mockbroker.x", template, name), Line()):
            lines.append(name)


def test_75_000_lines_of_one_client_in_a_minute_are_some_sixty_and_their_numbers() -> None:
    lines = _Lines()
    for index in range(75_000):
        lines.time.now_s = 1000 + index * 60 / 75_000
        lines.log("client")
    lines.repetitions.flush()

    counts = [entry for entry in lines.written if isinstance(entry, tuple)]
    assert lines.written.count("client") == 60
    assert len(counts) == 6
    assert sum(count for _, count, _ in counts) == 75_000 - 60
    assert all(9.9 < seconds < 10.1 for _, _, seconds in counts)


def test_a_number_is_logged_before_the_first_line_after_the_window_whatever_its_kind() -> None:
    lines = _Lines(lines_max=2, window_s=10)
    for _ in range(5):
        lines.log("a")
    lines.time.now_s += 9.9
    lines.log("b")
    lines.time.now_s += 0.1
    lines.log("b")

    assert lines.written == ["a", "a", "b", ("a", 3, 10.0), "b"]


def test_a_kind_begins_again_after_its_window() -> None:
    lines = _Lines(lines_max=1, window_s=10)
    for _ in range(3):
        lines.log("a")
        lines.time.now_s += 10

    assert lines.written == ["a", "a", "a"]


def test_the_end_logs_what_is_open_and_forgets_it() -> None:
    lines = _Lines(lines_max=1, window_s=10)
    lines.log("a")
    lines.log("a")
    lines.repetitions.flush()
    lines.repetitions.flush()
    lines.log("a")

    assert lines.written == ["a", ("a", 1, 0.0), "a"]


def test_beyond_the_limit_of_kinds_lines_are_counted_together() -> None:
    lines = _Lines(lines_max=2, window_s=10, kinds_max=3)
    for index in range(100):
        lines.log(f"client-{index}")
    lines.repetitions.flush()

    assert lines.written == [*(f"client-{index}" for index in range(5)), ("client-99", 95, 0.0)]


def test_kinds_whose_window_has_ended_are_dropped_for_others() -> None:
    lines = _Lines(lines_max=1, window_s=10, kinds_max=3)
    for index in range(30):
        lines.log(f"client-{index}")
        lines.time.now_s += 5

    assert lines.written == [f"client-{index}" for index in range(30)]
    assert len(lines.repetitions) <= 3


@given(
    events=st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("xy"), st.floats(0, 30)), max_size=200),
    lines_max=st.integers(1, 4),
    kinds_max=st.integers(1, 6),
)
def test_every_line_is_logged_or_counted_and_the_table_is_bounded(
    events: list[tuple[str, str, float]], lines_max: int, kinds_max: int
) -> None:
    lines = _Lines(lines_max=lines_max, window_s=10, kinds_max=kinds_max)
    for name, template, passed_s in events:
        lines.time.now_s += passed_s
        lines.log(name, template=template)
        assert len(lines.repetitions) <= kinds_max + 2  # One more for each template.
    lines.repetitions.flush()

    written = Counter(entry for entry in lines.written if isinstance(entry, str))
    left_out = sum(entry[1] for entry in lines.written if isinstance(entry, tuple))
    assert sum(written.values()) + left_out == len(events)
