"""The description of the API is valid, and complete."""

from __future__ import annotations

import inspect

import pytest
from openapi_spec_validator import validate

from mockbroker.cluster import Cluster
from mockbroker.control.routes import OPERATIONS, TAGS
from tests.support.brokers.control_client import description

#: Methods that are for Python only: of its objects, its threads, or with functions as arguments.
# `oauth`: programs in other languages use the token endpoint, which is HTTP itself.
_PYTHON_ONLY = {
    "aio",
    "is_stopping",
    "start",
    "stop",
    "run",
    "run_async",
    "wait_until",
    "oauth",
    "journal",
    "control_url",
}
#: What programs do with the history that they get.
_ASSERTIONS = {"assert_conformant", "assert_sent", "assert_never", "assert_count", "assert_order", "requests"}
#: Parts of what an operation returns, and methods whose operation has another name.
_IN_OPERATIONS = {
    **dict.fromkeys(
        ("bootstrap_controllers", "bootstrap_servers", "cluster_id", "profile", "release", "seed", "share_edition"),
        "getCluster",
    ),
    "add_node": "addNode",
    "append_old_messages": "appendOldMessages",
    "chaos": "startChaos",
    "check_faults": "listFaultMisses",
    "client_settings": "getClientSettings",
    "clock": "getClock",
    "conformance_notes": "listConformanceNotes",
    "coordinator": "getCoordinator",
    "create_topic": "createTopic",
    "delete_group": "deleteGroup",
    "delete_topic": "deleteTopic",
    "describe_topic": "getTopic",
    "describe_topics": "listTopics",
    "exchanges": "listExchanges",
    "faults": "listFaults",
    "group": "getGroup",
    "groups": "listGroups",
    "has_faults": "listFaults",
    "kill_node": "killNode",
    "listeners": "listListeners",
    "move_coordinator": "moveCoordinator",
    "move_leader": "moveLeader",
    "nodes": "listNodes",
    "pause_node": "pauseNode",
    "produce": "produceRecords",
    "produce_all": "produceRecords",
    "read": "readRecords",
    "reset": "resetCluster",
    "restart_node": "restartNode",
    "resume_node": "resumeNode",
    "set_node_versions": "setNodeVersions",
    "share_partition": "getSharePartition",
    "share_partitions": "listSharePartitions",
    "start_node": "startNode",
    "stop_node": "stopNode",
    "tls": "rotateCertificate",
    "topics": "listTopics",
    "wait_for_group": "waitForGroup",
    "wait_for_held": "waitForHeld",
    "wait_for_node": "waitForNode",
    "wait_for_offset": "waitForOffset",
    "wait_for_request": "waitForRequest",
    "wait_for_share_members": "waitForShareMembers",
}


def test_the_description_is_valid() -> None:
    validate(description())


def test_every_operation_has_a_name_of_its_own_a_subject_and_a_summary() -> None:
    assert len({operation.operation_id for operation in OPERATIONS}) == len(OPERATIONS)
    assert {operation.tag for operation in OPERATIONS} == set(TAGS)
    assert [each.operation_id for each in OPERATIONS if not inspect.getdoc(each.function)] == []


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.operation_id)
def test_the_parameters_of_a_path_are_those_of_its_function(operation: object) -> None:
    described = description()["paths"][operation.path][operation.method.lower()]  # type: ignore[attr-defined]
    in_path = [row["name"] for row in described.get("parameters", []) if row["in"] == "path"]

    assert sorted(in_path) == sorted(operation.path_names)  # type: ignore[attr-defined]


def test_what_a_cluster_does_in_python_is_in_the_api() -> None:
    methods = {name for name in dir(Cluster) if not name.startswith("_")}
    operations = {operation.operation_id for operation in OPERATIONS}

    assert methods - _PYTHON_ONLY - _ASSERTIONS == set(_IN_OPERATIONS)
    assert set(_IN_OPERATIONS.values()) - operations == set()
