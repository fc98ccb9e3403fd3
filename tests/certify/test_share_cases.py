"""The cases of share groups with librdkafka: their verdicts are those that were recorded in share_verdicts.txt.

A change of the broker or of a case that changes a verdict is seen here; a wanted change is recorded in the file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.recorded_verdicts import changed_verdicts

RECORDED = Path(__file__).with_name("share_verdicts.txt")

pytestmark = [pytest.mark.client, pytest.mark.slow]


@pytest.mark.timeout(600)
def test_the_verdicts_of_librdkafka_are_the_recorded_ones(tmp_path: Path) -> None:
    assert changed_verdicts(RECORDED, tmp_path, "share") == {}
