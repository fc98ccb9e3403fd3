"""The pytest fixtures of clusters: `kafka`, `kafka_cluster`, and the shared `kafka_session` and `kafka_module`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mockbroker.cluster import Cluster

#: The clusters that were started for a test.
_CLUSTERS = pytest.StashKey[list["Cluster"]]()
#: The clusters that tests share, by the names of their fixtures.
_SHARED = pytest.StashKey[dict[str, "Cluster"]]()
_HAS_FAILED = pytest.StashKey[bool]()
_SHARED_FIXTURES = ("kafka_session", "kafka_module")
_SEED_BITS = 32


#: The packages that pytest would rewrite for their assertions, because a plugin is in the same distribution.
_OWN_PACKAGES = frozenset({"kwire", "mockbroker"})


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options of the fixtures."""
    _keep_from_rewriting(pluginmanager)
    group = parser.getgroup("mockbroker", "Kafka clusters of mockbroker")
    group.addoption(
        "--kafka-artifacts",
        metavar="DIR",
        help="write the traffic of failing tests to this folder",
    )
    group.addoption("--kafka-seed", type=int, metavar="N", help="seed of the clusters, as a failed test prints it")


def _keep_from_rewriting(pluginmanager: pytest.PytestPluginManager) -> None:
    """Have the modules of the broker imported as they are.

    Rewritten, they would be parsed again in every run that finds no stored code, a second in all, and some of them in
    the broker's thread while pytest parses a test: CPython 3.11 then fails with "AST constructor recursion depth
    mismatch". pytest has no public way to leave packages out.
    """
    marked = getattr(pluginmanager.rewrite_hook, "_must_rewrite", None)
    if isinstance(marked, set):
        marked -= _OWN_PACKAGES


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, as --strict-markers requires."""
    config.addinivalue_line(
        "markers", "kafka(**options): options of the fixture `kafka`; the arguments of mockbroker.Cluster"
    )
    config.stash[_SHARED] = {}


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running Kafka cluster; its options are in `@pytest.mark.kafka(nodes=3, topics={"orders": 4})`.

    The options of a function, its class and its module are merged. A fault that never acted fails the test.
    """
    with _start_cluster(request.node, _merge_options(request.node)) as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """A function that starts a cluster with the given options, `kafka_cluster(nodes=3)`; all end with the test."""
    with ExitStack() as stack:

        def start(**options: Any) -> Cluster:
            return stack.enter_context(_start_cluster(request.node, {"profile": "quick", **options}))

        yield start


@pytest.fixture(scope="session")
def kafka_session_options() -> Mapping[str, Any]:
    """The options of the fixture `kafka_session`; define this fixture in a conftest.py to change them."""
    return {}


@pytest.fixture(scope="session")
def kafka_session(request: pytest.FixtureRequest, kafka_session_options: Mapping[str, Any]) -> Iterator[Cluster]:
    """A cluster for all tests of the session, at one address; after each test that uses it, it is reset."""
    yield from _share_cluster(request, "kafka_session", {"profile": "quick", **kafka_session_options})


@pytest.fixture(scope="module")
def kafka_module(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster for the tests of a module, with the options of `pytestmark`; after each test it is reset."""
    yield from _share_cluster(request, "kafka_module", _merge_options(request.node))


@contextmanager
def _start_cluster(item: pytest.Item, options: dict[str, Any]) -> Generator[Cluster, None, None]:
    from mockbroker.cluster import Cluster

    _check_names(options)
    clusters = item.stash.setdefault(_CLUSTERS, [])
    capture = None
    if item.config.getoption("--kafka-artifacts") and options.get("capture") is None:
        from mockbroker.pytest_report import artifact_path

        suffix = ".pcapng" if not clusters else f"-{len(clusters) + 1}.pcapng"
        options["capture"] = capture = artifact_path(item, suffix)
    with Cluster(**_with_seed(options, item.config)) as cluster:
        clusters.append(cluster)
        yield cluster
    if capture is not None and not item.stash.get(_HAS_FAILED, False):
        capture.unlink(missing_ok=True)


def _share_cluster(request: pytest.FixtureRequest, name: str, options: dict[str, Any]) -> Iterator[Cluster]:
    from mockbroker.cluster import Cluster

    if options.get("data_dir") is not None:
        raise pytest.UsageError(f"{name}: a cluster that tests share is reset after each of them, and has no data_dir")
    _check_names(options)
    shared = request.config.stash[_SHARED]
    with Cluster(**_with_seed(options, request.config)) as cluster:
        shared[name] = cluster
        yield cluster
        del shared[name]


def _check_names(options: Iterable[str]) -> None:
    """Refuse names that `Cluster` has no options for. Raises: TypeError with the most similar name."""
    from difflib import get_close_matches
    from inspect import signature

    from mockbroker.cluster import Cluster

    known = list(signature(Cluster).parameters)
    for name in options:
        if name not in known:
            nearest = get_close_matches(name, known, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"the options are {', '.join(known)}"
            raise TypeError(f"a cluster has no option {name!r}; {hint}")


def _with_seed(options: dict[str, Any], config: pytest.Config) -> dict[str, Any]:
    """The options with a seed, so that a failure can be repeated: the given one, or one by chance."""
    seed = config.getoption("--kafka-seed")
    return {"seed": secrets.randbits(_SEED_BITS) if seed is None else seed, **options}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marker of a test that no fixture of it reads."""
    fixtures = getattr(item, "fixturenames", ())
    own = [marker for node, marker in item.iter_markers_with_node("kafka") if not isinstance(node, pytest.Module)]
    if own and "kafka" not in fixtures and any(name in fixtures for name in _SHARED_FIXTURES):
        raise pytest.UsageError(f"{item.nodeid}: the marker kafka has no effect on a cluster that tests share")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test whose faults never acted, unless it has failed already."""
    yield
    for cluster in _clusters_of(item):
        cluster.check_faults()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add seed, last exchanges and faults to the report of a failing test."""
    report = yield
    clusters = _clusters_of(item)
    if report.failed and clusters and not item.stash.get(_HAS_FAILED, False):
        item.stash[_HAS_FAILED] = True
        from mockbroker.pytest_report import artifact_path, describe_cluster, list_history, write_history_capture

        report.sections += [("mockbroker", describe_cluster(cluster)) for cluster in clusters]
        if item.config.getoption("--kafka-artifacts"):
            texts = [list_history(cluster) for cluster in clusters]
            artifact_path(item, ".txt").write_text("\n".join(texts), encoding="utf-8")
            # The sockets of a shared cluster are not recorded from the start of a single test on.
            for number, cluster in enumerate(_shared_clusters_of(item), 1):
                write_history_capture(cluster, artifact_path(item, f"-shared-{number}.pcapng"))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Reset the clusters that tests share, after the fixtures of the test have ended."""
    try:
        yield
    finally:
        for cluster in _shared_clusters_of(item):
            cluster.reset()


def _shared_clusters_of(item: pytest.Item) -> list[Cluster]:
    shared = item.config.stash[_SHARED]
    return [shared[name] for name in getattr(item, "fixturenames", ()) if name in shared]


def _clusters_of(item: pytest.Item) -> list[Cluster]:
    return [*item.stash.get(_CLUSTERS, []), *_shared_clusters_of(item)]


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
