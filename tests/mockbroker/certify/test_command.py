"""The command: its output, its files and its exit codes, with drivers that work and drivers that do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from mockbroker.certify import command as certify
from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.kafka_admin import KafkaAdmin
from tests.support.certify.scripted_driver import command as driver

CASES: list[Case] = []


def _add(case_id: str, level: Level = Level.MUST, **fields: Any) -> Callable[[Callable[[CaseRun], None]], Case]:
    def make(function: Callable[[CaseRun], None]) -> Case:
        plan = ClusterPlan(topics={"orders": 1})
        made = case(case_id, title="T", level=level, rule="R.", source=Source("KIP-1"), cluster=plan, **fields)(
            function
        )
        CASES.append(made)
        return made

    return make


@_add("producing.a.sends", quick=True)
def _sends(run: CaseRun) -> None:
    """No fault."""
    run.producer().send("orders", "a")


@_add("producing.b.fails")
def _fails(run: CaseRun) -> None:
    """No fault, and no record."""
    run.expect(condition=False, expected="one <record> & more", seen="\x00none")


@_add("share.c.lacks", needs=("share",), settings_needed=("share_acquire_mode",), timeout_s=20)
def _lacks(run: CaseRun) -> None:
    """Nothing."""


@pytest.fixture(autouse=True)
def _cases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(certify, "find_cases", lambda: CASES)
    monkeypatch.chdir(tmp_path)


def _run(*words: str) -> int:
    return certify.main([*words, "-o", "out"])


def _results() -> dict[str, Any]:
    results: dict[str, Any] = json.loads(Path("out/results.json").read_text(encoding="utf-8"))
    return results


def _verdicts() -> list[tuple[int, str, str]]:
    return [(each["driver"], each["case"], each["verdict"]) for each in _results()["results"]]


def test_results_are_written_and_the_exit_code_says_whether_something_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _run("--driver", driver(), "--jobs", "2") == 1

    assert _verdicts() == [
        (0, "producing.a.sends", "OK"),
        (0, "producing.b.fails", "FAILED"),
        (0, "share.c.lacks", "UNIMPLEMENTED"),
    ]
    run = _results()
    assert (run["format"], run["seed"], run["drivers"][0]["name"]) == (1, 1, "scripted")
    failed = run["results"][1]
    assert Path("out", failed["details"]).exists()
    assert Path("out", failed["capture"]).exists()
    shown = capsys.readouterr()
    assert "FAILED producing.b.fails (scripted 1.0): expected one <record> & more" in shown.err
    assert "producing  1 OK, 1 FAILED" in shown.out


def test_nothing_failed_is_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--driver", driver(), "--quick") == 0
    assert _verdicts() == [(0, "producing.a.sends", "OK")]
    assert _run("--driver", driver(), "--cases", "share") == 0
    assert "1 UNIMPLEMENTED" in capsys.readouterr().out


def test_junit_has_a_suite_for_each_driver() -> None:
    _run("--driver", driver(), "--driver", driver("second"), "--driver", driver("exits"))

    suites = ET.parse("out/junit.xml").getroot().findall("testsuite")
    assert [(each.get("tests"), each.get("failures"), each.get("skipped")) for each in suites[:2]] == [
        ("3", "1", "1")
    ] * 2
    failure = suites[0].find("testcase/failure")
    assert failure is not None
    assert (failure.get("type"), failure.get("message")) == ("FAILED", "one <record> & more")
    assert suites[2].get("errors") == "1"


def test_the_other_drivers_go_on_when_one_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        _run("--driver", driver("future"), "--driver", driver("exits"), "--driver", driver(), "--cases", "*.sends") == 1
    )

    assert _verdicts() == [(2, "producing.a.sends", "OK")]
    errors = [each["error"] for each in _results()["drivers"]]
    assert "version 2 of the driver protocol" in errors[0]
    assert "no such client library" in errors[1]
    assert errors[2] is None
    assert "no such client library" in capsys.readouterr().err


def test_a_driver_that_crashes_in_each_case_gets_a_new_process_each_time() -> None:
    assert _run("--driver", driver("crash"), "--driver", driver(), "--cases", "producing.a.*") == 1

    assert [verdict for _, _, verdict in _verdicts()] == ["FAILED", "OK"]
    assert "exit code 3" in _results()["results"][0]["seen"]


def test_the_run_goes_on_after_a_case_with_a_wrong_cluster_plan(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ClusterPlan(properties={"default.replication.factor": "x"})

    @case("connecting.a.refused", title="T", level=Level.MUST, rule="R.", source=Source("KIP-1"), cluster=plan)
    def refused(run: CaseRun) -> None:
        """Nothing."""

    monkeypatch.setattr(certify, "find_cases", lambda: [refused, *CASES])

    assert _run("--driver", driver(), "--cases", "*.refused", "--cases", "*.sends", "--jobs", "1") == 1
    assert _verdicts() == [(0, "connecting.a.refused", "ERROR"), (0, "producing.a.sends", "OK")]
    assert "default.replication.factor: 'x'" in capsys.readouterr().err
    assert Path("out/cases/0-scripted-1.0/connecting.a.refused.html").exists()


def test_processes_that_a_driver_leaves_behind_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--driver", driver("child"), "--quick") == 0

    assert "driver scripted 1.0: the driver ended and left processes behind" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cases", "nothing.*"], "no case matches 'nothing.*'"),
        ([], "--driver is missing"),
        (["--cases", "share", "--quick", "--driver", "x"], "no case is left"),
        (["--driver", "x", "--bootstrap-servers", "127.0.0.1:1"], "none of these cases can be played on a real Kafka"),
    ],
)
def test_wrong_use_is_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KafkaAdmin, "node_count", lambda self: 1)

    assert _run(*words) == 2
    assert message in capsys.readouterr().err


def test_an_unreachable_kafka_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--driver", "x", "--bootstrap-servers", "127.0.0.1:1") == 2
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_wrong_jobs_are_refused() -> None:
    with pytest.raises(SystemExit) as raised:
        _run("--jobs", "0")

    assert raised.value.code == 2


def test_a_case_that_is_repeated_keeps_its_verdicts_and_the_worst_one_counts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(9))

    @case("producing.d.varies", title="T", level=Level.MUST, rule="R.", source=Source("KIP-1"))
    def varies(run: CaseRun) -> None:
        """No fault."""
        run.expect(next(times) != 1, "the first time or the third")

    monkeypatch.setattr(certify, "find_cases", lambda: [*CASES, varies])

    assert _run("--driver", driver(), "--cases", "*.varies", "--cases", "*.sends", "--repeat", "3") == 1

    run = _results()
    [stable, unstable] = run["results"]
    assert (run["repeat"], stable["verdict"], stable["verdicts"]) == (3, "OK", ["OK"] * 3)
    assert (unstable["verdict"], unstable["verdicts"]) == ("FAILED", ["OK", "FAILED", "OK"])
    assert unstable["details"].endswith("/producing.d.varies.2.json")
    assert Path("out", unstable["capture"]).exists()
    assert "FAILED (unstable: OK 2, FAILED 1) producing.d.varies (scripted 1.0): expected" in capsys.readouterr().err
    assert "unstable: OK 2, FAILED 1" in Path("out/index.html").read_text(encoding="utf-8")
    page = Path("out", unstable["details"]).with_suffix(".html").read_text(encoding="utf-8")
    assert "3 times: OK, FAILED, OK; unstable: OK 2, FAILED 1" in page


def test_wrong_numbers_of_repetitions_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("0", "x", "1000"):
        with pytest.raises(SystemExit):
            _run("--repeat", text)
        assert f"{text!r} is not a number of times from 1 to 100" in capsys.readouterr().err


def test_cases_are_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--list", "--cases", "producing") == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["producing.a.sends", "MUST", "quick", "T"],
        ["producing.b.fails", "MUST", "T"],
    ]
    assert _run("--explain", "share.c.lacks", "--explain", "producing.a.sends") == 0
    shown = capsys.readouterr().out
    assert "share.c.lacks: T" in shown
    assert "MUST: R." in shown
    assert "source: KIP-1" in shown
    assert "needs: share\n  needs settings: share_acquire_mode\n  limit: 20 s\n" in shown
    assert "producing.a.sends: T" in shown
    assert "limit: 15 s; part of --quick" in shown


def test_five_runs_with_one_seed_have_the_same_verdicts() -> None:
    seen = set()
    for _ in range(5):
        _run("--driver", driver(), "--seed", "7", "--jobs", "2")
        seen.add(tuple(_verdicts()))

    assert len(seen) == 1
