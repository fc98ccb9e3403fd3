"""`FaultRegistry`: the faults of one cluster, and which of them act on a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.engine.output import Close, HalfClose
from mockbroker.faults.active_fault import ActiveFault
from mockbroker.faults.answer_sender import AnswerSender
from mockbroker.faults.planned_faults import PlannedFaults
from mockbroker.faults.request_facts import RequestFacts
from mockbroker.faults.response_fields import read_leaders
from mockbroker.faults.validation import check_fault

if TYPE_CHECKING:
    from mockbroker.engine.active_request import ActiveRequest
    from mockbroker.engine.context import ConnectionInfo
    from mockbroker.engine.core import Core
    from mockbroker.faults.model import Fault


class FaultRegistry:
    """The faults of a cluster. While there are none, the core does not call it.

    `added`: every fault since the start or the last `clear`, also removed ones.
    """

    def __init__(self, core: Core) -> None:
        self.added: list[ActiveFault] = []
        self._core = core
        self._active: list[ActiveFault] = []
        self._by_api: dict[str, list[ActiveFault]] = {}
        self._added_count = 0
        self._sender = AnswerSender(core)

    @property
    def active(self) -> list[ActiveFault]:
        """The faults that may act, in the order in which they were added; spent ones are among them."""
        return list(self._active)

    def add(self, fault: Fault) -> ActiveFault:
        """Add a fault. Raises: FaultError for one that can never match or act; then nothing is changed."""
        check_fault(fault)
        # The id of the cluster comes from its seed; the cluster's own random numbers stay as without faults.
        self._added_count += 1
        seed = f"{self._core.state.cluster_id}/{self._added_count}"
        leaders = read_leaders(self._core) if fault.then.stale else {}
        active = ActiveFault(fault, seed=seed, now_ms=self._core.now_ms, leaders=leaders)
        self.added.append(active)
        self._active.append(active)
        self._update()
        return active

    def remove(self, active: ActiveFault) -> None:
        """Remove a fault; does nothing for one that is removed."""
        if active in self._active:
            self._active.remove(active)
            self._update()

    def clear(self) -> None:
        """Remove all faults, and forget which were added."""
        self.added.clear()
        self._active.clear()
        self._update()

    def without_hits(self) -> list[ActiveFault]:
        """The faults since the last `clear` that have not acted though they should have."""
        return [active for active in self.added if not active.hits and not active.fault.optional]

    def match_request(self, request: ActiveRequest) -> PlannedFaults | None:
        """The faults that act on a request, or None. A fault that ends the request is the last one."""
        if not self._active and self._sender.is_idle:  # The last late answer has been sent.
            self._update()
            return None
        api_name = request.incoming.api_name
        candidates = self._by_api.get(api_name)
        if candidates is None:
            candidates = self._by_api[api_name] = [
                active
                for active in self._active
                if active.fault.when.on == "request" and active.fault.when.api in (api_name, None)
            ]
        matching: list[ActiveFault] = []
        facts = RequestFacts(request, self._core.state)
        for active in candidates:
            if active.take_request(facts, self._core.now_ms):
                matching.append(active)
                if ends_request(active.fault):
                    break
        if not matching and not self._sender.has_late_answer(request.connection.info.id):
            return None
        return PlannedFaults(self._core, facts, matching, self._sender)

    def match_connection(self, info: ConnectionInfo) -> Close | HalfClose | None:
        """What happens to a new connection, or None."""
        for active in self._active:
            then = active.fault.then
            if active.fault.when.on == "connection" and active.take_connection(info, self._core.now_ms):
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
    return then.drop is not None or then.answer == "never" or (is_whole_error and not then.after)
