"""Playing a case: the verdict of everything that can happen, and the files of the result."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kwire
from kwire.messages.metadata import MetadataRequest
from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_broker import open_mock
from mockbroker.certify.case_cluster import case_seed
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.messages import HelloResult
from mockbroker.certify.driver.process import DriverProcess
from mockbroker.certify.play import Played, PlayOptions, missing_needs, play_case
from mockbroker.certify.verdicts import Verdict
from tests.support.certify.scripted_driver import command

OPTIONS = PlayOptions(open_mock(seed=1, release=None), keep_captures=False)
Function = Callable[[CaseRun], None]


def _make(function: Function, level: Level = Level.MUST, **fields: Any) -> Case:
    function.__doc__ = function.__doc__ or "No fault."
    fields = {"cluster": ClusterPlan(topics={"orders": 1}), "source": Source("KIP-1"), **fields}
    return case("producing.test.case", title="T", level=level, rule="R.", **fields)(function)


def _start(behaviour: str = "good") -> tuple[DriverProcess, HelloResult]:
    process = DriverProcess(command(behaviour))
    return process, process.hello()


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Callable[..., Played]]:
    """Plays a function as a case, with a scripted driver."""
    started: list[DriverProcess] = []

    def start(behaviour: str) -> tuple[DriverProcess, HelloResult]:
        process, hello = _start(behaviour)
        started.append(process)
        return process, hello

    def play_function(
        function: Function, *, behaviour: str = "good", options: PlayOptions = OPTIONS, **fields: Any
    ) -> Played:
        process, hello = start(behaviour)
        path = tmp_path / "producing.test.case"
        return play_case(
            _make(function, **fields), process, hello, options=options, path=path, start_driver=lambda: start(behaviour)
        )

    yield play_function
    for process in started:
        process.kill()


def _ask_metadata(run: CaseRun) -> None:
    """A raw client in place of the client under test."""
    with kwire.Client(run.cluster.bootstrap_servers, client_id="raw") as client:
        client.send(MetadataRequest())


def _fail(run: CaseRun) -> None:
    _ask_metadata(run)
    run.expect(condition=False, expected="a thing", seen="another", exchanges=run.wire.requests("Metadata"))


@pytest.mark.parametrize(
    ("level", "verdict"),
    [(Level.MUST, Verdict.FAILED), (Level.SHOULD, Verdict.NON_STRICT), (Level.MAY, Verdict.INFORMATIONAL)],
)
def test_an_expectation_that_is_not_met_counts_by_the_level(
    level: Level, verdict: Verdict, play: Callable[..., Played], tmp_path: Path
) -> None:
    played = play(_fail, level=level)

    assert (played.verdict, played.expected, played.seen) == (verdict, "a thing", "another")
    details = json.loads((tmp_path / "producing.test.case.json").read_text(encoding="utf-8"))
    [number] = played.deciding
    [deciding] = [each for each in details["exchanges"] if each["number"] == number]
    assert (deciding["api"], deciding["client_id"]) == ("Metadata", "raw")
    assert deciding["packet"] > 0
    assert deciding["request"] is not None
    assert played.has_capture
    assert (tmp_path / "producing.test.case.pcapng").exists()


def test_a_case_that_ends_is_ok_and_leaves_no_capture(play: Callable[..., Played], tmp_path: Path) -> None:
    def send(run: CaseRun) -> None:
        run.expect(run.producer(acks="all").send("orders", "a")[0].offset == 0, "offset 0")
        run.note("seen")

    played = play(send)

    assert (played.verdict, played.is_reusable, played.notes) == (Verdict.OK, True, ["seen"])
    assert not (tmp_path / "producing.test.case.pcapng").exists()
    details = json.loads((tmp_path / "producing.test.case.json").read_text(encoding="utf-8"))
    assert [call["method"] for call in details["calls"]] == ["open", "send", "close"]
    settings = details["calls"][0]["params"]["settings"]
    assert settings["client_id"] == "producer"
    assert settings["acks"] == "all"
    assert settings["bootstrap_servers"][0].startswith("127.0.0.1:")


def test_captures_are_kept_if_wanted(play: Callable[..., Played], tmp_path: Path) -> None:
    played = play(_ask_metadata, options=OPTIONS._replace(keep_captures=True))

    assert (played.verdict, played.has_capture) == (Verdict.OK, True)
    assert (tmp_path / "producing.test.case.pcapng").stat().st_size > 100


def test_a_recommendation_that_is_not_met_is_non_strict_whatever_the_level(play: Callable[..., Played]) -> None:
    def recommend(run: CaseRun) -> None:
        run.should(condition=False, expected="a refresh", seen="none")

    played = play(recommend)

    assert (played.verdict, played.expected, played.seen) == (Verdict.NON_STRICT, "a refresh", "none")
    assert played.notes == ["SHOULD: a refresh; seen: none"]


def test_an_error_that_the_case_does_not_expect_fails(play: Callable[..., Played]) -> None:
    played = play(lambda run: run.producer().send("orders", "a"), behaviour="fails")

    assert played.verdict is Verdict.FAILED
    assert played.expected == "no error from the client"
    assert "MESSAGE_TOO_LARGE: too large" in played.seen


def test_an_expected_error_is_caught_and_another_one_fails(play: Callable[..., Played]) -> None:
    def expect(*names: str) -> Function:
        def function(run: CaseRun) -> None:
            with run.expect_error(*names) as caught:
                run.producer().send("orders", "a")
            run.note(caught.error.name)

        return function

    assert play(expect("MESSAGE_TOO_LARGE"), behaviour="fails").notes == ["MESSAGE_TOO_LARGE"]
    failed = play(expect("LOCAL_TIMEOUT"), behaviour="fails")
    assert (failed.verdict, failed.expected) == (Verdict.FAILED, "the client reports LOCAL_TIMEOUT")
    assert play(expect("LOCAL_TIMEOUT"), behaviour="good").seen == "no error"


@pytest.mark.parametrize(
    ("function", "seen"),
    [
        (lambda run: run.share_consumer(group_id="g"), "the driver does not support the setting group_id"),
        (lambda run: run.admin().list_topics(), "list_topics: LOCAL_UNSUPPORTED: list_topics"),
    ],
)
def test_what_the_driver_cannot_do_is_unimplemented(function: Function, seen: str, play: Callable[..., Played]) -> None:
    played = play(function)

    assert (played.verdict, played.seen) == (Verdict.UNIMPLEMENTED, seen)


def test_a_request_that_does_not_come_fails_with_what_was_seen(play: Callable[..., Played]) -> None:
    played = play(lambda run: run.wire.wait_for_request("Produce", timeout_s=0.05))

    assert (played.verdict, played.expected) == (Verdict.FAILED, "waited 0.05 s for 1 Produce request")
    assert played.seen.startswith("0; ")


def test_a_fault_that_never_acts_fails(play: Callable[..., Played]) -> None:
    played = play(lambda run: run.cluster.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER"))

    assert played.verdict is Verdict.FAILED
    assert "NOT_LEADER_OR_FOLLOWER" in played.seen


def test_a_driver_that_breaks_down_fails_with_its_last_output(play: Callable[..., Played]) -> None:
    played = play(lambda run: run.producer(), behaviour="crash", level=Level.MAY)

    assert played.verdict is Verdict.FAILED
    assert "the driver ended with exit code 3" in played.seen
    assert "Traceback: the driver broke down" in played.seen
    assert not played.is_reusable


def test_a_case_that_goes_on_is_ended_at_its_limit(play: Callable[..., Played]) -> None:
    played = play(lambda run: run.producer(), behaviour="silent", timeout_s=0.3)

    assert (played.verdict, played.expected) == (Verdict.TIMEOUT, "the case ends within 0.3 s")
    assert re.match(r"open of producer has no answer since 0\.\d s; the case was at: played = play\(", played.seen)
    assert not played.is_reusable


def test_a_case_that_waits_for_the_broker_at_its_limit_shows_its_line(play: Callable[..., Played]) -> None:
    def wait(run: CaseRun) -> None:
        run.wire.wait_for_request("Produce", timeout_s=0.6)

    played = play(wait, timeout_s=0.3)

    assert played.verdict is Verdict.TIMEOUT
    assert played.seen == 'the case was at: run.wire.wait_for_request("Produce", timeout_s=0.6)'


def test_a_case_that_names_no_exchange_is_decided_by_those_on_which_a_fault_acted(play: Callable[..., Played]) -> None:
    def refuse(run: CaseRun) -> None:
        run.cluster.faults.add("Metadata", error="LEADER_NOT_AVAILABLE", times=1)
        _ask_metadata(run)
        _ask_metadata(run)
        run.expect(condition=False, expected="a thing")

    played = play(refuse)

    assert len(played.deciding) == 1
    assert played.seen == "it was not so"


def test_a_defect_of_the_case_is_named_as_one(play: Callable[..., Played]) -> None:
    played = play(lambda run: run.wire.requests("NoSuchApi"))

    assert (played.verdict, played.expected) == (Verdict.ERROR, "the case has no defect of its own")
    assert "ValueError" in played.seen


def test_a_client_that_does_nothing_that_the_rule_is_about_is_not_judged(play: Callable[..., Played]) -> None:
    played = play(lambda run: run.not_exercised("every Fetch is older than version 13"), level=Level.MUST)

    assert (played.verdict, played.expected) == (Verdict.NOT_EXERCISED, "")
    assert played.seen == "every Fetch is older than version 13"


def test_a_second_driver_can_be_killed_and_is_ended_with_the_case(play: Callable[..., Played]) -> None:
    processes: list[DriverProcess] = []

    def crash(run: CaseRun) -> None:
        for _ in range(2):
            other = run.second_driver()
            processes.append(other.process)
            other.producer()
        processes[0].kill()

    played = play(crash)

    assert (played.verdict, played.is_reusable) == (Verdict.OK, True)
    assert [process.is_usable for process in processes] == [False, False]


def test_a_call_in_the_background_goes_on_while_the_case_does_other_things(play: Callable[..., Played]) -> None:
    def overlap(run: CaseRun) -> None:
        producer = run.producer()
        sent = run.in_background(lambda: producer.send("orders", "a"))
        run.produce("orders", "b")
        run.expect(sent.result(20)[0].offset == 0, "a delivery")
        run.expect([each.value for each in run.cluster.read("orders")] == [b"b"], "the record of the case")

    assert play(overlap).verdict is Verdict.OK


def _break_down() -> None:
    raise KeyError("no such key")


def _wait_for_background(behaviour: Callable[[], object]) -> Function:
    """A case that waits for a request that a call in the background, which fails, would have sent."""

    def function(run: CaseRun) -> None:
        run.in_background(behaviour)
        run.wire.wait_until(lambda: run.background_errors)  # On a busy machine that takes longer than the next wait.
        run.wire.wait_for_request("Produce", timeout_s=0.3)

    return function


def test_a_defect_of_the_case_in_the_background_is_named_as_one(play: Callable[..., Played]) -> None:
    played = play(_wait_for_background(_break_down))

    assert (played.verdict, played.expected) == (Verdict.ERROR, "the case has no defect of its own")
    assert "KeyError: 'no such key'" in played.seen


def test_a_defect_in_the_background_is_no_timeout(play: Callable[..., Played]) -> None:
    played = play(_wait_for_background(_break_down), timeout_s=0.1)

    assert played.verdict is Verdict.ERROR
    assert "KeyError: 'no such key'" in played.seen


def test_a_defect_in_the_background_that_the_case_does_not_look_at_is_one_too(play: Callable[..., Played]) -> None:
    def function(run: CaseRun) -> None:
        run.in_background(_break_down)
        run.wire.wait_until(lambda: run.background_errors)

    assert play(function).verdict is Verdict.ERROR


def test_what_the_driver_lacks_in_the_background_is_unimplemented(play: Callable[..., Played]) -> None:
    def function(run: CaseRun) -> None:
        admin = run.admin()
        _wait_for_background(admin.list_topics)(run)

    assert play(function).verdict is Verdict.UNIMPLEMENTED


def test_an_error_of_the_client_in_the_background_is_left_to_the_case(play: Callable[..., Played]) -> None:
    def function(run: CaseRun) -> None:
        producer = run.producer()
        _wait_for_background(lambda: producer.send("orders", "a"))(run)

    played = play(function, behaviour="fails")

    assert (played.verdict, played.expected) == (Verdict.FAILED, "waited 0.3 s for 1 Produce request")


def test_a_driver_that_breaks_down_in_the_background_has_failed_whatever_the_level(play: Callable[..., Played]) -> None:
    played = play(lambda run: _wait_for_background(run.producer)(run), behaviour="crash", level=Level.SHOULD)

    assert (played.verdict, played.expected) == (Verdict.FAILED, "the driver answers")


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (ClusterPlan(properties={"default.replication.factor": "x"}), "default.replication.factor: 'x'"),
        (ClusterPlan(topics={"a b": 1}), "INVALID_TOPIC_EXCEPTION"),
        (ClusterPlan(features=("no.such.feature=1",)), "no.such.feature"),
    ],
)
def test_a_wrong_cluster_plan_is_a_defect_of_the_case(
    plan: ClusterPlan, message: str, play: Callable[..., Played], tmp_path: Path
) -> None:
    played = play(lambda run: None, cluster=plan)

    assert (played.verdict, played.expected) == (Verdict.ERROR, "the case has no defect of its own")
    assert message in played.seen
    assert not played.has_capture
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".log"]


def test_needs_are_capabilities_and_settings() -> None:
    hello = HelloResult(protocol=1, name="a", version="1", language="C", capabilities=("producer",), settings=("acks",))

    assert missing_needs(_make(_ask_metadata, needs=("producer",), settings_needed=("acks",)), hello) is None
    lacking = missing_needs(_make(_ask_metadata, needs=("producer", "share"), settings_needed=("retries",)), hello)
    assert lacking == "the driver lacks capability share, setting retries"


def test_the_seed_of_a_case_depends_on_the_run_and_the_case_alone() -> None:
    assert case_seed(1, "a.b") == case_seed(1, "a.b")
    assert len({case_seed(1, "a.b"), case_seed(2, "a.b"), case_seed(1, "a.c")}) == 3
