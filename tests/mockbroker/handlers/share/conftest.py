"""The broker of most tests of share sessions."""

from __future__ import annotations

import pytest

from tests.support.brokers.share_members import ShareBroker, opened


@pytest.fixture
def broker() -> ShareBroker:
    """A broker with an open session of the member "m1" for the partition "A0"."""
    broker = ShareBroker()
    opened(broker)
    return broker
