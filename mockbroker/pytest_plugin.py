"""The pytest fixture `kafka`: a cluster for each test that requests it."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mockbroker.cluster import Cluster


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, as --strict-markers requires."""
    config.addinivalue_line(
        "markers", "kafka(**options): options of the fixture `kafka`; the arguments of mockbroker.Cluster"
    )


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running Kafka cluster; its options are in `@pytest.mark.kafka(nodes=3, topics={"orders": 4})`.

    The options of a function, its class and its module are merged. A fault that never acted fails the test.
    """
    from mockbroker.cluster import Cluster

    with Cluster(**_merge_options(request.node)) as cluster:
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test of the fixture `kafka` whose faults never acted, unless it has failed already."""
    yield
    cluster = getattr(item, "funcargs", {}).get("kafka")
    if cluster is not None:
        cluster.check_faults()


def _merge_options(node: pytest.Item) -> dict[str, Any]:
    """The options of all markers of a test: those of its function count before those of its class and module.

    Without an option, timers are those of the profile "quick". Options that are mappings, as `topics`, are merged too.
    Raises: TypeError for a positional argument.
    """
    options: dict[str, Any] = {"profile": "quick"}
    for marker in reversed(list(node.iter_markers("kafka"))):
        if marker.args:
            raise TypeError(
                f"@pytest.mark.kafka takes named options, as topics={{'orders': 1}}, not {marker.args[0]!r}"
            )
        for name, value in marker.kwargs.items():
            outer = options.get(name)
            if isinstance(outer, Mapping) and isinstance(value, Mapping):
                options[name] = {**outer, **value}
            else:
                options[name] = value
    return options
