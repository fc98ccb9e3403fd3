"""What a cluster is started with, and the cluster running in an event loop: shared by command and context manager."""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mockbroker.build import build_core
from mockbroker.clock import Clock
from mockbroker.config import BrokerConfig
from mockbroker.features import finalize
from mockbroker.net.listeners import Listener, listeners_of
from mockbroker.net.shell import Shell
from mockbroker.state.share_rules import RELEASED_EDITION

if TYPE_CHECKING:
    from mockbroker.net.tap import Tap

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """What a cluster is made of.

    port: of the first listener of node 0, node i adds i; 0 lets the system choose each; None leaves it to `listeners`.
    topics: name to partition count, made before the first client comes. seed: of all chance in the cluster.
    share_edition: of KIP-932. share_persister: where share groups keep their state. add_scram: users to start with, as
    `kafka-storage.sh` takes them; they hold passwords.
    """

    nodes: int = 1
    port: int | None = None
    config: BrokerConfig = field(default_factory=BrokerConfig)
    features: tuple[str, ...] = ()
    topics: Mapping[str, int] = field(default_factory=dict)
    capture: Path | None = None
    seed: int | None = None
    share_edition: str = RELEASED_EDITION
    share_persister: str = "default"
    add_scram: tuple[str, ...] = field(default=(), repr=False)


class Server:
    """A cluster in the event loop of whoever calls `start`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.clock = Clock()
        self._listeners: list[Listener] = listeners_of(options.config, port=options.port)
        rng = random.Random(options.seed)
        self.core = build_core(
            config=options.config,
            node_count=options.nodes,
            features=finalize(options.features),
            topics=options.topics,
            rng=rng,
            now_ms=self.clock.now_ms(),
            share_edition=options.share_edition,
            share_persister=options.share_persister,
        )
        for user in options.add_scram:
            self.core.state.security.add_scram(user)
        self.shell: Shell | None = None
        self._nodes = list(self.core.state.nodes.values())

    async def start(self) -> None:
        """Listen on every node; afterwards `bootstrap` is what clients need."""
        options = self.options
        tls = {}
        for listener in self._listeners:
            if listener.is_encrypted:
                from mockbroker.net.tls import server_context

                tls[listener.name] = server_context(options.config, listener)
        frame_bytes_max = options.config.integer("socket.request.max.bytes")
        shell = Shell(self.core, self.clock, frame_bytes_max=frame_bytes_max, tap=_tap(options.capture))
        try:
            await shell.start(self._listeners, tls)
        except OSError:
            if shell.tap is not None:
                shell.tap.close()
            raise
        self.shell = shell
        if options.config.ignored:
            log.info("accepted, without a meaning here: %s", ", ".join(sorted(options.config.ignored)))
        if options.config.unknown:
            log.warning("unknown to Kafka 4.3, ignored: %s", ", ".join(sorted(options.config.unknown)))

    async def stop(self) -> None:
        """End every connection and stop listening."""
        if self.shell is not None:
            await self.shell.stop()

    def live(self) -> Shell:
        """The shell of a server that was started."""
        assert self.shell is not None
        return self.shell

    def bootstrap(self, listener: str | None = None) -> str:
        """HOST:PORT of every node, those that are down included, by the first listener unless another is named."""
        name = listener or self._listeners[0].name
        return ",".join("{}:{}".format(*node.endpoint(name)) for node in self._nodes)


def _tap(capture: Path | None) -> Tap | None:
    if capture is None:
        return None
    from mockbroker.net.tap import Tap

    return Tap(capture)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's loop where it is installed, else asyncio's own."""
    if sys.platform != "win32":
        try:
            import uvloop
        except ImportError:
            pass
        else:
            return uvloop.new_event_loop()
    return asyncio.new_event_loop()
