"""The cases of connecting and producing with librdkafka: their verdicts are those of producing_verdicts.txt.

A change of the broker or of a case that changes a verdict is seen here; a wanted change is recorded in the file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.recorded_verdicts import changed_verdicts

pytestmark = [pytest.mark.client, pytest.mark.slow]


@pytest.mark.timeout(600)
def test_the_verdicts_of_connecting_and_producing_are_the_recorded_ones(tmp_path: Path) -> None:
    recorded = Path(__file__).with_name("producing_verdicts.txt")

    assert changed_verdicts(recorded, tmp_path, "connecting", "producing") == {}
