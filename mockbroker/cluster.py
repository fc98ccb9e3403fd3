"""`mockbroker.Cluster`: a cluster for tests and programs, in an event loop and a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mockbroker.config import NO_OP_PERSISTER, BrokerConfig, ConfigError, Dialect
from mockbroker.server import Options, Server, new_event_loop
from mockbroker.state.share_rules import RELEASED_EDITION

if TYPE_CHECKING:
    from types import TracebackType

    from mockbroker.inside import SharePartitionView
    from mockbroker.journal import Exchange, Journal

T = TypeVar("T")

#: Where share groups keep their state: as the edition does, nowhere, or in the log of the topic-partition itself.
SHARE_PERSISTERS = ("default", "no-op", "control-records")
#: How long start and stop may take before they are an error, seconds.
_PATIENCE_S = 30.0


class Cluster:
    """A Kafka cluster on loopback sockets, for as long as the `with` block lasts.

    nodes: how many brokers; each has its own port. port: of the first, the others follow; 0 lets the system choose.
    properties: Kafka's own broker configurations, as a mapping or as the path of a server.properties file.
    settings: more of them in the form "KEY=VALUE", which win. features: "share.version=0" and the like.
    topics: name to partition count, made before the first client comes. capture: a pcapng file to write.
    add_scram: users to start with, each as "SCRAM-SHA-256=[name=alice,password=secret]", in `kafka-storage.sh`'s words.
    seed: of all chance in the cluster (topic ids, member ids, assignments); different each time when None.
    share_edition: of KIP-932: "4.3", "4.0-early-access" or a revision, "kip932-r1" to "kip932-r5" (docs/kip-932.md).
    share_persister: where share groups keep their state: "default" as the edition does, "no-op" nowhere,
    "control-records" in the log of the topic-partition itself.
    Raises: ConfigError for a wrong configuration, OSError where an address is taken.

    Works as a sync and as an async context manager.
    """

    def __init__(
        self,
        *,
        nodes: int = 1,
        port: int | None = None,
        properties: Mapping[str, object] | str | Path | None = None,
        settings: Iterable[str] = (),
        features: Iterable[str] = (),
        topics: Mapping[str, int] | None = None,
        capture: str | Path | None = None,
        add_scram: Iterable[str] = (),
        seed: int | None = None,
        share_edition: str = RELEASED_EDITION,
        share_persister: str = "default",
    ) -> None:
        if nodes < 1:
            raise ConfigError(f"nodes: {nodes}; a cluster has at least one")
        if share_edition != RELEASED_EDITION:
            from mockbroker.editions import edition_of

            edition_of(share_edition)
        self._options = Options(
            nodes=nodes,
            port=port,
            config=_config(properties, [*settings, *persister_settings(share_persister)], share_edition),
            features=tuple(features),
            topics=dict(topics or {}),
            capture=None if capture is None else Path(capture),
            seed=seed,
            add_scram=tuple(add_scram),
            share_edition=share_edition,
            share_persister=share_persister,
        )
        self._server: Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> Cluster:
        """Start the cluster; every listener accepts when this returns."""
        if self._thread is not None:
            raise RuntimeError("the cluster runs already")
        server = Server(self._options)
        loop = new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="mockbroker", daemon=True)
        thread.start()
        self._server, self._loop, self._thread = server, loop, thread
        try:
            asyncio.run_coroutine_threadsafe(server.start(), loop).result(_PATIENCE_S)
        except BaseException:
            self._end_thread()
            raise
        return self

    def stop(self) -> None:
        """End every connection and the thread; harmless when the cluster does not run."""
        if self._thread is None or self._loop is None or self._server is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(_PATIENCE_S)
        finally:
            self._end_thread()

    def _end_thread(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_S)
        self._loop.close()
        self._loop = self._thread = None

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Cluster:
        return await asyncio.get_running_loop().run_in_executor(None, self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.stop)

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of every node, comma-separated: what clients take as bootstrap.servers."""
        return self._running().bootstrap()

    @property
    def clock(self) -> ClusterClock:
        """The cluster's clock, to look at and to move."""
        return ClusterClock(self)

    @property
    def journal(self) -> Journal:
        """Every exchange in order; read it between requests, or through `exchanges`."""
        return self._running().core.journal

    def exchanges(self, api: str | None = None) -> list[Exchange]:
        """The journal's exchanges, of one API ("ShareFetch") or all, as they stand now."""
        return self.run(lambda server: server.core.journal.exchanges(api))

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Make a topic, as CreateTopics does; raises KafkaError where that would be refused."""
        self.run(lambda server: server.core.create_topic(name, partitions))

    def stop_node(self, node_id: int) -> None:
        """End a node cleanly: others lead what it led, then its connections close. Raises KafkaError if it is down."""
        self.run(lambda server: server.live().stop_node(node_id))

    def kill_node(self, node_id: int) -> None:
        """End a node at once, as a power cut would.

        The others take over when its session ends, `broker.session.timeout.ms` (9 seconds) later by the cluster's
        clock. Raises KafkaError if it is down.
        """
        self.run(lambda server: server.live().kill_node(node_id))

    def start_node(self, node_id: int) -> None:
        """Start a node again, at its old addresses, with its logs and without what it had in memory.

        Raises: KafkaError if it runs, OSError when an address has been taken meanwhile.
        """
        server = self._running()
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(server.live().start_node(node_id), self._loop).result(_PATIENCE_S)

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Have another in-sync replica lead a partition; the coordinators move with those of internal topics.

        Raises: KafkaError when `to` is no in-sync replica, or leads already.
        """
        self.run(lambda server: server.core.move_leader(topic, partition, server.clock.now_ms(), to=to))

    def share_partition(self, group_id: str, topic: str, partition: int) -> SharePartitionView | None:
        """A share partition as its leader has it now: start, end, what is in flight, `state_of(offset)`.

        None when no fetch of the group has asked for the partition there. Raises KafkaError for an unknown partition.
        """
        from mockbroker import inside

        return self.run(lambda server: inside.share_partition(server.core.state, group_id, topic, partition))

    def run(self, action: Callable[[Server], T]) -> T:
        """Run something in the cluster's own thread, where nothing else moves meanwhile, and bring back its result."""
        server = self._running()
        assert self._loop is not None

        async def there() -> T:
            result = action(server)
            if server.shell is not None:
                server.shell.turn()
            return result

        return asyncio.run_coroutine_threadsafe(there(), self._loop).result(_PATIENCE_S)

    def _running(self) -> Server:
        if self._server is None or self._thread is None:
            raise RuntimeError("the cluster does not run: use it in a `with` block, or call start()")
        return self._server


