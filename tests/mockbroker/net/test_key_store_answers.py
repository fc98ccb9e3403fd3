"""What a broker answers when the key store of a running listener is changed, and which one it serves then.

Source: `key_store_answers.json`, recorded with Kafka 4.4.0 and 4.3.0, which agree
(`python -m tests.support.key_stores.record`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mockbroker import Cluster
from tests.support.key_stores.cases import CASES, KeyStoreBroker

RECORDED = json.loads(Path(__file__).with_name("key_store_answers.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    broker = KeyStoreBroker(tmp_path_factory.mktemp("stores"), lambda client: None)
    with Cluster(properties=broker.properties) as cluster:
        return broker.play(cluster.nodes()[0].endpoints)


def test_every_case_is_recorded() -> None:
    assert list(RECORDED) == [case.name for case in CASES]


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_a_change_of_a_key_store_is_answered_as_by_kafka(name: str, answers: dict[str, Any]) -> None:
    assert answers[name] == RECORDED[name]
