"""Sequences with two brokers: a mockbroker behind a socket stands for the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mockbroker import Cluster
from mockbroker.config.releases import DEFAULT_RELEASE
from tools.oracle.conversations.broker_properties import properties, virtual_broker
from tools.oracle.conversations.coordinator_warm_up import warm_up
from tools.oracle.conversations.script_runner import ScriptRunner
from tools.oracle.fuzz.comparison import DifferenceClass
from tools.oracle.fuzz.findings import write_finding
from tools.oracle.fuzz.sequence_pairs import FuzzTarget, play_batch, shrink_difference


def _target(cluster: Cluster, *apis: str) -> FuzzTarget:
    return FuzzTarget(cluster.bootstrap_servers, DEFAULT_RELEASE, 1, apis)


def test_a_broker_agrees_with_itself() -> None:
    with Cluster(properties=properties("fuzz")) as cluster:
        warm_up(cluster.bootstrap_servers)
        result = play_batch(_target(cluster, "CreateTopics", "DescribeConfigs", "OffsetFetch"), range(12), 2)

    assert result.pairs.total() > 150
    assert not result.differing
    assert not result.failures
    assert not result.invalid


def test_a_difference_is_found_shrunk_and_written_as_a_conversation(tmp_path: Path) -> None:
    other = {**properties("fuzz"), "create.topic.policy.class.name": "", "min.insync.replicas": "2"}
    expected = DifferenceClass("CreateTopics", "/topics/*/configs/*/value", "text", "text")
    with Cluster(properties=other) as cluster:
        target = _target(cluster, "CreateTopics")
        result = play_batch(target, range(12), 2)
        numbers = [
            row.number for row in result.differing if any(step.classes[0] == expected for step in row.differences)
        ]
        shrunk = shrink_difference(target, numbers[0], expected)

    assert shrunk.script is not None
    assert len(shrunk.script["steps"]) <= 6
    assert shrunk.script["steps"][-1]["api"] == "CreateTopics"
    name = write_finding(tmp_path, 1, shrunk)
    script = json.loads((tmp_path / name).read_text("utf-8"))
    assert ScriptRunner(virtual_broker("fuzz", DEFAULT_RELEASE), script).run() == shrunk.ours
    recorded: Any = json.loads((tmp_path / name.replace(".json", ".expected.json")).read_text("utf-8"))
    assert recorded == shrunk.kafka


def test_a_broker_that_cannot_be_reached_is_a_failure() -> None:
    result = play_batch(FuzzTarget("127.0.0.1:1", DEFAULT_RELEASE, 1), range(2), 1)

    assert len(result.failures) == 2
    assert "sequence 0" in result.failures[0]
