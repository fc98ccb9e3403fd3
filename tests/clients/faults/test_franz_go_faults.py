"""franz-go's idempotent producer and group consumer (Go) with faults."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mockbroker import Cluster
from tests.support import needs

pytestmark = [pytest.mark.client, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).parents[1] / "go"
BUILD_PATIENCE_S = 240
PATIENCE_S = 60


def test_an_idempotent_producer_writes_once_and_a_group_reads_in_spite_of_faults(tmp_path: Path) -> None:
    binary = tmp_path / "faults"
    build = [needs.tool("go"), "build", "-o", str(binary), "./faults"]
    made = subprocess.run(build, cwd=PROGRAM, capture_output=True, text=True, timeout=BUILD_PATIENCE_S, check=False)
    assert made.returncode == 0, made.stderr
    with Cluster(nodes=2, topics={"orders": 1}, profile="quick") as kafka:
        kafka.faults.add("Produce", topic="orders", partition=0, times=2, error="NOT_LEADER_OR_FOLLOWER")
        kafka.faults.add("Produce", topic="orders", first=3, times=1, drop=True, after=True)
        kafka.faults.add("JoinGroup", group="g", times=1, error="NOT_COORDINATOR")
        kafka.faults.add("Fetch", topic="orders", times=1, error="NOT_LEADER_OR_FOLLOWER")
        command = [str(binary), kafka.bootstrap_servers]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        kafka.check_faults()
        written = [record.value for record in kafka.read("orders")]

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["produced: [0 1 2]", "consumed: [v0 v1 v2]"]
    assert written == [b"v0", b"v1", b"v2"]
