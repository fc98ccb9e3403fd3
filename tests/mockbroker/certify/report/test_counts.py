"""Passed and judged cases: what the badge, the matrix and junit.xml count."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from mockbroker.certify.progress import exit_code
from mockbroker.certify.report.counts import count_verdicts
from mockbroker.certify.report.junit import write_junit
from mockbroker.certify.results import CaseRecord, DriverRecord, ResultRecord, RunRecord
from mockbroker.certify.verdicts import Verdict


def _run(*verdicts: Verdict) -> RunRecord:
    """A run with a result of each verdict."""
    source = {"document": "KIP-1", "section": "", "contract": ""}
    cases = [
        CaseRecord(
            id=f"share.a.{number}",
            family="share",
            title="title",
            level="MUST",
            rule="A rule.",
            source=source,
            broker="No fault.",
            needs=(),
        )
        for number in range(len(verdicts))
    ]
    results = [
        ResultRecord(driver=0, case=case.id, verdict=verdict, duration_ms=1, expected="e", seen="s")
        for case, verdict in zip(cases, verdicts, strict=True)
    ]
    drivers = [DriverRecord(command="a", name="a", version="1")]
    started = "2026-01-31T12:00:00+00:00"
    return RunRecord(seed=1, release="4.4", started=started, drivers=drivers, cases=cases, results=results)


def test_passed_are_ok_and_non_strict_of_those_that_were_judged() -> None:
    counts = count_verdicts(_run(*Verdict).results)

    assert (counts.passed, counts.judged) == (2, 4)


def test_junit_has_failures_errors_and_skipped_cases_apart(tmp_path: Path) -> None:
    write_junit(_run(*Verdict), tmp_path / "junit.xml")

    root = ET.parse(tmp_path / "junit.xml").getroot()
    [suite] = root.findall("testsuite")
    counted = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": "8", "failures": "2", "errors": "1", "skipped": "3"}
    elements = {name: len(root.findall(f"testsuite/testcase/{name}")) for name in ("failure", "error", "skipped")}
    assert elements == {"failure": 2, "error": 1, "skipped": 3}


def test_a_defect_of_a_case_makes_the_exit_code_1_and_a_case_that_was_not_exercised_does_not() -> None:
    assert exit_code(_run(Verdict.OK, Verdict.NOT_EXERCISED, Verdict.INFORMATIONAL)) == 0
    assert exit_code(_run(Verdict.OK, Verdict.ERROR)) == 1
