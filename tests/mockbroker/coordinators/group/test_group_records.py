"""The records of groups against those that Apache Kafka wrote for the same requests (group_records_4.4.jsonl).

`python -m tests.support.brokers.record_groups` records them again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kwire import uuids
from kwire.registry import RELEASES
from tests.support.brokers import group_history
from tests.support.brokers.group_broker import VirtualGroupClient

RECORDED = Path(__file__).parent


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def written(release: str) -> dict[str, list[Any]]:
    """The records of each group in our log after the same requests."""
    broker = VirtualGroupClient(topics=group_history.TOPICS, config=group_history.CONFIG, release=release)
    group_history.send_group_requests(broker)
    names = {uuids.to_text(broker.topic_id(name)): name for name in group_history.TOPICS}
    return group_history.group_lines(broker.read_all_batches(), names)


@pytest.mark.parametrize("group_id", group_history.GROUPS)
def test_the_records_are_those_of_a_real_broker(written: dict[str, list[Any]], release: str, group_id: str) -> None:
    lines = map(json.loads, (RECORDED / f"group_records_{release}.jsonl").read_text("utf-8").splitlines())
    recorded = [group_history.normalize(line, {}, {}) for line in lines if line["group"] == group_id]

    assert recorded
    assert written[group_id] == recorded
