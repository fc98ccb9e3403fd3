"""`make bench` runs every benchmark that there is."""

from __future__ import annotations

from pathlib import Path

from tools.bench import __main__ as every

HERE = Path(every.__file__).parent


def test_every_benchmark_that_needs_no_room_of_its_own_is_run() -> None:
    """A benchmark writes its part of a page; `scale` needs more disk than a machine may have."""
    writers = {path.stem for path in HERE.glob("*.py") if "from tools.bench.page import" in path.read_text("utf-8")}

    assert set(every.NAMES) == writers - {"scale"}
