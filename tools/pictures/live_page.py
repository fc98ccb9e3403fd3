"""`python -m tools.pictures.live_page` makes docs/pictures/live-page.png: the live page of a cluster, in Chromium.

The picture shows real traffic at real times, so that it differs each time: `make generate` does not make it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from confluent_kafka import Producer

from mockbroker import Cluster
from tools.bench.client_workload import start_at_earliest, wait_until
from tools.demo.members import Member

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "live-page.png"
BEHAVIOURS = ("reject", "release", "stall")
GROUP, TOPIC = "baristas", "orders"
#: How many records there are when a member takes some and stops, and how many in all.
HELD_RECORDS, RECORDS, BATCH_RECORDS = 36, 180, 6
#: The size of the window, pixels, and how far the time of the page runs before the picture, milliseconds.
_WINDOW, _BUDGET_MS = "1280,1830", 4_000


def main() -> int:
    """Make the picture."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("live page: there is no Chromium on this machine", file=sys.stderr)
        return 1
    with Cluster(nodes=2, topics={TOPIC: 2}, control=0, seed=1, profile="quick") as cluster:
        start_at_earliest(cluster.bootstrap_servers, GROUP)
        members = [Member(cluster.bootstrap_servers, GROUP, TOPIC, behaviour) for behaviour in BEHAVIOURS]
        try:
            _produce(cluster.bootstrap_servers, range(HELD_RECORDS))
            wait_until(
                lambda: any(member.is_holding for member in members), "a member that holds records", timeout_s=60
            )
            _produce(cluster.bootstrap_servers, range(HELD_RECORDS, RECORDS))
            wait_until(lambda: _completed(members) > RECORDS // 3, "members that acknowledge the others", timeout_s=60)
            _take(chromium, f"{cluster.control_url}/")
        finally:
            for member in members:
                member.stop()
    print(f"wrote {PICTURE}")
    return 0


def _produce(bootstrap: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": BATCH_RECORDS})
    for number in numbers:
        producer.produce(TOPIC, f"order {number}", partition=number // BATCH_RECORDS % 2)
        if number % BATCH_RECORDS == BATCH_RECORDS - 1:
            producer.flush(10)


def _completed(members: list[Member]) -> int:
    return sum(len(member.output.completed) for member in members)


def _take(chromium: str, url: str) -> None:
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
        picture = [f"--window-size={_WINDOW}", f"--virtual-time-budget={_BUDGET_MS}", f"--screenshot={PICTURE}"]
        subprocess.run([chromium, *options, *picture, url], check=True, capture_output=True, timeout=60)


if __name__ == "__main__":
    sys.exit(main())
