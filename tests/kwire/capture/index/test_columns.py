"""Columns in memory, and in a file if they are large."""

from __future__ import annotations

import numpy as np
import pytest

from kwire.capture import index
from kwire.capture.index import columns
from kwire.capture.index.scan import scanner
from kwire.capture.reader import read_flow_batches
from tests.support.captures.capture_files import SHARE
from tests.support.captures.index_captures import batch_rows, build_test_captures

pytestmark = pytest.mark.slow


def test_large_columns_move_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    small = batch_rows(read_flow_batches([index.build_index(SHARE)], None))
    monkeypatch.setattr(columns, "SPILL_SIZE", 100)
    found = columns.Columns()
    for number in range(20):
        found.add_column(str(number), np.arange(number, dtype=np.int32))

    assert [found[str(number)].tolist() for number in range(20)] == [list(range(number)) for number in range(20)]
    assert batch_rows(read_flow_batches([index.build_index(SHARE)], None)) == small


def test_fragments_of_bodies_are_found_in_any_span(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = build_test_captures()["impaired small segments"]
    expected = batch_rows(read_flow_batches([index.build_index(capture)], None))
    monkeypatch.setattr(columns, "SPILL_SIZE", 100)
    monkeypatch.setattr(scanner, "SPAN_SIZE", 70_000)
    found = index.build_index(capture)

    firsts = found.columns["fragments.first"].tolist()
    counts = [len(found.columns[f"{part}.fragments.at"]) for part in range(len(found.spans) + 1)]
    assert len(firsts) - 1 == len(found.spans) > 3
    assert sum(count > 0 for count in counts) > 1
    assert firsts == [sum(counts[:part]) for part in range(len(counts))]
    assert batch_rows(read_flow_batches([found], None)) == expected
