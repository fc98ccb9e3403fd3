"""The pytest fixture `kafka`: a cluster of its own for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mockbroker.cluster import Cluster


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, so that --strict-markers takes it."""
    config.addinivalue_line(
        "markers", "kafka(**options): what the fixture `kafka` starts with; the arguments of mockbroker.Cluster"
    )


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running Kafka cluster; `@pytest.mark.kafka(nodes=3, topics={"orders": 4})` says what it is made of."""
    from mockbroker.cluster import Cluster

    marker = request.node.get_closest_marker("kafka")
    with Cluster(**(marker.kwargs if marker else {})) as cluster:
        yield cluster
