"""Rows of traffic in a pass over a capture, with what its stages have found out by the end of each span."""

from __future__ import annotations

import random

import pytest

from kwire.capture.reader import read_rows
from kwire.capture.traffic import packet_batches
from tests.support.capture_model import traffic_rows
from tests.support.captures.index_captures import pipeline_rows
from tests.support.captures.mutated_captures import mutate_capture
from tests.support.captures.piece_source import PieceSource

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("waiting_max", [16_384, 20])
def test_a_pass_has_the_rows_of_the_pipeline(waiting_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (traffic_rows, packet_batches):
        monkeypatch.setattr(module, "PENDING_PACKETS_MAX", waiting_max)
    for number in range(30):
        chance = random.Random(f"pass {number}")
        capture = mutate_capture(chance)
        # That a connection speaks TLS is settled by its first bytes in the model, here when its client is known.
        if not capture.is_comparable or (waiting_max == 20 and "tlskey" in capture.label):
            continue
        for level in ("flows", "packets"):
            source = PieceSource(capture.data, chance, chance.choice((300, 3_000, 1 << 20)))
            found = list(read_rows(source, level))
            assert found == pipeline_rows(capture.data, level), (number, capture.label)
