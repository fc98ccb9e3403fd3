"""A broker with older versions: a client that has no newer ones is not judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kwire
from kwire.messages.metadata import MetadataRequest
from mockbroker.certify import command as certify
from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.connecting.versions import _require_newer_versions, _use_newest_broker
from mockbroker.cluster import Cluster
from tests.support.certify.scripted_driver import command


def _play(folder: Path, pattern: str) -> dict[str, str]:
    certify.main(["--driver", command(), "--cases", pattern, "-o", str(folder)])
    [result] = json.loads((folder / "results.json").read_text(encoding="utf-8"))["results"]
    return {"verdict": result["verdict"], "seen": result["seen"]}


@pytest.mark.parametrize("release", ["2-1", "3-7"])
def test_a_client_that_sends_nothing_to_a_broker_without_limits_is_not_judged(release: str, tmp_path: Path) -> None:
    result = _play(tmp_path, f"connecting.versions.kafka-{release}")

    assert result["verdict"] == "NOT-EXERCISED"
    assert "to a broker without limits it sends nothing" in result["seen"]


@pytest.mark.parametrize(
    ("version", "verdict", "seen"),
    [
        (7, "NOT-EXERCISED", "the client has no newer versions: to a broker without limits it sends Metadata 7"),
        (8, "OK", ""),
    ],
)
def test_a_client_is_judged_if_it_sends_a_newer_version_to_a_broker_without_limits(
    version: int, verdict: str, seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(newest: Cluster) -> None:
        with kwire.Client(newest.bootstrap_servers, client_id="raw") as client:
            client.send(MetadataRequest(), version)

    plan = ClusterPlan(topics={"orders": 1}, versions={"Metadata": 7})

    @case("connecting.versions.test", title="T", level=Level.MUST, rule="R.", source=Source("KIP-1"), cluster=plan)
    def asks(run: CaseRun) -> None:
        """Nothing."""
        _require_newer_versions(run, _use_newest_broker(ask))

    monkeypatch.setattr(certify, "find_cases", lambda: [asks])

    assert _play(tmp_path, "connecting.versions.test") == {"verdict": verdict, "seen": seen}


def test_an_error_on_the_broker_without_limits_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @case("connecting.versions.test", title="T", level=Level.MUST, rule="R.", source=Source("KIP-1"))
    def fails(run: CaseRun) -> None:
        """Nothing."""
        run.expect(_use_newest_broker(lambda _: run.admin().delete_topics("orders")) == {}, "no request")

    monkeypatch.setattr(certify, "find_cases", lambda: [fails])

    assert _play(tmp_path, "connecting.versions.test")["verdict"] == "OK"
