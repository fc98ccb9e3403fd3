"""The page and the picture of published results."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import msgspec

from mockbroker.certify.results import DriverRecord, ResultRecord, RunRecord
from mockbroker.certify.verdicts import Verdict
from tools.certification.page import ByClient, Explanations, find_problems, keep_cases, render_page, replace_results
from tools.certification.picture import draw_matrix


def _explain(bad: ByClient, unstable: ByClient | None = None) -> Explanations:
    return Explanations(bad=bad, unstable=unstable or {})


def test_a_failure_needs_an_explanation(run: RunRecord) -> None:
    assert find_problems(run, _explain({})) == ["a: share.x.y has no explanation in explanations.toml"]
    assert find_problems(run, _explain({"a": {"share.x.y": "It ignores the error."}})) == []


def test_an_explanation_needs_a_failure(run: RunRecord) -> None:
    explanations = {"a": {"share.x.y": "It ignores the error."}, "b": {"groups.x.y": "Old."}}

    assert find_problems(run, _explain(explanations)) == ["b: groups.x.y has an explanation, and did not fail"]


def test_a_verdict_that_differs_from_run_to_run_needs_an_explanation(run: RunRecord) -> None:
    run.results[0].verdicts = (Verdict.OK, Verdict.FAILED)
    run.results[2].verdicts = (Verdict.OK, Verdict.NON_STRICT)
    missing = "has different verdicts, and no explanation under `unstable` in explanations.toml"
    fails = {"a": {"share.x.y": "It ignores the error."}}

    assert find_problems(run, _explain(fails)) == [f"a: groups.x.y {missing}", f"a: share.x.y {missing}"]
    varies = {"a": {"share.x.y": "A race of two threads.", "groups.x.y": "A random choice."}}
    assert find_problems(run, _explain({}, varies)) == []
    assert find_problems(run, _explain(fails, varies)) == ["a: share.x.y has two explanations"]


def test_the_explanation_of_an_unstable_verdict_stays_when_the_run_shows_none(run: RunRecord) -> None:
    fails = {"a": {"share.x.y": "It ignores the error."}}
    varies = {"a": {"groups.x.y": "A race of two threads."}}

    assert find_problems(run, _explain(fails, varies)) == []
    page = render_page(run, _explain(fails, varies)).splitlines()
    entry = page.index("- **OK** `groups.x.y`: The client \\<does\\> it. (KIP-932)")
    assert page[entry + 1 : entry + 3] == [
        "  Unstable: in other runs the verdict differs.",
        "  A race of two threads.",
    ]
    assert "| `groups.x.y` | MUST | ok (unstable) | ok |" in page


def test_an_explanation_of_an_unstable_verdict_needs_a_case_that_was_played(run: RunRecord) -> None:
    fails = {"a": {"share.x.y": "It ignores the error."}}

    for client, case in (("b", "share.x.y"), ("a", "share.no.case")):
        expected = [f"{client}: {case} has an explanation under `unstable`, and was not played"]
        assert find_problems(run, _explain(fails, {client: {case: "Old."}})) == expected


def test_the_page_shows_the_verdicts_of_all_times(run: RunRecord) -> None:
    run.results[0].verdicts = (Verdict.OK, Verdict.FAILED, Verdict.OK)
    page = render_page(run, _explain({}, {"a": {"share.x.y": "A race of two threads."}}))

    assert "  Unstable: OK 2, FAILED 1.\n  A race of two threads." in page
    assert "| `share.x.y` | MUST | **FAILED** (unstable) | - |" in page


def test_a_driver_that_could_not_be_used_is_not_published(run: RunRecord) -> None:
    run.drivers[1].error = "it ended"

    assert "driver 'java -jar driver.jar': it ended" in find_problems(run, _explain({}))


def test_the_page_names_rule_explanation_and_command_without_folders_of_the_machine(run: RunRecord) -> None:
    page = render_page(run, _explain({"a": {"share.x.y": "It ignores the error."}}))

    assert "- **FAILED** `share.x.y`: The client \\<does\\> it. (KIP-932)" in page
    assert "Expected: it\\|x; seen: \\`no\\`." in page
    assert "It ignores the error." in page
    assert "--driver 'python examples/drivers/a/driver.py'" in page
    assert "/home" not in page


def test_the_page_counts_judged_cases_by_family(run: RunRecord) -> None:
    rows = [line for line in render_page(run, _explain({})).splitlines() if line.startswith(("| a 1", "| b 2"))]

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
        cases=run.cases[1:],
        results=[ResultRecord(driver=1, case="share.x.y", verdict=Verdict.OK, duration_ms=5)],
    )

    assert replace_results(run, later)
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
        cases=[msgspec.structs.replace(run.cases[0], id="connecting.x.y", family="connecting")],
        results=played,
    )

    replace_results(run, later)
    keep_cases(run, {"connecting.x.y", "groups.x.y"})

    assert [case.id for case in run.cases] == ["connecting.x.y", "groups.x.y"]
    assert len(run.results) == 4
    assert find_problems(run, _explain({})) == []
    assert "played again" in render_page(run, _explain({}), is_played_again=True)


def test_a_client_of_a_later_run_is_added(run: RunRecord) -> None:
    client = DriverRecord(command="driver", name="c", version="3")
    later = RunRecord(
        seed=1,
        release="4.4",
        started=run.started,
        drivers=[client],
        cases=run.cases,
        results=[ResultRecord(driver=0, case=case.id, verdict=Verdict.OK, duration_ms=5) for case in run.cases],
    )

    assert not replace_results(run, later)
    assert [driver.label for driver in run.drivers] == ["a 1", "b 2", "c 3"]
    assert [result.verdict for result in run.results if result.driver == 2] == [Verdict.OK] * len(run.cases)


def test_a_case_that_not_all_clients_have_played_is_not_published(run: RunRecord) -> None:
    run.results = run.results[:-1]

    assert "groups.x.y was not played with all clients" in find_problems(
        run, _explain({"a": {"share.x.y": "It fails."}})
    )


def test_a_defect_of_a_case_is_not_published(run: RunRecord) -> None:
    run.results[0].verdict = Verdict.ERROR

    assert "a: share.x.y has a defect of the case" in find_problems(run, _explain({"a": {"share.x.y": "It fails."}}))
