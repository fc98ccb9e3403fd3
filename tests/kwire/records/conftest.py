"""Every test of record batches runs with the accelerator and with the Python code at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.comparing_record_codec import comparing_record_codecs


@pytest.fixture(autouse=True, scope="package")
def compare_record_codecs() -> Iterator[None]:
    """Compare both at each reading and writing of records."""
    with comparing_record_codecs():
        yield
