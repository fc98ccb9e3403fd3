"""Results of `mockbroker certify`."""

from __future__ import annotations

import pytest

from mockbroker.certify.results import CaseRecord, DriverRecord, ResultRecord, RunRecord
from mockbroker.certify.verdicts import Verdict


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
