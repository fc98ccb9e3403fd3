"""`IsrRequests`: changes of the ISR that a leader requests of the controller. Source: Kafka's AlterPartitionManager."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kwire.error_codes import ErrorCode
from mockbroker.cluster_services.inter_broker import InterBrokerChannel, Loss
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.replication.leader_replicas import IsrChange

#: The controller is a process of its own, and no broker: conditions of the network to all nodes hold for it too.
CONTROLLER = -1
#: How soon a request is sent again whose connection broke.
_RETRY_MS = 50
#: Applies a change at the controller: the node that leads, the partition, the change, the time. Returns its error.
AlterIsr = Callable[[int, TopicPartitionKey, IsrChange, int], ErrorCode]
#: Called with the controller's error, NONE for success.
Answered = Callable[[ErrorCode, int], None]


class IsrRequests:
    """The requests of one leader. alter_isr: of the controller."""

    def __init__(self, node_id: int, channel: InterBrokerChannel[object], alter_isr: AlterIsr) -> None:
        self._node_id = node_id
        self._channel = channel
        self._alter_isr = alter_isr

    def send(
        self, key: TopicPartitionKey, change: IsrChange, answered: Answered, is_wanted: Callable[[], bool], now_ms: int
    ) -> None:
        """Send a change; it is sent again while the connection breaks. is_wanted: whether it waits for its answer."""
        channel = self._channel
        with channel.act_as(self._node_id):
            out_ms, back_ms, loss = channel.plan_delivery(CONTROLLER, now_ms)

        def deliver(at_ms: int) -> None:
            code = ErrorCode.NETWORK_EXCEPTION
            if loss is not Loss.REQUEST:
                with channel.act_as(None):
                    code = self._alter_isr(self._node_id, key, change, at_ms)
            if loss is not None:
                code = ErrorCode.NETWORK_EXCEPTION
            channel.schedule(back_ms, partial(receive, code), now_ms=at_ms, owner=self._node_id)

        def receive(code: ErrorCode, at_ms: int) -> None:
            if not is_wanted():
                return
            if code is ErrorCode.NETWORK_EXCEPTION:
                retry = partial(self.send, key, change, answered, is_wanted)
                channel.schedule(_RETRY_MS, retry, now_ms=at_ms, owner=self._node_id)
            else:
                answered(code, at_ms)

        channel.schedule(out_ms, deliver, now_ms=now_ms, owner=None)
