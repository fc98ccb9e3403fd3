"""The records of the early access against those of Apache Kafka 4.0.0 after the same requests (early_record_script.py).

`early_records.jsonl` was read from both topics of a 4.0.0 broker. It orders the topics of a list by a hash of their
ids, so no order is compared there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire import Client
from mockbroker import Cluster
from tests.mockbroker.editions.early_record_script import EDITION, TOPICS, Script
from tests.support.brokers.edition_cluster import EditionCluster

RECORDED = Path(__file__).with_name("early_records.jsonl")


def _sort_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sort_lists(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted(map(_sort_lists, value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


def _json_lines(records: Iterator[Any]) -> list[str]:
    return [json.dumps(_sort_lists(line)) for line in records]


def test_what_groups_and_states_leave_behind_is_what_4_0_0_writes() -> None:
    cluster = Cluster(share_edition=EDITION, topics=TOPICS)
    with cluster, Client(cluster.bootstrap_servers, edition=EDITION) as client:
        script = Script(client)
        script.play()
        lines = _json_lines(script.read_records())

    assert lines == _json_lines(json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("topics", [("t",), ("nowhere",)])
def test_a_group_that_was_loaded_sees_of_its_topics_what_it_saw_before(topics: tuple[str, ...]) -> None:
    with EditionCluster(EDITION, nodes=2) as stage:
        home = stage.find_coordinator()
        epoch = stage.heartbeat(1, 0, *topics, node=home)["memberEpoch"]
        stage.cluster.move_leader("__consumer_offsets", 0, to=1 - home)

        again = stage.heartbeat_when_loaded(1, epoch, node=1 - home)

        assert (again["errorCode"], again["memberEpoch"]) == (0, epoch)
