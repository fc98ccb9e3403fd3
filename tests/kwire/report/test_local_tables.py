"""Tables of this process as DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.report import local_tables
from tests.support.captures.capture_files import CAPTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_table_without_rows_is_a_relation_that_needs_no_python_worker(spark: SparkSession) -> None:
    flows = local_tables.read_table([str(CAPTURES / "small_share.pcap")], {"level": "flows"})

    rows, nothing = (local_tables.to_data_frame(spark, table) for table in (flows, flows.slice(0, 0)))

    assert rows.count() == flows.num_rows > 0
    assert nothing.collect() == []
    assert [(column.name, column.dataType) for column in nothing.schema] == [
        (column.name, column.dataType) for column in rows.schema
    ]
    plan = nothing._jdf.queryExecution().optimizedPlan().toString()
    assert plan.startswith("LocalRelation <empty>")
