"""JUnit XML of a run, as CI systems show it: a suite for each driver, a test for each case."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from mockbroker.certify.results import CaseRecord, ResultRecord, RunRecord
from mockbroker.certify.verdicts import BAD, PASSED, Verdict

#: What XML 1.0 does not allow in a text.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(run: RunRecord, path: Path) -> None:
    """Write the file. FAILED and TIMEOUT are failures, ERROR an error; OK and NON-STRICT pass; others are skipped."""
    cases = {case.id: case for case in run.cases}
    root = ET.Element("testsuites", name="mockbroker certify")
    for number, driver in enumerate(run.drivers):
        results = [result for result in run.results if result.driver == number]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_clean(driver.label),
            tests=str(len(results)),
            failures=str(sum(result.verdict in BAD for result in results)),
            skipped=str(sum(_is_skipped(result) for result in results)),
            errors=str(bool(driver.error) + sum(result.verdict is Verdict.ERROR for result in results)),
            time=f"{sum(result.duration_ms for result in results) / 1000:.3f}",
            timestamp=run.started,
        )
        if driver.error:
            ET.SubElement(suite, "system-err").text = _clean(driver.error)
        for result in results:
            _add_case(suite, result, cases[result.case])
    ET.indent(root)
    path.write_bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _add_case(suite: ET.Element, result: ResultRecord, case: CaseRecord) -> None:
    test = ET.SubElement(
        suite,
        "testcase",
        name=result.case,
        classname=f"{suite.get('name')}.{case.family}",
        time=f"{result.duration_ms / 1000:.3f}",
    )
    source = ", ".join(filter(None, case.source.values()))
    text = _clean(f"expected: {result.expected}\nseen: {result.seen}\nrule: {case.rule}\nsource: {source}")
    if result.verdict in BAD:
        ET.SubElement(test, "failure", type=result.verdict, message=_clean(result.expected)).text = text
    elif result.verdict is Verdict.ERROR:
        ET.SubElement(test, "error", type=result.verdict, message=_clean(result.expected)).text = text
    elif _is_skipped(result):
        ET.SubElement(test, "skipped", message=_clean(f"{result.verdict}: {result.seen or result.expected}"))
    elif result.verdict is not Verdict.OK:
        ET.SubElement(test, "system-out").text = f"{result.verdict}\n{text}"


def _is_skipped(result: ResultRecord) -> bool:
    return result.verdict not in PASSED | BAD | {Verdict.ERROR}


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
