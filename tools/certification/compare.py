"""`python -m tools.certification.compare RESULTS OTHER ...`: whether two runs of `mockbroker certify` agree.

Each file is a results.json: first that of a run on mockbroker, then those on a real Kafka (`--bootstrap-servers`).
Compares the verdicts of each client and case that is in both, and prints those that differ. Exit codes: 0 none does,
1 one does, 2 wrong usage, or a file that has no client and case in common with the first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from mockbroker.certify.results import RunRecord
from mockbroker.certify.verdicts import Verdict

ClientAndCase = tuple[str, str]


class Difference(NamedTuple):
    """A client and case whose verdicts differ."""

    client: str
    case: str
    verdict: Verdict
    other: Verdict


def read_verdicts(path: Path) -> dict[ClientAndCase, Verdict]:
    """The verdicts of a results.json by client and case. Raises: OSError, msgspec.MsgspecError."""
    run = msgspec.json.decode(path.read_bytes(), type=RunRecord)
    return {(run.drivers[result.driver].label, result.case): result.verdict for result in run.results}


def find_differences(
    verdicts: Mapping[ClientAndCase, Verdict], others: Mapping[ClientAndCase, Verdict]
) -> list[Difference]:
    """The differences between the verdicts that are in both, by client and case."""
    return [
        Difference(*key, verdicts[key], others[key])
        for key in sorted(verdicts.keys() & others.keys())
        if verdicts[key] != others[key]
    ]


def main(arguments: list[str] | None = None) -> int:
    """Print the differences and their number."""
    parser = argparse.ArgumentParser(prog="python -m tools.certification.compare", description=__doc__)
    parser.add_argument("results", type=Path, help="results.json of a run on mockbroker")
    parser.add_argument("others", type=Path, nargs="+", metavar="OTHER", help="results.json of a run on a real Kafka")
    options = parser.parse_args(arguments)
    try:
        verdicts = read_verdicts(options.results)
        runs = {path: read_verdicts(path) for path in options.others}
    except (OSError, msgspec.MsgspecError) as error:
        print(f"results: {error}", file=sys.stderr)
        return 2
    for path, others in runs.items():
        if not verdicts.keys() & others.keys():
            print(f"{path}: no client and case of {options.results}", file=sys.stderr)
            return 2
    found = [difference for others in runs.values() for difference in find_differences(verdicts, others)]
    for client, case, verdict, other in found:
        print(f"{client}: {case}: {verdict}, there {other}")
    count = sum(len(verdicts.keys() & others.keys()) for others in runs.values())
    print(f"{count} verdicts compared, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
