"""The table of targets: each is compared with the newest run of its benchmark."""

from __future__ import annotations

import msgspec
import pytest

from tools.bench.history import Entry
from tools.bench.targets import TARGETS, Target, _describe_miss, measured_value, newest_run, render_section


def _entry(case: str, peer: str, ratio: float | None, *, day: int = 2, benchmark: str = "codec") -> Entry:
    median, date = 1.0, f"2026-01-0{day}T00:00Z"
    return Entry(
        case=case,
        peer=peer,
        version="1",
        unit="us",
        median=median,
        least=median,
        most=median,
        ratio=ratio,
        benchmark=benchmark,
        commit="abc",
        date=date,
        machine="m",
    )


OLD = _entry("decode a", "kio", 100.0, day=1)
NEW = [
    _entry("decode a", "kio", 2.0),
    _entry("decode b", "kio", 8.0),
    _entry("encode a", "kio", 10.0),
    _entry("decode a", "kwire", None),
]


def test_only_the_newest_run_of_a_benchmark_counts() -> None:
    other = _entry("produce", "kfake", 1.0, day=3, benchmark="broker")

    assert newest_run([OLD, *NEW, other], "codec") == NEW
    assert newest_run([OLD], "broker") == []


def test_several_cases_give_their_geometric_mean() -> None:
    target = Target("decode", "codec", ("decode ",), "kio", 3)

    assert measured_value(target, [OLD, *NEW]) == pytest.approx(4.0)
    assert measured_value(target._replace(ends=(" b",)), NEW) == pytest.approx(8.0)
    assert measured_value(target._replace(peer="kwire", is_ratio=False), NEW) == 1.0
    assert measured_value(target._replace(peer="aiokafka"), NEW) is None


def test_a_single_value_may_be_zero_and_a_miss_has_its_reason() -> None:
    idle = Target("growth", "codec", ("growth",), "kwire", 1, "KiB", is_ratio=False, is_least=False)
    none = msgspec.structs.replace(_entry("growth", "kwire", None), median=0.0)

    assert measured_value(idle, [none]) == 0
    assert _describe_miss(idle, 3.0) == "missed: by 200 %"
    assert _describe_miss(idle._replace(reason="caches"), 3.0) == "missed: by 200 %; caches"


def test_the_section_says_what_is_met_and_how_far_the_others_are() -> None:
    text, is_met = render_section(NEW)

    assert not is_met
    assert "| decode messages, beside kio | at least 3 x | 4 x | met |" in text
    assert "| encode messages, beside kio | at least 50 x | 10 x | missed: by 400 % |" in text
    assert "| decode messages, beside kafka-python | at least 12 x | - | not measured |" in text
    assert len(TARGETS) == text.count("\n|") - 2
