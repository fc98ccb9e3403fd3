"""The codec's benchmark: the peers do the same work, and the page says whether the goals were reached."""

from __future__ import annotations

import pytest

from tools.bench.codec import means, missed, ours, render
from tools.bench.codec_peers import cases
from tools.bench.rounds import Timed


def _measured(kafka_python: float) -> dict[str, dict[str, dict[str, Timed]]]:
    timed = {
        "kwire": Timed(0.001, 1.0),
        "kio": Timed(0.01, 10.0),
        "kafka-python": Timed(0.001 * kafka_python, kafka_python),
        "aiokafka": Timed(0.006, 6.0),
    }
    without_peers = {name: timed[name] for name in ("kwire", "kio")}
    return {what: {"fetch_v11": timed, "sharefetch_v1": without_peers} for what in ("decode", "encode")}


def test_a_mean_is_over_the_messages_that_a_peer_knows() -> None:
    assert means(_measured(4.0)["decode"]) == pytest.approx({"kio": 10.0, "kafka-python": 4.0, "aiokafka": 6.0})


def test_the_page_says_when_a_goal_is_missed() -> None:
    assert missed(_measured(4.0)) == []
    assert "all reached" in render(_measured(4.0))
    assert missed(_measured(3.0)) == ["encode is 3.00 times kafka-python, not 4"]
    assert "not all reached" in render(_measured(3.0))
    assert "| Fetch v11, the same | 1,000.0 | 10.00 | 3.00 | 6.00 |" in render(_measured(3.0))


def test_every_case_is_written_back_as_it_was_read() -> None:
    found = [case for case in cases() if ours(case).encode() == case.data]

    assert len(found) == 10
