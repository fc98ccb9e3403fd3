"""Fixtures for tests of the index."""

from __future__ import annotations

import pytest

from kwire.capture.index.scan import scanner


@pytest.fixture
def span_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The size of the spans, which is the parameter of the test."""
    size: int = request.param
    monkeypatch.setattr(scanner, "SPAN_SIZE", size)
    return size
