"""The command `mockbroker certify`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kwire.escape import one_line, printable_lines
from mockbroker.certify.case import Case
from mockbroker.certify.case_broker import is_playable_on_kafka, open_kafka, open_mock, refuse_used_topics
from mockbroker.certify.case_table import NoSuchCase, find_cases, select_cases
from mockbroker.certify.kafka_admin import KafkaAdmin, KafkaUnavailable
from mockbroker.certify.play import PlayOptions
from mockbroker.certify.progress import Progress, exit_code, summary_lines
from mockbroker.certify.report.junit import write_junit
from mockbroker.certify.report.write_pages import write_pages
from mockbroker.certify.results import RunRecord, case_record
from mockbroker.certify.runner import Runner
from mockbroker.config.keys import ConfigError
from mockbroker.config.releases import DEFAULT_RELEASE, RELEASES
from mockbroker.log.log_output import start_log

_USAGE = 2
_JOBS_MAX = 64
_REPEAT_MAX = 100
#: Kafka's own timers are longer than those of the quick profile.
KAFKA_TIME_FACTOR = 3.0


def main(arguments: Sequence[str]) -> int:
    """Run the command. Exit codes: 0 nothing FAILED, 1 something did, 2 wrong usage, 130 interrupted."""
    parsed = create_parser().parse_args(arguments)
    if not hasattr(os, "killpg"):
        print("mockbroker certify: needs process groups, which Linux and macOS have", file=sys.stderr)
        return _USAGE
    start_log(level="error", log_format="text")
    try:
        all_cases = find_cases()
        if parsed.explain is not None:
            return _explain(all_cases, parsed.explain)
        cases = select_cases(all_cases, parsed.cases or ["*"])
        if parsed.quick:
            cases = [case for case in cases if case.quick]
        if parsed.list:
            return _list(cases)
        if not cases:
            raise NoSuchCase("no case is left")
        if not parsed.driver:
            raise ConfigError("--driver is missing: the command that starts a driver (docs/certify-drivers.md)")
        if parsed.check_driver:
            return _check_drivers(parsed.driver)
        kafka = None if parsed.bootstrap_servers is None else KafkaAdmin(parsed.bootstrap_servers)
        return _run(parsed, cases if kafka is None else _cases_for_kafka(kafka, cases), kafka)
    except (NoSuchCase, ConfigError, OSError, KafkaUnavailable) as error:
        print(printable_lines(f"mockbroker certify: {str(error) or type(error).__name__}"), file=sys.stderr)
        return _USAGE
    except KeyboardInterrupt:
        print("mockbroker certify: interrupted; all drivers were ended", file=sys.stderr)
        return 130


def _run(parsed: argparse.Namespace, cases: Sequence[Case], kafka: KafkaAdmin | None) -> int:
    folder: Path = parsed.output
    folder.mkdir(parents=True, exist_ok=True)
    if kafka is None:
        options = PlayOptions(open_mock(seed=parsed.seed, release=parsed.release), parsed.keep_captures)
    else:
        options = PlayOptions(open_kafka(kafka, seed=parsed.seed), parsed.keep_captures, KAFKA_TIME_FACTOR)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    runner = Runner(parsed.driver, cases, folder=folder, options=options, repeat=parsed.repeat)
    progress = Progress(sys.stderr, len(cases) * len(parsed.driver), runner.drivers)
    runner.on_result, runner.on_note = progress.add, progress.note
    runner.run(parsed.jobs if kafka is None else 1)
    progress.end()
    run = RunRecord(
        seed=parsed.seed,
        release=parsed.release or DEFAULT_RELEASE,
        started=started,
        drivers=runner.drivers,
        cases=[case_record(case) for case in cases],
        results=runner.results,
        kafka=None if kafka is None else kafka.bootstrap,
        repeat=parsed.repeat,
    )
    write_reports(run, folder)
    print(*summary_lines(run), f"{folder / 'index.html'}", sep="\n")
    return exit_code(run)


def _cases_for_kafka(kafka: KafkaAdmin, cases: Sequence[Case]) -> list[Case]:
    """The cases that a real cluster can be used for. Raises: KafkaUnavailable; NoSuchCase if none is left."""
    node_count = kafka.node_count()
    playable = [case for case in cases if is_playable_on_kafka(case, node_count)]
    if not playable:
        raise NoSuchCase("none of these cases can be played on a real Kafka")
    refuse_used_topics(kafka, playable)
    return playable


def write_reports(run: RunRecord, folder: Path) -> None:
    """Write results.json, junit.xml, and the pages and badges."""
    text = msgspec.json.format(msgspec.json.encode(run), indent=2)
    (folder / "results.json").write_bytes(text + b"\n")
    write_junit(run, folder / "junit.xml")
    write_pages(run, folder)


def _list(cases: Sequence[Case]) -> int:
    for case in cases:
        print(f"{case.id:<55} {case.level:<7} {'quick' if case.quick else '':<6} {case.title}")
    return 0


def _explain(all_cases: Sequence[Case], patterns: Sequence[str]) -> int:
    for case in select_cases(all_cases, patterns):
        print(f"{case.id}: {case.title}")
        print(f"  {case.level}: {case.rule}")
        print(f"  source: {case.source}")
        print(f"  needs: {', '.join(case.needs) or 'nothing'}")
        if case.settings_needed:
            print(f"  needs settings: {', '.join(case.settings_needed)}")
        print(f"  limit: {case.timeout_s:g} s{'; part of --quick' if case.quick else ''}")
        for line in case.broker.splitlines():
            print(f"  {line}" if line else "")
    return 0


def _check_drivers(commands: Sequence[str]) -> int:
    from mockbroker.certify.check.checker import Outcome, check_driver

    problems = 0
    for command in commands:
        print(one_line(command))
        for line in check_driver(command):
            print(printable_lines(str(line)), flush=True)
            problems += line.outcome is Outcome.WRONG
    return 1 if problems else 0


def _parse_jobs(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= _JOBS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of jobs from 1 to {_JOBS_MAX}")
    return int(text)


def _parse_repeat(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= _REPEAT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of times from 1 to {_REPEAT_MAX}")
    return int(text)


def create_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    description = (
        "Play cases against Kafka clients, each behind a driver, and write what they did right and wrong: "
        "results.json and junit.xml in the output folder."
    )
    epilog = (
        "Exit codes: 0 no verdict is FAILED, TIMEOUT or ERROR, 1 one is or a driver does not start, 2 wrong usage. "
        "Drivers: docs/certify-drivers.md."
    )
    parser = argparse.ArgumentParser(prog="mockbroker certify", description=description, epilog=epilog)
    add = parser.add_argument
    add("--driver", action="append", default=[], metavar="COMMAND", help="the command of a driver; repeatable")
    patterns = "play these only: share.*, or a family; repeatable (default all)"
    add("--cases", action="append", metavar="PATTERN", help=patterns)
    add("--quick", action="store_true", help="play only the subset for each change, without the slow cases")
    add("--seed", type=int, default=1, metavar="N", help="seed of the clusters (default 1)")
    jobs = min(os.cpu_count() or 1, 4)
    add("--jobs", type=_parse_jobs, default=jobs, metavar="N", help=f"cases at the same time (default {jobs})")
    repeat = "play each case N times with the same seed; the worst verdict counts, and those that differ are shown"
    add("--repeat", type=_parse_repeat, default=1, metavar="N", help=repeat)
    output = "folder of the results (default certify-out)"
    add("-o", "--output", type=Path, default=Path("certify-out"), metavar="OUT", help=output)
    real = "play the cases that need no faults on this real Kafka, behind a proxy; their topics are created and deleted"
    add("--bootstrap-servers", metavar="HOST:PORT", help=real)
    add("--release", choices=RELEASES, metavar="R", help=f"release of Kafka (default {DEFAULT_RELEASE})")
    add("--keep-captures", action="store_true", help="keep a capture of every case, not only of those that are not OK")
    add("--list", action="store_true", help="list the cases and end")
    explain = "show the rule, the source, the limit and the course of cases, and end; repeatable"
    add("--explain", action="append", metavar="CASE", help=explain)
    add("--check-driver", action="store_true", help="try each method of the drivers, say what is wrong, and end")
    return parser
