"""The records of a streams group, byte for byte those that Apache Kafka wrote for the same requests.

`python -m tests.support.brokers.record_groups` records them again (streams_records_4.4.jsonl).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kwire.registry import RELEASES
from tests.support.brokers import group_history
from tests.support.brokers.group_broker import VirtualGroupClient

RECORDED = Path(__file__).parent


@pytest.mark.parametrize("release", RELEASES)
def test_every_record_of_a_groups_life_is_that_of_a_real_broker(release: str) -> None:
    broker = VirtualGroupClient(
        topics=group_history.STREAMS_TOPICS, config=group_history.STREAMS_CONFIG, release=release
    )
    group_history.send_streams_requests(broker)
    recorded = (RECORDED / f"streams_records_{release}.jsonl").read_text("utf-8").splitlines()

    assert group_history.streams_lines(broker.read_all_batches()) == [json.loads(line) for line in recorded]
