"""What the command prints while it runs."""

from __future__ import annotations

from io import StringIO

from mockbroker.certify.progress import Progress
from mockbroker.certify.results import DriverRecord, ResultRecord
from mockbroker.certify.verdicts import Verdict

_DRIVERS = [DriverRecord(command="a", name="a", version="1")]


def _result(verdict: Verdict, **fields: str) -> ResultRecord:
    return ResultRecord(driver=0, case="share.a.b", verdict=verdict, duration_ms=1, **fields)  # type: ignore[arg-type]


def test_without_a_terminal_a_line_says_from_time_to_time_how_many_cases_were_played() -> None:
    stream, times = StringIO(), iter([0.0, 5.0, 16.0, 16.0, 20.0])
    progress = Progress(stream, 9, _DRIVERS, clock=lambda: next(times))

    for _ in range(3):
        progress.add(_result(Verdict.OK))

    assert stream.getvalue() == "2 of 9: 2 OK\n"


def test_a_defect_of_a_case_is_named_as_one() -> None:
    stream = StringIO()

    Progress(stream, 1, _DRIVERS).add(_result(Verdict.ERROR, expected="no defect", seen="ValueError"))

    assert stream.getvalue() == (
        "ERROR (a defect of the case, not of the client) share.a.b (a 1): expected no defect; seen: ValueError\n"
    )


def test_names_and_errors_of_drivers_cannot_act_on_a_terminal() -> None:
    stream = StringIO()
    driver = DriverRecord(command="a", name="\x1b[31mred", version="1\x07\n2")
    progress = Progress(stream, 1, [driver])

    progress.add(_result(Verdict.FAILED, expected="none", seen="\x1b[2J"))
    progress.note(f"driver {driver.label}: ended\n    \x1b[2Jlast line")

    assert stream.getvalue().splitlines() == [
        "FAILED share.a.b (\\x1b[31mred 1\\x07\\n2): expected none; seen: \\x1b[2J",
        "mockbroker certify: driver \\x1b[31mred 1\\x07\\n2: ended",
        "    \\x1b[2Jlast line",
    ]
