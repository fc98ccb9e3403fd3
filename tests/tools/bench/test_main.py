"""`make bench` runs every benchmark."""

from __future__ import annotations

from pathlib import Path

from tools.bench import __main__ as bench_main

HERE = Path(bench_main.__file__).parent


def test_every_benchmark_is_run_except_those_that_need_disk_space() -> None:
    """A benchmark writes a section; `scale` needs much disk space."""
    writers = {path.stem for path in HERE.glob("*.py") if "from tools.bench.page import" in path.read_text("utf-8")}

    assert set(bench_main.NAMES) == writers - {"scale"}
