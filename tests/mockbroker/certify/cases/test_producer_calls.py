"""What cases of producers have in common: acknowledgements, questions for topics, and texts of reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kwire
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_broker import open_mock
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import (
    acknowledged,
    asks_for,
    describe_order,
    require_version,
)
from mockbroker.certify.driver.failure import DriverFailure
from mockbroker.certify.driver.process import DriverProcess
from mockbroker.certify.play import Played, PlayOptions, play_case
from mockbroker.certify.verdicts import Verdict
from tests.support.brokers.producer import record_batch
from tests.support.certify.scripted_driver import command

_PLAN = ClusterPlan(topics={"orders": 1})
_OPTIONS = PlayOptions(open_mock(seed=1, release=None), keep_captures=False)


def _play(function: Callable[[CaseRun], None], path: Path) -> Played:
    """Play a function as a case, with a driver that lists the setting acks and has no client."""
    function.__doc__ = "No fault."
    made = case("producing.test.case", title="T", level=Level.MUST, rule="R.", source=Source("KIP-1"), cluster=_PLAN)
    process = DriverProcess(command())
    try:
        return play_case(
            made(function),
            process,
            process.hello(),
            options=_OPTIONS,
            path=path / "producing.test.case",
            start_driver=lambda: (process, process.hello()),
        )
    finally:
        process.kill()


def _produce(run: CaseRun, *, acks: int, version: int = 9) -> None:
    """A raw client in place of the client under test."""
    topic = TopicProduceData(name="orders", partition_data=[PartitionProduceData(0, record_batch())])
    with kwire.Client(run.cluster.bootstrap_servers, client_id="raw") as client:
        client.send(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic]), version)
    run.wire.wait_for_request("Produce")


@pytest.mark.parametrize("condition", [False, True])
def test_a_client_without_acknowledgements_is_not_judged_by_results_of_records(
    tmp_path: Path, *, condition: bool
) -> None:
    @acknowledged
    def function(run: CaseRun) -> None:
        _produce(run, acks=0)
        run.expect(condition, "the record is delivered")

    played = _play(function, tmp_path)

    assert played.verdict is Verdict.NOT_EXERCISED
    assert "Produce with acks 0" in played.seen


def test_a_driver_that_breaks_down_has_failed_without_acknowledgements_too(tmp_path: Path) -> None:
    @acknowledged
    def function(run: CaseRun) -> None:
        _produce(run, acks=0)
        raise DriverFailure("it has ended", "")

    assert _play(function, tmp_path).verdict is Verdict.FAILED


@pytest.mark.parametrize(("condition", "verdict"), [(False, Verdict.FAILED), (True, Verdict.OK)])
def test_a_client_with_acknowledgements_is_judged(tmp_path: Path, *, condition: bool, verdict: Verdict) -> None:
    @acknowledged
    def function(run: CaseRun) -> None:
        _produce(run, acks=-1)
        run.expect(condition, "the record is delivered")

    assert _play(function, tmp_path).verdict is verdict


def test_a_producer_has_acks_all_unless_the_case_says_otherwise(tmp_path: Path) -> None:
    given: list[Any] = []

    def function(run: CaseRun) -> None:
        run.acked_producer()
        run.acked_producer(acks=1)
        given.extend(call.params["settings"]["acks"] for call in run.calls if call.method == "open")

    _play(function, tmp_path)

    assert given == ["all", 1]


def test_a_version_in_which_no_broker_answers_so_is_not_judged(tmp_path: Path) -> None:
    def function(run: CaseRun) -> None:
        _produce(run, acks=-1, version=7)
        require_version(run, run.wire.requests("Produce"), 8, "messages for records")

    played = _play(function, tmp_path)

    assert played.verdict is Verdict.NOT_EXERCISED
    assert played.seen == "the client sends Produce 7: brokers answer with messages for records from version 8 on"


@pytest.mark.parametrize(
    ("topics", "expected"),
    [(None, True), ([], False), (["orders"], True), (["stock"], False), (["stock", "orders"], True)],
)
def test_a_request_for_all_topics_asks_for_each(topics: list[str] | None, *, expected: bool) -> None:
    named = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]

    assert asks_for("orders")(MetadataRequest(topics=named)) is expected


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("ab", "2 of 3 records; the first of them are as they were sent; 1 are missing, the first is c"),
        ("acb", "3 of 3 records; at offset 1 stands c, sent was b"),
        ("aabc", "4 of 3 records; at offset 1 stands a, sent was b; 1 stand there twice, the first is a"),
    ],
)
def test_the_report_of_an_order_says_what_differs(stored: str, expected: str) -> None:
    assert describe_order(list(stored), list("abc")) == expected
