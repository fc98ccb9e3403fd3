"""`RequestThrottle`: what one request uses of the quotas of its client, and the time for which its channel is muted.

Source: KafkaApis and RequestHandlerHelper of Kafka 4.3.0 (KIP-13, KIP-124, KIP-219, KIP-599); compared with 4.4.0 by
tools/oracle/quota_traffic.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

if TYPE_CHECKING:
    from mockbroker.state.quotas.broker_quotas import BrokerQuotas
    from mockbroker.state.quotas.throttles import MutationThrottle

_INT_MAX = 2**31 - 1
_PERCENT_OF_NS = 100 / 1e9


class QuotaClient(NamedTuple):
    """Whose request it is: the name of the principal, and the client id, "" without one."""

    user: str
    client_id: str


class RequestThrottle:
    """The quotas of one request. Handlers record what only they measure: fetched bytes, and changes of partitions.

    produced: the size of a Produce request, None for others. is_exempt: the request quota does not count it. time_ns: a
    monotonic clock, by which the handler is measured from now on. throttle_ms: for how long the channel is muted,
    milliseconds of the cluster's clock; 0 for not at all.
    """

    def __init__(
        self,
        broker: BrokerQuotas,
        controller: MutationThrottle,
        client: QuotaClient,
        *,
        produced: int | None,
        is_exempt: bool,
        time_ns: Callable[[], int],
    ) -> None:
        self._broker = broker
        self._controller = controller
        self._client = client
        self._produced = produced
        self._is_exempt = is_exempt
        self._time_ns = time_ns
        self._started_ns = time_ns()
        self._used_ns: int | None = None
        self._is_recorded = False
        self.throttle_ms = 0

    def stop_time(self) -> None:
        """The handler has returned. A request that waits, and is resumed, uses no more time."""
        if self._used_ns is None:
            self._used_ns = max(self._time_ns() - self._started_ns, 0)

    def exempt(self) -> None:
        """Do not count the time of this request, as of followers."""
        self._is_exempt = True

    def refuse(self, code: ErrorCode) -> None:
        """The handler has raised an error: no bytes count, nor is a client exempt that may not act for the cluster."""
        self._produced = None
        if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            self._is_exempt = False

    def fetch_bytes_max(self) -> int:
        """What the client may fetch at once without being throttled for it alone."""
        user, client_id = self._client
        return int(min(self._broker.fetched.value_max(user=user, client_id=client_id), _INT_MAX))

    def record_fetch(self, size: int, *, now_ms: int) -> int:
        """Count a response with this size; not if the client is throttled, and gets none of it.

        Returns: the throttle time, for the bytes or the time of the request.
        """
        self.record_time(now_ms=now_ms)
        user, client_id = self._client
        self._apply(self._broker.fetched.record(size, user=user, client_id=client_id, now_ms=now_ms))
        if self.throttle_ms:
            self._broker.fetched.take_back(size, user=user, client_id=client_id, now_ms=now_ms)
        return self.throttle_ms

    def record_mutations(self, count: int, *, is_strict: bool, now_ms: int) -> None:
        """Count partitions that are created or deleted.

        Raises: THROTTLING_QUOTA_EXCEEDED where that is strict, and the quota is exhausted; then nothing is counted.
        """
        user, client_id = self._client
        if not is_strict:
            self._apply(self._controller.record(count, user=user, client_id=client_id, now_ms=now_ms))
            return
        wait_ms = self.try_mutations(count, now_ms=now_ms)
        if wait_ms is not None:
            self._apply(wait_ms)
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    def try_mutations(self, count: int, *, now_ms: int) -> int | None:
        """Count partitions that the broker creates for the client, if there are credits; it is not throttled for them.

        Returns: None if they are counted, else the time until there are credits again, milliseconds.
        """
        user, client_id = self._client
        return self._controller.try_record(count, user=user, client_id=client_id, now_ms=now_ms)

    def record_answer(self, response: msgspec.Struct, *, now_ms: int) -> msgspec.Struct:
        """Count what is not counted yet. Returns: the response, with the throttle time if it has that field."""
        self.record_produced(now_ms=now_ms)
        self.record_time(now_ms=now_ms)
        if self.throttle_ms and "throttle_time_ms" in response.__struct_fields__:
            return msgspec.structs.replace(response, throttle_time_ms=self.throttle_ms)
        return response

    def record_produced(self, *, now_ms: int) -> None:
        """Count the bytes of a Produce request; of one with acks=0, which has no answer, nothing else counts."""
        if self._produced is not None:
            user, client_id = self._client
            self._apply(self._broker.produced.record(self._produced, user=user, client_id=client_id, now_ms=now_ms))

    def record_time(self, *, now_ms: int) -> None:
        """Count the time of the handler, once."""
        self.stop_time()
        if self._is_recorded or self._is_exempt:
            return
        self._is_recorded = True
        assert self._used_ns is not None
        user, client_id = self._client
        percent = self._used_ns * _PERCENT_OF_NS
        self._apply(self._broker.request_time.record(percent, user=user, client_id=client_id, now_ms=now_ms))

    def _apply(self, throttle_ms: int) -> None:
        self.throttle_ms = max(self.throttle_ms, throttle_ms)
