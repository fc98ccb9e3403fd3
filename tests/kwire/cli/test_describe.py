"""``kwire describe``: the table of a message, the list of all, and help with a wrong name."""

from __future__ import annotations

import pytest

from kwire.cli.main import main
from kwire.schema import EDITIONS, names


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["describe", *arguments]) == code
    streams = capsys.readouterr()
    return streams.err if code else streams.out


def test_a_message_is_a_table_with_the_meaning_of_each_field(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "FindCoordinatorResponse").splitlines()

    assert lines[0] == "FindCoordinatorResponse: response, API key 10, versions 0-6, flexible 3+, edition 4.3"
    assert lines[2].split() == ["field", "type", "versions", "null", "tag", "default"]
    rows = [line.split() for line in lines]
    assert ["ThrottleTimeMs", "int32", "1-6"] in rows
    assert ["ErrorMessage", "string", "1-3", "yes"] in rows
    assert ["Coordinators", "[]Coordinator", "4-6"] in rows
    assert any(line.startswith("  NodeId ") for line in lines)
    assert any("milliseconds" in line for line in lines)


def test_a_version_shows_only_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    table = shown(capsys, "FindCoordinatorResponse", "--version", "2")

    assert "version 2" in table
    assert "Coordinators" not in table
    assert "NodeId" in table


def test_tags_and_defaults_are_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split() for line in shown(capsys, "FetchRequest").splitlines()]

    assert ["ClusterId", "string", "12-18", "yes", "0", "null"] in rows
    assert ["MaxBytes", "int32", "4-18", "2147483647"] in rows


def test_an_edition_has_its_own_table(capsys: pytest.CaptureFixture[str]) -> None:
    table = shown(capsys, "ShareFetchRequest", "--edition", "4.0-early-access")

    assert "versions 0, flexible 0+, edition 4.0-early-access, latest version unstable" in table
    assert "MaxRecords" not in table


def test_a_record_of_a_coordinator_has_a_type_and_no_api_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "ShareGroupMetadataKey").startswith("ShareGroupMetadataKey: coordinator-key, record type 11, ")


def test_the_name_may_be_in_any_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "sharefetchREQUEST").startswith("ShareFetchRequest: ")


@pytest.mark.parametrize("edition", sorted(EDITIONS))
def test_without_a_name_every_message_is_listed(edition: str, capsys: pytest.CaptureFixture[str]) -> None:
    listed = [line.split() for line in shown(capsys, "--edition", edition).splitlines() if line.startswith(" ")]

    assert {next(word for word in words if not word.isdigit()) for words in listed} == set(names(edition))


@pytest.mark.parametrize("edition", sorted(EDITIONS))
def test_every_message_can_be_described(edition: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in names(edition):
        assert shown(capsys, name, "--edition", edition).startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("ShareFetch", "did you mean ShareFetchRequest, ShareFetchResponse"),
        ("ShareFetchReqest", "did you mean ShareFetchRequest"),
        ("qqqq", "'kwire describe' lists all"),
    ],
)
def test_an_unknown_name_is_wrong_use_and_gets_close_ones(
    name: str, suggestion: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert suggestion in shown(capsys, name, code=2)


def test_an_unknown_version_or_edition_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert "has the versions 1-2 in edition 4.3, not 0" in shown(capsys, "ShareFetchRequest", "--version", "0", code=2)
    assert "edition 'x' is not one of 4.3" in shown(capsys, "ShareFetchRequest", "--edition", "x", code=2)
