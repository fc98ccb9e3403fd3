"""Runs the scenarios on a real cluster of three nodes, and compares the answers with the recorded ones.

    python -m tests.nodes.live [--release RELEASE] [--within SECONDS] [NAME...]
    python -m tests.nodes.live --record [--release RELEASE] NAME...

With a time limit it begins with another scenario each day, and reports how many it has not run. --record runs
scenarios twice and stores the answers that are equal, with every release unless one is named. The release is the newest
one unless one is named. Needs Java and Maven. Exit code 1 if an answer differs.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from kwire.schema import RELEASES
from tests.nodes.real_cluster import RealCluster
from tests.nodes.scenarios import BALANCED, PROPERTIES_FILES, RECORDED, REPLICATED, run_scenario, scenario_names
from tools.oracle.broker import run_cluster
from tools.oracle.conversations.normalization import difference
from tools.oracle.jars import KAFKA_VERSIONS

_HERE = Path(__file__).parent


@contextmanager
def _run_real_cluster(release: str, additional: str | None) -> Iterator[RealCluster]:
    """A new cluster. additional: the name of a further file of properties."""
    files = ["cluster.properties", *([] if additional is None else [additional])]
    with tempfile.TemporaryDirectory() as folder:
        properties = Path(folder) / "scenarios.properties"
        properties.write_text("".join((_HERE / file).read_text("utf-8") for file in files), "utf-8")
        with run_cluster(properties, version=KAFKA_VERSIONS[release]) as (port, data_folder):
            yield RealCluster(port, data_folder)


def _observe(name: str, cluster: RealCluster) -> Any:
    """The answers of a scenario, or the text of what ended it."""
    try:
        return json.loads(json.dumps(run_scenario(name, cluster)))
    except (OSError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"


def _compare(name: str, cluster: RealCluster, release: str) -> str | None:
    """Run a scenario. Returns: the difference from the recording, or None."""
    return difference(RECORDED.read(name, release), _observe(name, cluster))


def _record(name: str, cluster: RealCluster, release: str) -> str | None:
    """Run a scenario twice, and store its answers. Returns: the difference of the two runs, or None."""
    observed = _observe(name, cluster)
    differs = f"ended with {observed}" if isinstance(observed, str) else difference(observed, _observe(name, cluster))
    if differs is None:
        RECORDED.store(name, release, observed)
    return differs


def _run_all(names: Iterable[str], release: str, *, records: bool, until_s: float) -> dict[str, str | None]:
    """Run scenarios and print a line for each. Returns: the differences, up to the first one that began too late."""
    verdicts: dict[str, str | None] = {}
    for additional in (None, BALANCED, REPLICATED):
        fitting = [name for name in names if PROPERTIES_FILES.get(name) == additional]
        if not fitting or time.monotonic() > until_s:
            continue
        with _run_real_cluster(release, additional) as cluster:
            for name in fitting:
                started = time.monotonic()
                if started > until_s:
                    break
                if records:
                    verdict = _record(name, cluster, release)
                else:
                    # On a busy machine a scenario may be late once; only a second difference counts.
                    verdict = _compare(name, cluster, release) and _compare(name, cluster, release)
                verdicts[f"{name} {release}"] = verdict
                line = f"differs {name} {release}: {verdict}" if verdict else f"agrees  {name} {release}"
                print(f"{line} ({time.monotonic() - started:.1f} s)", flush=True)
    return verdicts


def main(arguments: list[str]) -> int:
    """Run the scenarios and print a summary."""
    form = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tests.nodes.live", description=__doc__, formatter_class=form)
    parser.add_argument("--release", choices=RELEASES)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # Ends the brokers on exit.
    started = time.monotonic()
    default = RELEASES if options.record else RELEASES[:1]
    releases = (options.release,) if options.release else default
    known = scenario_names(releases[0])
    names = options.names or [name for name in known if RECORDED.find(name, releases[0])]
    if options.within < float("inf"):
        first = date.today().toordinal() % len(names)
        names = [*names[first:], *names[:first]]
    verdicts: dict[str, str | None] = {}
    wanted = 0
    for release in releases:
        names_of_release = [name for name in names if name in scenario_names(release)]
        wanted += len(names_of_release)
        verdicts |= _run_all(names_of_release, release, records=options.record, until_s=started + options.within)
    different = sum(verdict is not None for verdict in verdicts.values())
    not_run = wanted - len(verdicts)
    print(
        f"{len(verdicts) - different} agree, {different} differ, {not_run} not run, {time.monotonic() - started:.0f} s"
    )
    return 1 if different or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
