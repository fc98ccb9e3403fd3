"""`python -m tools.certification OUT/results.json ...` writes docs/certification.md, its picture and its badges.

The first file is of a run over all cases; results of further files, of cases that were changed or added since, replace
those of the same clients and cases, and other clients are added. Cases that do not exist any more are left out.

Each FAILED and TIMEOUT needs an explanation in explanations.toml, by client and case. So does each verdict that differs
from run to run (`mockbroker certify --repeat`), in the tables `unstable.CLIENT`: the page marks these, whatever the
verdict of this run is. Exit codes: 0 written, 1 an explanation is missing or has no such result, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from mockbroker.certify.case_table import find_cases
from mockbroker.certify.report.badge import render_badge
from mockbroker.certify.report.counts import count_verdicts
from mockbroker.certify.report.write_pages import badge_names
from mockbroker.certify.results import RunRecord
from tools.certification.page import Explanations, find_problems, keep_cases, render_page, replace_results
from tools.certification.picture import draw_matrix

DOCS = Path(__file__).parents[2] / "docs"
EXPLANATIONS = Path(__file__).with_name("explanations.toml")


def main() -> int:
    """Write the page, or say what is missing."""
    parser = argparse.ArgumentParser(prog="python -m tools.certification", description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="results.json of a run over all cases, and of later ones")
    options = parser.parse_args()
    try:
        run, *later = [msgspec.json.decode(path.read_bytes(), type=RunRecord) for path in options.results]
    except (OSError, msgspec.MsgspecError) as error:
        print(f"results: {error}", file=sys.stderr)
        return 2
    replaced = [replace_results(run, other) for other in later]
    keep_cases(run, {case.id for case in find_cases()})
    bad: dict[str, Any] = tomllib.loads(EXPLANATIONS.read_text(encoding="utf-8"))
    explanations = Explanations(unstable=bad.pop("unstable", {}), bad=bad)
    problems = find_problems(run, explanations)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    page = render_page(run, explanations, is_played_again=any(replaced))
    (DOCS / "certification.md").write_text(page, encoding="utf-8")
    (DOCS / "certification.svg").write_text(draw_matrix(run), encoding="utf-8")
    folder = DOCS / "badges"
    folder.mkdir(exist_ok=True)
    for number, (driver, name) in enumerate(zip(run.drivers, badge_names(run.drivers), strict=True)):
        counts = count_verdicts(result for result in run.results if result.driver == number)
        (folder / name).write_text(render_badge(driver.label, counts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
