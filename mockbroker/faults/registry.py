"""`FaultRegistry`: the faults of one cluster, and which of them act on a request."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from mockbroker.config.kafka_versions import parse_versions
from mockbroker.config.keys import ConfigError
from mockbroker.engine.dispatch import API_VERSIONS_KEY
from mockbroker.engine.output import Close, HalfClose
from mockbroker.engine.routes import limit_routes
from mockbroker.faults.active_cluster_fault import ActiveClusterFault
from mockbroker.faults.active_fault import ActiveFault
from mockbroker.faults.chaos import chaos_faults
from mockbroker.faults.cluster_control import ClusterControl
from mockbroker.faults.cluster_model import check_cluster_fault
from mockbroker.faults.fault_error import FaultError
from mockbroker.faults.fault_index import FaultIndex
from mockbroker.faults.held_requests import HeldRequests
from mockbroker.faults.model import Fault
from mockbroker.faults.node_effects import NodeEffects
from mockbroker.faults.planned_faults import PlannedFaults
from mockbroker.faults.request_facts import RequestFacts
from mockbroker.faults.request_log import RequestLog
from mockbroker.faults.responses.answer_sender import AnswerSender
from mockbroker.faults.responses.response_fields import read_leaders
from mockbroker.faults.validation import check_fault
from mockbroker.log.closed_connections import log_close

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mockbroker.engine.active_request import ActiveRequest
    from mockbroker.engine.context import ConnectionInfo
    from mockbroker.engine.core import Core
    from mockbroker.faults.cluster_control import Listeners
    from mockbroker.faults.cluster_model import ClusterFault


class ChaosRun(NamedTuple):
    """A chaos profile that was started, with its number, from 1, and its faults."""

    number: int
    profile: str
    seed: int
    faults: tuple[ActiveFault | ActiveClusterFault, ...]


class FaultRegistry:
    """The faults of a cluster. While there are none, the core does not call it.

    `added`: every fault since the start or the last `clear`, also removed ones.
    """

    def __init__(self, core: Core, listeners: Callable[[], Listeners | None] = lambda: None) -> None:
        self.added: list[ActiveFault | ActiveClusterFault] = []
        self._core = core
        self._active: list[ActiveFault] = []
        self._cluster_faults: list[ActiveClusterFault] = []
        self._control = ClusterControl(core, listeners)
        self._effects = NodeEffects(core)
        self._by_api: dict[str, FaultIndex] = {}
        #: Of the requests of each API, and under None of all.
        self._logs: defaultdict[str | None, RequestLog] = defaultdict(RequestLog)
        self._added_count = 0
        self._number = 0
        #: The chaos profiles that were started, with their faults, in that order.
        self.chaos_runs: list[ChaosRun] = []
        self._sender = AnswerSender(core)

    @property
    def active(self) -> list[ActiveFault | ActiveClusterFault]:
        """The faults that were not removed, those of requests first, in the order in which they were added."""
        return [*self._active, *self._cluster_faults]

    def add_any(self, fault: Fault | ClusterFault) -> ActiveFault | ActiveClusterFault:
        """Add a fault of requests or of the nodes. Raises: as the other methods."""
        return self.add(fault) if isinstance(fault, Fault) else self.schedule(fault)

    def add_all(self, faults: Iterable[Fault | ClusterFault]) -> list[ActiveFault | ActiveClusterFault]:
        """Add faults, all or none. Raises: FaultError that names the fault by its position, from 1."""
        checked = list(faults)
        for position, fault in enumerate(checked, 1):
            try:
                self._check(fault)
            except FaultError as error:
                raise FaultError(f"fault {position}: {error}") from error
        return [self._add(fault) if isinstance(fault, Fault) else self._schedule(fault) for fault in checked]

    def find(self, number: int) -> ActiveFault | ActiveClusterFault | None:
        """The fault of this number, also a removed one; None if there is none since the last `clear`."""
        return next((active for active in self.added if active.number == number), None)

    def is_active(self, active: ActiveFault | ActiveClusterFault) -> bool:
        """Whether a fault was not removed."""
        return active in self._active or active in self._cluster_faults

    def add_chaos(self, profile: str, seed: int) -> ChaosRun:
        """Add the faults of a chaos profile. Raises: FaultError for an unknown one."""
        faults = chaos_faults(profile, list(self._core.state.nodes), seed)
        added = [
            self.add(fault, seed=f"{seed}/{number}")
            if isinstance(fault, Fault)
            else self.schedule(fault, seed=f"{seed}/{number}")
            for number, fault in enumerate(faults)
            if not isinstance(fault, Fault) or fault.when.api is None or self.serves(fault.when.api)
        ]
        run = ChaosRun(len(self.chaos_runs) + 1, profile, seed, tuple(added))
        self.chaos_runs.append(run)
        return run

    def add(self, fault: Fault, *, seed: str | None = None) -> ActiveFault:
        """Add a fault; seed: instead of the cluster's.

        Raises: FaultError for one that can never match or act; then nothing is changed.
        """
        self._check(fault)
        return self._add(fault, seed=seed)

    def _add(self, fault: Fault, *, seed: str | None = None) -> ActiveFault:
        seed = seed or self._next_seed()
        leaders = read_leaders(self._core) if fault.then.stale else {}
        log = self._logs[fault.when.api]
        held = HeldRequests(self._core, is_on=fault.then.hold)
        active = ActiveFault(
            self._next_number(), fault, seed=seed, now_ms=self._core.now_ms, leaders=leaders, log=log, held=held
        )
        self.added.append(active)
        self._active.append(active)
        self._update()
        return active

    def schedule(self, fault: ClusterFault, *, seed: str | None = None) -> ActiveClusterFault:
        """Add a fault of the nodes; seed: instead of the cluster's.

        Raises: FaultError for one that cannot happen; then nothing is changed.
        """
        self._check(fault)
        return self._schedule(fault, seed=seed)

    def _schedule(self, fault: ClusterFault, *, seed: str | None = None) -> ActiveClusterFault:
        seed = seed or self._next_seed()
        active = ActiveClusterFault(self._next_number(), fault, self._core, self._control, self._effects, seed=seed)
        self.added.append(active)
        self._cluster_faults.append(active)
        return active

    def _check(self, fault: Fault | ClusterFault) -> None:
        """Check a fault, and that this cluster has its API and its nodes. Raises: FaultError."""
        if not isinstance(fault, Fault):
            check_cluster_fault(fault)
            self._check_node("node", fault.node)
            self._check_node("to", fault.to)
            self._check_node("source", fault.source)
            return
        check_fault(fault)
        api, node = fault.when.api, fault.when.node
        if api is not None:
            self._check_version(api, fault.when.version)
        self._check_node("node", node)
        if fault.then.max_versions is not None:
            try:
                limit_routes(self._core.routes, parse_versions(fault.then.max_versions))
            except ConfigError as error:
                raise FaultError(f"max_{error}") from error

    def _check_version(self, api: str, version: int | None) -> None:
        route = next((route for route in self._core.routes.values() if route.name == api), None)
        if route is None:
            raise FaultError(f"api: this cluster does not serve {api}")
        low, high = route.versions
        # An ApiVersions request of any version reaches the faults, as it is answered.
        if version is not None and not low <= version <= high and route.api_key != API_VERSIONS_KEY:
            raise FaultError(f"version: this cluster serves no {api} version {version}, only {low} to {high}")

    def serves(self, api: str) -> bool:
        """Whether the cluster serves an API, in its release or edition."""
        return any(route.name == api for route in self._core.routes.values())

    def _check_node(self, name: str, node_id: int | None) -> None:
        nodes = self._core.state.nodes
        if node_id is not None and node_id not in nodes:
            raise FaultError(f"{name}: {node_id} is not one of {', '.join(map(str, nodes))}")

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _next_seed(self) -> str:
        # The id of the cluster comes from its seed; the cluster's own random numbers stay as without faults.
        self._added_count += 1
        return f"{self._core.state.cluster_id}/{self._added_count}"

    def remove(self, active: ActiveFault | ActiveClusterFault) -> None:
        """Remove a fault, and end it; does nothing for one that is removed."""
        if isinstance(active, ActiveClusterFault):
            if active in self._cluster_faults:
                self._cluster_faults.remove(active)
                active.remove()
        elif active in self._active:
            self._active.remove(active)
            active.held.release()
            self._update()

    def clear(self) -> None:
        """Remove all faults, and forget which were added."""
        self.chaos_runs.clear()
        for active in list(self._cluster_faults):
            self.remove(active)
        self.added.clear()
        for request_fault in self._active:
            request_fault.held.release()
        self._active.clear()
        self._logs.clear()
        self._update()

    def without_hits(self) -> list[ActiveFault | ActiveClusterFault]:
        """The faults since the last `clear` that have not acted though they should have."""
        return [active for active in self.added if not active.hits and not active.fault.optional]

    def match_request(self, request: ActiveRequest) -> PlannedFaults | None:
        """The faults that act on a request, or None. A fault that ends the request is the last one."""
        if not self._active and self._sender.is_idle:  # As after the last late answer has been sent.
            self._update()
            return None
        api_name = request.incoming.api_name
        index = self._by_api.get(api_name) or self._index_faults(api_name)
        if index.is_empty and self._sender.is_idle:
            return None
        matching: list[ActiveFault] = []
        facts = RequestFacts(request, self._core.state)
        values = index.read_values(facts)
        for name in (api_name, None):
            self._logs[name].add(facts.subject, values)
        for active in index.find(values):
            if active.take_request(facts, self._core.now_ms):
                matching.append(active)
                if ends_request(active.fault):
                    break
        if not matching and not self._sender.has_late_answer(request.connection.info.id):
            return None
        return PlannedFaults(self._core, facts, matching, self._sender)

    def _index_faults(self, api_name: str) -> FaultIndex:
        faults = [active for active in self._active if active.fault.when.on == "request"]
        index = FaultIndex([active for active in faults if active.fault.when.api in (api_name, None)])
        self._by_api[api_name] = index
        return index

    def match_connection(self, info: ConnectionInfo) -> Close | HalfClose | None:
        """What happens to a new connection, or None."""
        for active in self._active:
            then = active.fault.then
            if active.fault.when.on == "connection" and active.take_connection(info, self._core.now_ms):
                log_close(info.node_id, info.host, info.port, f"fault: {active.name}")
                if then.drop == "half-close":
                    return HalfClose(info.id)
                return Close(info.id, f"fault: {active.name}", is_reset=then.drop == "reset")
        return None

    def _update(self) -> None:
        self._by_api.clear()
        self._core.faults = self if self._active or not self._sender.is_idle else None


def ends_request(fault: Fault) -> bool:
    """Whether no other fault can act after this one: no answer follows, or the error is for the whole request."""
    when, then = fault.when, fault.then
    is_whole_error = then.error is not None and when.topic is None and when.partition is None and then.error_at is None
    is_whole = is_whole_error or then.response is not None
    return then.drop is not None or then.answer == "never" or (is_whole and not then.after)
