"""Writes the pages and badges of a run beside its results.json."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mockbroker.certify.report.badge import render_badge
from mockbroker.certify.report.case_page import CasePage, render_case
from mockbroker.certify.report.counts import count_verdicts
from mockbroker.certify.report.matrix import render_index
from mockbroker.certify.results import Details, DriverRecord, ResultRecord, RunRecord


def write_pages(run: RunRecord, folder: Path) -> None:
    """Write index.html, a page for each result with files, and badges/CLIENT.svg."""
    cases = {case.id: case for case in run.cases}
    pages: dict[tuple[int, str], str] = {}
    for result in run.results:
        if result.details is None:
            continue
        path = Path(result.details).with_suffix(".html")
        driver = run.drivers[result.driver]
        up = "../" * len(path.parent.parts)
        page = CasePage(
            case=cases[result.case],
            driver=driver,
            result=result,
            details=_read_details(folder / result.details),
            log=_read_log(folder, result),
            command=_command(run, driver, result),
            home=f"{up}index.html",
            folder=up,
        )
        (folder / path).write_text(render_case(page), encoding="utf-8")
        pages[result.driver, result.case] = path.as_posix()
    (folder / "index.html").write_text(render_index(run, pages), encoding="utf-8")
    _write_badges(run, folder / "badges")


def badge_names(drivers: Sequence[DriverRecord]) -> list[str]:
    """The file name of each client's badge: its name, with the number of the driver where two have the same."""
    names = [re.sub(r"[^A-Za-z0-9._-]+", "-", driver.name).strip("-.") or "client" for driver in drivers]
    return [f"{name}.svg" if names.count(name) == 1 else f"{name}-{number}.svg" for number, name in enumerate(names)]


def _write_badges(run: RunRecord, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for number, (driver, name) in enumerate(zip(run.drivers, badge_names(run.drivers), strict=True)):
        counts = count_verdicts(result for result in run.results if result.driver == number)
        (folder / name).write_text(render_badge(driver.label, counts), encoding="utf-8")


def _read_details(path: Path) -> Details:
    return msgspec.json.decode(path.read_bytes(), type=Details)


def _read_log(folder: Path, result: ResultRecord) -> str:
    return (folder / result.log).read_text(encoding="utf-8", errors="replace") if result.log else ""


def _command(run: RunRecord, driver: DriverRecord, result: ResultRecord) -> str:
    """The command that plays the case of a result again, with a folder of its own."""
    words = ["mockbroker", "certify", "--driver", driver.command, "--cases", result.case, "--seed", str(run.seed)]
    words += ["--release", run.release]
    words += ["--repeat", str(run.repeat)] if run.repeat > 1 else []
    words += ["--bootstrap-servers", run.kafka] if run.kafka else []
    return shlex.join([*words, "--keep-captures", "-o", "certify-again"])