class ClusterClock:
    """The clock of a running cluster: moving it fires every deadline on the way, before the call returns."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def now_ms(self) -> int:
        """Milliseconds since 1970, by the cluster's reckoning."""
        return self._cluster.run(lambda server: server.clock.now_ms())

    def advance(self, duration_ms: int) -> None:
        """Move the clock forward by so many milliseconds."""
        self._cluster.run(lambda server: server.clock.advance(duration_ms))

    def freeze(self) -> None:
        """Hold the clock still: only `advance` moves it, and a test gets the same times in each run."""
        self._cluster.run(lambda server: server.clock.freeze())

    def thaw(self) -> None:
        """Let the clock run again."""
        self._cluster.run(lambda server: server.clock.thaw())


def persister_settings(share_persister: str) -> list[str]:
    """The broker configuration that says where share groups keep their state. Raises: ConfigError for another word."""
    if share_persister not in SHARE_PERSISTERS:
        raise ConfigError(f"share-persister: {share_persister!r} is not one of {', '.join(SHARE_PERSISTERS)}")
    return [f"group.share.persister.class.name={NO_OP_PERSISTER}"] if share_persister == "no-op" else []


def refuse_later_options(**options: Any) -> None:
    """Refuse what is agreed upon and not built yet, by a clear error instead of a silent nothing.

    Raises: ConfigError that names the option.
    """
    standard = {"control": None, "data_dir": None}
    for name, value in options.items():
        if value != standard[name]:
            raise ConfigError(f"{name.replace('_', '-')}: {value!r} is not supported yet")


def config_dialect(share_edition: str) -> Dialect | None:
    """How an edition of KIP-932 calls its configurations; None where they have the released names."""
    if share_edition == RELEASED_EDITION:
        return None
    from mockbroker.editions.configs import dialect_of

    return dialect_of(share_edition)


def _config(
    properties: Mapping[str, object] | str | Path | None, settings: Iterable[str], share_edition: str
) -> BrokerConfig:
    dialect = config_dialect(share_edition)
    if isinstance(properties, str | Path):
        return BrokerConfig.from_properties(Path(properties).read_text(encoding="utf-8"), settings, dialect=dialect)
    lines = [f"{name}={_text(value)}" for name, value in (properties or {}).items()]
    return BrokerConfig.from_properties("", [*lines, *settings], dialect=dialect)


def _text(value: object) -> str:
    """A value as server.properties would hold it: Python's True is Kafka's true."""
    return str(value).lower() if isinstance(value, bool) else str(value)
