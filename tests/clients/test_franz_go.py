"""franz-go's share consumer (Go) against the broker.

What each line must say is what the same program writes against Apache Kafka 4.3.0.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mockbroker import Cluster
from tests.clients.fast_share_groups import FAST_SHARE_GROUPS
from tests.support import needs

pytestmark = [pytest.mark.client, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).parent / "go"
BUILD_PATIENCE_S = 240
PATIENCE_S = 40


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the program wrote of each situation."""
    binary = tmp_path_factory.mktemp("franz-go") / "scenarios"
    build = [needs.tool("go"), "build", "-o", str(binary), "."]
    made = subprocess.run(build, cwd=PROGRAM, capture_output=True, text=True, timeout=BUILD_PATIENCE_S, check=False)
    assert made.returncode == 0, made.stderr
    with Cluster(nodes=3, properties=FAST_SHARE_GROUPS) as cluster:
        command = [str(binary), cluster.bootstrap_servers]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def test_three_members_get_every_record_once_between_them(seen: dict[str, str]) -> None:
    assert seen["implicit"] == "600"


def test_released_records_come_again_accepted_and_rejected_ones_do_not(seen: dict[str, str]) -> None:
    assert seen["explicit"] == "again 1=2 4=2"


def test_a_renewed_lock_outlives_its_first_term(seen: dict[str, str]) -> None:
    assert seen["renew"] == "delivered 1"


def test_a_strict_limit_cuts_through_record_batches(seen: dict[str, str]) -> None:
    assert seen["strict"] == "4 4 2"
