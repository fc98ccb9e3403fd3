"""Exchanges that decide: named by the case, or the last ones of its APIs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import kwire
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.metadata import MetadataRequest
from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_broker import open_mock
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.case_table import find_cases, select_cases
from mockbroker.certify.cases.connecting.tagged_fields import require_flexible
from mockbroker.certify.driver.process import DriverProcess
from mockbroker.certify.play import Played, PlayOptions, play_case
from mockbroker.certify.verdicts import Verdict
from tests.support.certify.scripted_driver import command

OPTIONS = PlayOptions(open_mock(seed=1, release=None), keep_captures=False)
Function = Callable[[CaseRun], None]


def _play(function: Function, folder: Path, *decided_by: str) -> Played:
    function.__doc__ = "No fault."
    made = case(
        "connecting.test.case",
        title="T",
        level=Level.MUST,
        rule="R.",
        source=Source("KIP-1"),
        cluster=ClusterPlan(topics={"orders": 1}),
        decided_by=decided_by,
    )(function)
    process = DriverProcess(command("fails"))
    try:
        hello = process.hello()
        return play_case(
            made, process, hello, options=OPTIONS, path=folder / "played", start_driver=lambda: (process, hello)
        )
    finally:
        process.kill()


def _ask(run: CaseRun, *, metadata_version: int = 9) -> None:
    """A raw client in place of the client under test."""
    with kwire.Client(run.cluster.bootstrap_servers, client_id="raw") as client:
        client.send(MetadataRequest(), version=metadata_version)
        client.send(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), version=3)


def _expect(run: CaseRun) -> None:
    run.expect(condition=False, expected="a thing", seen="another")


def _recommend(run: CaseRun) -> None:
    run.should(condition=False, expected="a thing", seen="another")


def _send(run: CaseRun) -> None:
    run.producer().send("orders", "a")


def _wait(run: CaseRun) -> None:
    run.wire.wait_for_request("Produce", timeout_s=0.05)


def _assert(run: CaseRun) -> None:
    run.wire.assert_sent("Produce")


@pytest.mark.parametrize(
    ("fail", "verdict"),
    [
        (_expect, Verdict.FAILED),
        (_recommend, Verdict.NON_STRICT),
        (_send, Verdict.FAILED),
        (_wait, Verdict.FAILED),
        (_assert, Verdict.FAILED),
    ],
)
def test_what_names_no_exchange_is_decided_by_the_last_ones_of_the_apis(
    fail: Function, verdict: Verdict, tmp_path: Path
) -> None:
    asked: list[int] = []

    def function(run: CaseRun) -> None:
        _ask(run)
        asked.extend(each.number for each in run.wire.requests("Metadata"))
        fail(run)

    played = _play(function, tmp_path, "Metadata")

    assert (played.verdict, list(played.deciding)) == (verdict, asked)
    assert asked


def test_without_requests_of_the_apis_the_last_ones_of_any_api_decide(tmp_path: Path) -> None:
    asked: list[int] = []

    def function(run: CaseRun) -> None:
        _ask(run)
        asked.extend(each.number for each in run.last_exchanges())
        _expect(run)

    assert list(_play(function, tmp_path, "Produce").deciding) == asked
    assert len(asked) >= 2


def test_named_exchanges_and_other_verdicts_stay_as_they_are(tmp_path: Path) -> None:
    asked: list[int] = []

    def named(run: CaseRun) -> None:
        _ask(run)
        asked.extend(each.number for each in run.wire.requests("ApiVersions"))
        run.expect(condition=False, expected="a thing", exchanges=run.wire.requests("ApiVersions"))

    def ended(run: CaseRun) -> None:
        run.not_exercised("nothing was sent")

    assert list(_play(named, tmp_path, "Metadata").deciding) == asked
    played = _play(ended, tmp_path, "Metadata")
    assert (played.verdict, played.seen) == (Verdict.NOT_EXERCISED, "nothing was sent")


@pytest.mark.parametrize(("version", "verdict"), [(8, Verdict.NOT_EXERCISED), (9, Verdict.OK)])
def test_tagged_fields_are_exercised_by_flexible_versions_only(version: int, verdict: Verdict, tmp_path: Path) -> None:
    def function(run: CaseRun) -> None:
        _ask(run, metadata_version=version)
        require_flexible(run, ["Metadata"])

    played = _play(function, tmp_path)

    assert played.verdict is verdict
    assert f"Metadata {version}" in " ".join([played.seen, *played.notes])


def test_every_case_of_these_families_has_exchanges_that_decide() -> None:
    cases = select_cases(find_cases(), ["connecting", "producing", "fetching", "groups"])

    assert [each.id for each in cases if not each.decided_by] == []
