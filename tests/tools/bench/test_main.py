"""`make bench` runs every benchmark that there is."""

from __future__ import annotations

from pathlib import Path

from tools.bench import __main__ as every

HERE = Path(every.__file__).parent


def test_every_module_that_is_a_benchmark_is_run() -> None:
    alone = {path.stem for path in HERE.glob("*.py") if "python -m tools.bench." in path.read_text(encoding="utf-8")}

    assert set(every.NAMES) == alone - {"__init__", "__main__", "page"}
