"""A broker with a data directory that is killed under load keeps every promise; one without does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.broker_process import BrokerProcess
from tests.durability.kill import PARTITION_COUNT, play_kills

pytestmark = [pytest.mark.client, pytest.mark.slow]
_SETTINGS = ("--profile", "quick", "--set", f"num.partitions={PARTITION_COUNT}")


def test_a_killed_broker_keeps_what_it_has_promised(tmp_path: Path) -> None:
    broker = BrokerProcess(["--data-dir", str(tmp_path / "data"), *_SETTINGS], tmp_path / "broker.log")
    try:
        violations = play_kills(broker, kills=8, seed=1)
    finally:
        broker.kill()

    assert violations == []
