"""The page and the picture of published results."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from mockbroker.certify.results import CaseRecord, DriverRecord, ResultRecord, RunRecord
from mockbroker.certify.verdicts import Verdict
from tools.certification.page import find_problems, keep_cases, render_page, replace_results
from tools.certification.picture import draw_matrix


def _case(case_id: str) -> CaseRecord:
    return CaseRecord(
        id=case_id,
        family=case_id.partition(".")[0],
        title="title",
        level="MUST",
        rule="The client <does> it.",
        source={"document": "KIP-932", "section": "", "contract": ""},
        broker="Nothing.",
        needs=(),
    )


@pytest.fixture
def run() -> RunRecord:
    drivers = [
        DriverRecord(command="/home/x/.venv/bin/python /home/x/examples/drivers/a/driver.py", name="a", version="1"),
        DriverRecord(command="java -jar driver.jar", name="b", version="2"),
    ]
    results = [
        ResultRecord(driver=0, case="share.x.y", verdict=Verdict.FAILED, duration_ms=10, expected="it|x", seen="`no`"),
        ResultRecord(driver=1, case="share.x.y", verdict=Verdict.UNIMPLEMENTED, duration_ms=0),
        ResultRecord(driver=0, case="groups.x.y", verdict=Verdict.OK, duration_ms=10),
        ResultRecord(driver=1, case="groups.x.y", verdict=Verdict.OK, duration_ms=10),
    ]
    cases = [_case("groups.x.y"), _case("share.x.y")]
    return RunRecord(
        seed=1, release="4.4", started="2026-01-31T12:00:00+00:00", drivers=drivers, cases=cases, results=results
    )


def test_a_failure_needs_an_explanation(run: RunRecord) -> None:
    assert find_problems(run, {}) == ["a: share.x.y has no explanation in explanations.toml"]
    assert find_problems(run, {"a": {"share.x.y": "It ignores the error."}}) == []


def test_an_explanation_needs_a_failure(run: RunRecord) -> None:
    explanations = {"a": {"share.x.y": "It ignores the error."}, "b": {"groups.x.y": "Old."}}

    assert find_problems(run, explanations) == ["b: groups.x.y has an explanation, and did not fail"]


def test_a_driver_that_could_not_be_used_is_not_published(run: RunRecord) -> None:
    run.drivers[1].error = "it ended"

    assert "driver 'java -jar driver.jar': it ended" in find_problems(run, {})


def test_the_page_names_rule_explanation_and_command_without_folders_of_the_machine(run: RunRecord) -> None:
    page = render_page(run, {"a": {"share.x.y": "It ignores the error."}})

    assert "- **FAILED** `share.x.y`: The client \\<does\\> it. (KIP-932)" in page
    assert "Expected: it\\|x; seen: \\`no\\`." in page
    assert "It ignores the error." in page
    assert "--driver 'python examples/drivers/a/driver.py'" in page
    assert "/home" not in page


def test_the_page_counts_judged_cases_by_family(run: RunRecord) -> None:
    rows = [line for line in render_page(run, {}).splitlines() if line.startswith(("| a 1", "| b 2"))]

    assert rows == [
        "| a 1 |  | 1/1 | 0/1 | 1/2 | 0 | 0 s | ![](badges/a.svg) |",
        "| b 2 |  | 1/1 | 0/0 | 1/1 | 1 | 0 s | ![](badges/b.svg) |",
    ]


def test_the_picture_has_a_cell_for_each_result(run: RunRecord) -> None:
    picture = ET.fromstring(draw_matrix(run))
    cells = [each for each in picture.iter() if each.tag.endswith("rect") and each.get("width") == "8"]

    assert len(cells) == 4


def test_results_of_a_later_run_replace_those_of_the_same_client_and_case(run: RunRecord) -> None:
    later = RunRecord(
        seed=1,
        release="4.4",
        started=run.started,
        drivers=[run.drivers[1], run.drivers[0]],
        cases=[_case("share.x.y")],
        results=[ResultRecord(driver=1, case="share.x.y", verdict=Verdict.OK, duration_ms=5)],
    )

    replace_results(run, later)

    verdicts = {(result.driver, result.case): result.verdict for result in run.results}
    assert verdicts[0, "share.x.y"] is Verdict.OK
    assert verdicts[1, "share.x.y"] is Verdict.UNIMPLEMENTED
    assert len(run.results) == 4


def test_a_case_of_a_later_run_is_added_and_one_that_does_not_exist_is_left_out(run: RunRecord) -> None:
    played = [
        ResultRecord(driver=number, case="connecting.x.y", verdict=Verdict.OK, duration_ms=5) for number in (0, 1)
    ]
    later = RunRecord(
        seed=1,
        release="4.4",
        started=run.started,
        drivers=run.drivers,
        cases=[_case("connecting.x.y")],
        results=played,
    )

    replace_results(run, later)
    keep_cases(run, {"connecting.x.y", "groups.x.y"})

    assert [case.id for case in run.cases] == ["connecting.x.y", "groups.x.y"]
    assert len(run.results) == 4
    assert find_problems(run, {}) == []
    assert "played again" in render_page(run, {}, is_played_again=True)


def test_a_case_that_not_all_clients_have_played_is_not_published(run: RunRecord) -> None:
    run.results = run.results[:-1]

    assert "groups.x.y was not played with all clients" in find_problems(run, {"a": {"share.x.y": "It fails."}})


def test_a_defect_of_a_case_is_not_published(run: RunRecord) -> None:
    run.results[0].verdict = Verdict.ERROR

    assert "a: share.x.y has a defect of the case" in find_problems(run, {"a": {"share.x.y": "It fails."}})
