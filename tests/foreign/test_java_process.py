"""The line protocol with the virtual machine that runs tests, spoken by a script in place of `java`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.foreign import java_process
from tests.foreign.clusters import ClusterControl, MockCluster
from tests.foreign.java_process import JavaProcess
from tests.foreign.results import Result, Status

#: Answers each selector: "ends" and "hangs" do what they say, "cluster" requests one, all else passes.
SCRIPT = """#!{python}
import json, sys
for line in sys.stdin:
    selector = json.loads(line)["run"]
    message = "log"
    if selector == "ends":
        print("the reason", file=sys.stderr, flush=True)
        sys.exit(1)
    if selector == "hangs":
        sys.stdin.read()
    if selector == "cluster":
        request = {{"cluster": "start", "nodes": 2, "properties": {{}}, "node_properties": {{}}, "features": {{}}}}
        print(json.dumps(request), flush=True)
        message = ",".join(json.loads(sys.stdin.readline())["addresses"])
    result = {{"test": selector + "[1]", "status": "passed", "duration_s": 0.5, "message": message}}
    print(json.dumps(result), flush=True)
    print(json.dumps({{"done": selector}}), flush=True)
"""


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JavaProcess]:
    java = tmp_path / "java"
    java.write_text(SCRIPT.format(python=sys.executable), "utf-8")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    process = JavaProcess(tmp_path, tmp_path, ClusterControl(MockCluster))
    yield process
    process.close()


def test_results_are_read_until_the_selector_is_done(process: JavaProcess) -> None:
    assert list(process.run("a")) == [Result("a[1]", Status.PASSED, 0.5, "log")]
    assert list(process.run("b")) == [Result("b[1]", Status.PASSED, 0.5, "log")]


def test_a_request_for_a_cluster_gets_its_addresses(process: JavaProcess) -> None:
    assert [result.message for result in process.run("cluster")] == ["0,1"]


def test_a_machine_that_ends_fails_the_test_with_its_log_and_another_one_is_started(process: JavaProcess) -> None:
    (ended,) = process.run("ends")

    assert ended.status is Status.FAILED
    assert "the reason" in ended.message
    assert [result.status for result in process.run("a")] == [Status.PASSED]


def test_a_test_that_does_not_end_is_ended_with_its_machine(
    process: JavaProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java_process, "_SILENCE_MAX_S", 0.1)
    (hanging,) = process.run("hangs")

    assert hanging.status is Status.FAILED
    assert hanging.message.startswith("no answer within")
