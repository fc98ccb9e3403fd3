"""The columns of an index."""

from __future__ import annotations

import pytest

from kwire.capture import index
from tests.support.captures.capture_files import SHARE

pytestmark = pytest.mark.slow


def test_only_the_columns_of_flows_that_are_read_are_stored() -> None:
    stored = {name for name in index.build_index(SHARE).columns if name.startswith("flow.")}
    expected = "pair epoch first_ts last_ts packets size link opener end_reason"

    assert stored == {f"flow.{name}" for name in expected.split()}
