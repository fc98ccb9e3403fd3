"""Leaves out modules that import names which an earlier, still supported PySpark lacks.

What works with every version is tested by test_pyspark_versions.py.
"""

from __future__ import annotations

from importlib.util import find_spec

_FILTERS = ["source/test_pruning.py", "source/test_pushdown.py", "test_data_source.py"]
_LIMITS = ["streaming/test_stream_reader.py", "streaming/test_stream_task.py"]

collect_ignore: list[str] = []
if find_spec("pyspark") is not None:
    from kwire.spark.source.pushdown import HAS_FILTERS
    from kwire.spark.streaming.stream_reader import HAS_LIMITS

    collect_ignore += [*([] if HAS_FILTERS else _FILTERS), *([] if HAS_LIMITS else _LIMITS)]
