"""The history of measurements: a line for each case, which later runs do not change."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tools.bench import history
from tools.bench.history import append_results, read_history, summarize, summarize_timing
from tools.bench.rounds import Timing, compare_candidates


def test_runs_are_appended_with_commit_time_and_machine(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    ours = summarize("decode", "kwire", "us", [3.0, 1.0, 2.0])
    append_results("codec", [ours], "a machine", path=path)
    before = path.read_bytes()

    append_results(
        "share", [summarize("implicit", "kfake", "messages/s", [10, 12], ratio=1.23456)], "another", path=path
    )

    assert path.read_bytes().startswith(before)
    first, second = read_history(path)
    assert (first.case, first.median, first.least, first.most, first.ratio) == ("decode", 2.0, 1.0, 3.0, None)
    assert first.version == history.find_version("kwire") != ""
    assert (second.benchmark, second.peer, second.version, second.ratio) == ("share", "kfake", "", 1.235)
    assert (first.machine, second.machine) == ("a machine", "another")
    assert re.fullmatch(r"[0-9a-f]{12}\+?", first.commit)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ", first.date)


def test_a_line_that_is_no_entry_is_named(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    append_results("codec", [summarize("decode", "kwire", "us", [1.0])], "a machine", path=path)
    with path.open("ab") as file:
        file.write(b'{"case": 1}\n')

    with pytest.raises(ValueError, match=r"history.jsonl, line 2: "):
        read_history(path)


def test_the_history_of_the_repository_can_be_read() -> None:
    times, rates, sizes = {"us", "ms", "s"}, {"1/s", "messages/s", "packets/s", "MB/s"}, {"bytes", "KiB", "MB"}
    # Of captures and Spark also quotients, in x or in times of the level `messages`.
    assert {entry.unit for entry in read_history()} <= times | rates | sizes | {"x", "x messages", "x clean"}


def test_a_commit_with_changed_files_has_a_mark(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one")
    clean = history.describe_commit(tmp_path)
    (tmp_path / "file").write_text("two")

    assert re.fullmatch("[0-9a-f]{12}", clean)
    assert history.describe_commit(tmp_path) == f"{clean}+"


def test_a_timing_has_its_fastest_and_slowest_round() -> None:
    result = summarize_timing("decode", "kio", Timing(seconds=2e-6, ratio=3.5, least=1e-6, most=4e-6), is_ours=False)
    timed = compare_candidates({"sum": lambda: sum(range(100))}, rounds=3)["sum"]

    assert (result.median, result.least, result.most, result.ratio) == (2.0, 1.0, 4.0, 3.5)
    assert 0 < timed.least <= timed.seconds <= timed.most
