"""The codec benchmark: the peers read the same messages, and the section reports whether the goals were reached."""

from __future__ import annotations

import pytest

from tools.bench.codec import __main__ as codec
from tools.bench.codec.__main__ import geometric_means, kwire_pair, missed_goals, render_section
from tools.bench.codec.peers import load_cases
from tools.bench.rounds import Timing


def _measured(kafka_python: float) -> dict[str, dict[str, dict[str, Timing]]]:
    timed = {
        "kwire": Timing(0.001, 1.0),
        "kio": Timing(0.01, 10.0),
        "kafka-python": Timing(0.001 * kafka_python, kafka_python),
        "aiokafka": Timing(0.006, 6.0),
        "pure Python": Timing(0.005, 5.0),
    }
    without_peers = {name: timed[name] for name in ("kwire", "kio", "pure Python")}
    return {what: {"fetch_v11": timed, "sharefetch_v1": without_peers} for what in ("decode", "encode")}


def test_a_mean_covers_the_messages_that_a_peer_supports() -> None:
    assert geometric_means(_measured(4.0)["decode"]) == pytest.approx(
        {"kio": 10.0, "kafka-python": 4.0, "aiokafka": 6.0, "pure Python": 5.0}
    )


def test_the_section_reports_a_missed_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "GOALS", codec.PURE_GOALS)

    assert missed_goals(_measured(4.0)) == []
    assert "all reached" in render_section(_measured(4.0))
    assert missed_goals(_measured(3.0)) == ["encode is 3.00 times kafka-python, not 4"]
    assert "not all reached" in render_section(_measured(3.0))
    assert "| Fetch v11, the same | 1,000.0 | 10.00 | 3.00 | 6.00 | 5.00 |" in render_section(_measured(3.0))


def test_every_case_is_written_back_as_it_was_read() -> None:
    found = [case for case in load_cases() if kwire_pair(case).encode() == case.data]

    assert len(found) == 10
