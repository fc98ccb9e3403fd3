"""`RequestQuotas`: counts the requests of a cluster against the quotas of their clients; used while there is any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.broker.quota_settings import controller_windows
from mockbroker.engine.request_throttle import QuotaClient, RequestThrottle
from mockbroker.state.quotas.throttles import MutationThrottle

if TYPE_CHECKING:
    from collections.abc import Callable

    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.engine.active_request import ActiveRequest

_PRODUCE, _SASL_HANDSHAKE, _WRITE_TXN_MARKERS, _SASL_AUTHENTICATE = 0, 17, 27, 36


class RequestQuotas:
    """The quotas of requests. Bytes and times are counted by broker, mutations by the controller.

    time_ns: the clock of the handlers.
    """

    def __init__(self, state: ClusterState, time_ns: Callable[[], int]) -> None:
        self._running = state.inter_broker.nodes
        self._time_ns = time_ns
        self._controller = MutationThrottle(state.broker_storage.quotas, controller_windows(state.config))

    def start_request(self, request: ActiveRequest) -> RequestThrottle | None:
        """What is counted of a request that begins now; None for one of an authentication, which is not counted."""
        incoming, connection = request.incoming, request.connection
        authenticator = connection.authenticator
        is_authentication = incoming.api_key in (_SASL_HANDSHAKE, _SASL_AUTHENTICATE)
        if authenticator is not None and (is_authentication or not authenticator.is_open):
            return None
        info = connection.info
        return RequestThrottle(
            self._running[info.node_id].quotas,
            self._controller,
            QuotaClient(info.principal.partition(":")[2], incoming.client_id or ""),
            produced=request.exchange.request_bytes if incoming.api_key == _PRODUCE else None,
            is_exempt=incoming.api_key == _WRITE_TXN_MARKERS,
            time_ns=self._time_ns,
        )
