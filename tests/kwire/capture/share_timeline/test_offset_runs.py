"""The map of runs has the latest state of each offset."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kwire.capture.share_timeline.offset_runs import OffsetRun, OffsetRunMap


@pytest.mark.parametrize("seed", range(10))
def test_the_run_map_has_the_latest_state_of_each_offset(seed: int) -> None:
    chance, runs, known = random.Random(seed), OffsetRunMap(), dict[int, tuple[str, int | None]]()
    for _ in range(200):
        first = chance.randrange(60)
        run = OffsetRun(first, first + chance.randrange(8), chance.choice(["Available", "Acquired", "Archived"]), 1)
        runs.put(run)
        known |= dict.fromkeys(range(run.first, run.last + 1), (run.state, 1))
        if chance.random() < 0.05:
            runs.drop_finished_front()
            open_ones = [offset for offset, (state, _) in sorted(known.items()) if state != "Archived"]
            known = {offset: known[offset] for offset in known if open_ones and offset >= open_ones[0]}

        transitions = {offset: (each.state, 1) for each in runs for offset in range(each.first, each.last + 1)}
        assert transitions == known
        sizes = {state: size for state, size in runs.sizes.items() if size}
        assert sizes == Counter(state for state, _ in known.values())
        pieces = [(low, high, None if each is None else each.state) for low, high, each in runs.split_range(10, 30)]
        summaries = [(offset, state) for low, high, state in pieces for offset in range(low, high + 1)]
        assert summaries == [(offset, known.get(offset, (None,))[0]) for offset in range(10, 31)]
