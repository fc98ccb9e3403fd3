"""`make bench` runs every benchmark."""

from __future__ import annotations

from pathlib import Path

from tools.bench import __main__ as bench_main

HERE = Path(bench_main.__file__).parent


def test_every_benchmark_is_run_except_those_with_a_command_of_their_own() -> None:
    """A benchmark writes a section; `scale` needs much disk space, `compare` is `make bench-compare`."""
    sources = {path.stem: path for path in HERE.glob("*.py")}
    sources |= {path.parent.name: path for path in HERE.glob("*/__main__.py")}
    writers = {name for name, path in sources.items() if "from tools.bench.page import" in path.read_text("utf-8")}

    assert set(bench_main.NAMES) == writers - {"scale", "compare"}
