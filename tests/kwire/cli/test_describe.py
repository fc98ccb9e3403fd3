"""``kwire describe``: the table of a message, the list of all messages, and suggestions for unknown names."""

from __future__ import annotations

import pytest

from kwire.cli.main import main
from kwire.schema import EDITIONS, message_names
from tests.support.cli.commands import Capsys


def run_describe(capsys: Capsys, *arguments: str, code: int = 0) -> str:
    assert main(["describe", *arguments]) == code
    streams = capsys.readouterr()
    return streams.err if code else streams.out


def test_a_message_is_a_table_with_the_meaning_of_each_field(capsys: Capsys) -> None:
    lines = run_describe(capsys, "FindCoordinatorResponse").splitlines()

    assert lines[0] == "FindCoordinatorResponse: response, API key 10, versions 0-6, flexible 3+, edition 4.4"
    assert lines[2].split() == ["field", "type", "versions", "null", "tag", "default"]
    rows = [line.split() for line in lines]
    assert ["ThrottleTimeMs", "int32", "1-6"] in rows
    assert ["ErrorMessage", "string", "1-3", "yes"] in rows
    assert ["Coordinators", "[]Coordinator", "4-6"] in rows
    assert any(line.startswith("  NodeId ") for line in lines)
    assert any("milliseconds" in line for line in lines)


def test_a_version_shows_only_its_fields(capsys: Capsys) -> None:
    table = run_describe(capsys, "FindCoordinatorResponse", "--version", "2")

    assert "version 2" in table
    assert "Coordinators" not in table
    assert "NodeId" in table


def test_tags_and_defaults_are_in_the_table(capsys: Capsys) -> None:
    rows = [line.split() for line in run_describe(capsys, "FetchRequest").splitlines()]

    assert ["ClusterId", "string", "12-18", "yes", "0", "null"] in rows
    assert ["MaxBytes", "int32", "4-18", "2147483647"] in rows


def test_an_edition_has_its_own_table(capsys: Capsys) -> None:
    table = run_describe(capsys, "ShareFetchRequest", "--edition", "4.0-early-access")

    assert "versions 0, flexible 0+, edition 4.0-early-access, latest version unstable" in table
    assert "MaxRecords" not in table


def test_a_record_of_a_coordinator_has_a_type_and_no_api_key(capsys: Capsys) -> None:
    head = "ShareGroupMetadataKey: coordinator-key, record type 11, "
    assert run_describe(capsys, "ShareGroupMetadataKey").startswith(head)


def test_the_name_may_be_in_any_case(capsys: Capsys) -> None:
    assert run_describe(capsys, "sharefetchREQUEST").startswith("ShareFetchRequest: ")


@pytest.mark.parametrize("edition", sorted(EDITIONS))
def test_without_a_name_every_message_is_listed(edition: str, capsys: Capsys) -> None:
    listed = [line.split() for line in run_describe(capsys, "--edition", edition).splitlines() if line.startswith(" ")]

    assert {next(word for word in words if not word.isdigit()) for words in listed} == set(message_names(edition))


@pytest.mark.parametrize("edition", sorted(EDITIONS))
def test_every_message_can_be_described(edition: str, capsys: Capsys) -> None:
    for name in message_names(edition):
        assert run_describe(capsys, name, "--edition", edition).startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("ShareFetch", "did you mean ShareFetchRequest, ShareFetchResponse"),
        ("ShareFetchReqest", "did you mean ShareFetchRequest"),
        ("qqqq", "'kwire describe' lists all"),
    ],
)
def test_an_unknown_name_is_a_usage_error_with_suggestions(name: str, suggestion: str, capsys: Capsys) -> None:
    assert suggestion in run_describe(capsys, name, code=2)


def test_versions_that_kafka_4_removed_are_listed_and_described(capsys: Capsys) -> None:
    lines = run_describe(capsys).splitlines()
    assert [" ".join(line.split()) for line in lines if " ProduceRequest" in line or "StopReplicaRequest" in line] == [
        "0 ProduceRequest versions 3-13, removed 0-2",
        "5 StopReplicaRequest no version left, removed 0-4",
    ]

    newest = run_describe(capsys, "ListOffsetsRequest")
    assert newest.endswith("Kafka 4.0 removed the versions 0: see --edition before-4.0\n")
    assert "MaxNumOffsets" not in newest
    for arguments in (("--version", "0"), ("--edition", "before-4.0")):
        removed = run_describe(capsys, "ListOffsetsRequest", *arguments)
        assert removed.startswith("ListOffsetsRequest: request, API key 2, versions 0, flexible 6+, edition before-4.0")
        assert "MaxNumOffsets" in removed
    assert "UngroupedPartitions" in run_describe(capsys, "StopReplicaRequest")


def test_an_unknown_version_or_edition_is_a_usage_error(capsys: Capsys) -> None:
    wrong_version = run_describe(capsys, "ShareFetchRequest", "--version", "0", code=2)
    assert "has the versions 1-2 in edition 4.4, not 0" in wrong_version
    assert "edition 'x' is not one of 4.4, 4.3" in run_describe(capsys, "ShareFetchRequest", "--edition", "x", code=2)
