"""What goes wrong around the clients: the network between the nodes, and the nodes themselves."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from mockbroker.kafka_error import KafkaError
from mockbroker.sim.chance import do_one
from mockbroker.sim.weather import Sky, Weather
from mockbroker.state.topics import CoordinatorKind

if TYPE_CHECKING:
    from mockbroker.sim.world import World


class Faults:
    """Changes the weather, moves leaders and coordinators, stops, kills and starts nodes; at most one is down."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._down: int | None = None
        self._weather = Weather(rng, world.coverage)
        world.core.state.calls.fate = self._weather.fate
        world.core.state.calls.loading_ms = self._weather.loading_ms

    def act(self) -> str:
        """Let one thing go wrong, or right again."""
        deeds: list[tuple[int, Callable[[], str]]] = [
            (10, self._change_weather),
            (4, self._move_leader),
            (3, self._move_coordinator),
            (3, self._turn_off if self._down is None else self._turn_on),
        ]
        return do_one(self._rng, deeds)

    def repair(self) -> None:
        """All is well from now on."""
        self._weather.sky = Sky.CLEAR
        if self._down is not None:
            self._turn_on()

    def _change_weather(self) -> str:
        self._weather.sky = self._rng.choice(list(Sky))
        return f"the weather is {self._weather.sky.name.lower()}"

    def _move_leader(self) -> str:
        topic = self._rng.choice(self._world.topics())
        return self._move(topic.name, self._rng.randrange(len(topic.partitions)), "leader moved")

    def _move_coordinator(self) -> str:
        kind = self._rng.choice((CoordinatorKind.SHARE, CoordinatorKind.SHARE, CoordinatorKind.GROUP))
        topic = self._world.core.state.metadata.internal_topic(kind)
        return self._move(topic.name, self._rng.randrange(len(topic.partitions)), "coordinator moved")

    def _move(self, topic: str, partition_index: int, name: str) -> str:
        to = self._rng.choice(list(self._world.core.state.metadata.node_ids))
        try:
            self._world.core.move_leader(topic, partition_index, self._world.now_ms, to=to)
        except KafkaError:
            return f"{topic}-{partition_index} cannot move to {to}"
        self._world.coverage.count(name)
        return f"{topic}-{partition_index} moves to {to}"

    def _turn_off(self) -> str:
        core = self._world.core
        self._down = self._rng.choice(list(core.state.metadata.node_ids))
        if self._rng.random() < 0.5:
            core.kill_node(self._down, self._world.now_ms)
            self._world.coverage.count("node killed")
            return f"node {self._down} is killed"
        core.stop_node(self._down, self._world.now_ms)
        self._world.coverage.count("node stopped")
        return f"node {self._down} is stopped"

    def _turn_on(self) -> str:
        assert self._down is not None
        node_id, self._down = self._down, None
        self._world.core.start_node(node_id, self._world.now_ms)
        self._world.coverage.count("node started")
        return f"node {node_id} starts"
