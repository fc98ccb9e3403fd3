"""Share groups for cases: their start without a member, their configuration, and what members acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Unpack

from kwire.client import Client
from kwire.error_codes import ErrorCode
from kwire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.handles import ShareConsumerHandle
from mockbroker.certify.driver.messages import ErrorInfo
from mockbroker.certify.driver.settings import ShareConsumerSettings
from mockbroker.certify.partition_changes import CLIENT_ID
from mockbroker.cluster_methods.waiting import WaitTimeout
from mockbroker.journal import Exchange
from mockbroker.journal.request_history import RequestHistory

#: The group of most cases.
GROUP = "shop"
#: The types of acknowledgements on the wire.
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
_GROUP_RESOURCE = 32
_ACKNOWLEDGING = ("ShareFetch", "ShareAcknowledge")
#: The filter of requests that have acknowledgements.
HAS_ACKNOWLEDGEMENTS = "topics.partitions.acknowledgement_batches.first_offset>=0"


class SentAcknowledgement(NamedTuple):
    """An acknowledgement of one offset on the wire. type: 0 gap, 1 accept, 2 release, 3 reject, 4 renew.

    error: its result, "NONE" if the broker carried it out; None if there is no response, or none for its partition.
    """

    topic: str
    partition: int
    offset: int
    type: int
    error: str | None
    exchange: Exchange[Any, Any]


class QuietPolls:
    """Polls of a share consumer whose errors are of no matter for the case. values: what they returned until now."""

    def __init__(self, *consumers: ShareConsumerHandle) -> None:
        self.values: list[str | None] = []
        self._consumers = consumers

    def poll(self) -> list[str | None]:
        """Poll each consumer for 200 ms. Returns: all values until now. Raises: ClientError for LOCAL_UNSUPPORTED."""
        for consumer in self._consumers:
            try:
                self.values.extend(consumer.poll(timeout_ms=200).values)
            except ClientError as error:
                if error.name == "LOCAL_UNSUPPORTED":
                    raise
        return self.values

    def until(self, run: CaseRun, condition: Callable[[list[str | None]], object], *, timeout_s: float = 5.0) -> bool:
        """Poll until a condition on the values, or on the cluster, is true. Returns: whether it became so in time."""
        return is_reached(run, lambda: condition(self.poll()), timeout_s=timeout_s)


def create_group(run: CaseRun, *topics: str, group_id: str = GROUP) -> None:
    """Create a share group that starts at offset 0 of all partitions, so that its first member gets them at once."""
    run.wire.wait_until(lambda: _set_start_offsets(run, group_id, topics))


def join(
    run: CaseRun, *topics: str, name: str | None = None, **settings: Unpack[ShareConsumerSettings]
) -> ShareConsumerHandle:
    """Create the group `shop` as `create_group`, and open a share consumer that is subscribed to the topics."""
    create_group(run, *topics)
    settings["group_id"] = GROUP
    consumer = run.share_consumer(name, **settings)
    consumer.subscribe(*topics)
    return consumer


def join_explicit(run: CaseRun, *topics: str, name: str | None = None) -> ShareConsumerHandle:
    """As `join`, with explicit acknowledgements."""
    return join(run, *topics, name=name, share_acknowledgement_mode="explicit")


def set_group_config(run: CaseRun, name: str, value: object, *, group_id: str = GROUP) -> None:
    """Set a dynamic configuration of the group, as `share.isolation.level`."""
    config = AlterableConfig(name=name, config_operation=0, value=str(value))
    resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=group_id, configs=[config])
    with Client(run.wire.bootstrap_servers, client_id=CLIENT_ID) as client:
        response = client.send(IncrementalAlterConfigsRequest(resources=[resource]))
    for answer in response.responses:
        if answer.error_code:
            raise RuntimeError(f"{name}={value}: {ErrorCode(answer.error_code).name} {answer.error_message}")


def acknowledgements(run: CaseRun, topic: str | None = None) -> list[SentAcknowledgement]:
    """Every acknowledgement that clients sent until now, of one offset each, in order."""
    history = run.wire.requests()
    return [
        sent
        for exchange in history
        if exchange.api_name in _ACKNOWLEDGING
        for sent in _acknowledgements_of(exchange, history)
        if topic in (None, sent.topic)
    ]


def carrying(sent: list[SentAcknowledgement]) -> list[Exchange[Any, Any]]:
    """The exchanges of acknowledgements, each once."""
    return list({each.exchange.number: each.exchange for each in sent}.values())


def refuse_acknowledgements(run: CaseRun, error: str, *, partition: int = 0, times: int | None = None) -> None:
    """Answer acknowledgements of a partition with an error in its row, in ShareFetch and ShareAcknowledge.

    A client may send them with either of the two, as soon as the application has made them.
    """
    values = {"responses.partitions.acknowledge_error_code": int(ErrorCode[error])}
    add = run.cluster.faults.add
    place = {"topic": "orders", "partition": partition}
    add("ShareFetch", **place, filter=HAS_ACKNOWLEDGEMENTS, set_fields=values, times=times, optional=True)
    add("ShareAcknowledge", **place, error=error, times=times, optional=True)


def delay_acknowledgements(run: CaseRun, delay_ms: int, *, after: bool = False) -> None:
    """Delay the next requests with acknowledgements: a client may send them with ShareFetch before it commits."""
    faults = run.cluster.faults
    faults.add("ShareAcknowledge", times=1, delay_ms=delay_ms, after=after, optional=True)
    faults.add("ShareFetch", filter=HAS_ACKNOWLEDGEMENTS, times=1, delay_ms=delay_ms, after=after, optional=True)


def session_requests(run: CaseRun, *, node: int | None = None, after: int = 0) -> list[Exchange[Any, Any]]:
    """The ShareFetch and ShareAcknowledge requests to a node, or to all, in order."""
    asked = run.wire.requests(after=after) if node is None else run.wire.requests(node=node, after=after)
    return [exchange for exchange in asked if exchange.api_name in _ACKNOWLEDGING]


def is_reached(run: CaseRun, predicate: Callable[[], object], *, timeout_s: float = 5.0) -> bool:
    """Wait until a function returns something true. Returns: whether it did so in time."""
    try:
        run.wire.wait_until(lambda: bool(predicate()), timeout_s=timeout_s * run.time_factor)
    except WaitTimeout:
        return False
    return True


def is_named(error: ErrorInfo | None, *names: str) -> bool:
    """Whether a result is one of these errors."""
    return error is not None and error.name in names


def _acknowledgements_of(
    exchange: Exchange[Any, Any], history: RequestHistory[Any, Any]
) -> Iterator[SentAcknowledgement]:
    for topic in exchange.request.topics:
        name = history.topic_names.get(topic.topic_id, topic.topic_id.hex())
        for partition in topic.partitions:
            error = _result_of(exchange, topic.topic_id, partition.partition_index)
            for batch in partition.acknowledgement_batches:
                offsets = range(batch.first_offset, batch.last_offset + 1)
                types = batch.acknowledge_types
                each_type = types if len(types) == len(offsets) else types[:1] * len(offsets)
                for offset, kind in zip(offsets, each_type, strict=True):
                    yield SentAcknowledgement(name, partition.partition_index, offset, kind, error, exchange)


def _result_of(exchange: Exchange[Any, Any], topic_id: bytes, partition: int) -> str | None:
    """The result of the acknowledgements of a partition in the response."""
    response = exchange.response
    if response is None:
        return None
    if response.error_code:
        return ErrorCode(response.error_code).name
    field = "acknowledge_error_code" if exchange.api_name == "ShareFetch" else "error_code"
    for topic in response.responses:
        for row in topic.partitions:
            if (topic.topic_id, row.partition_index) == (topic_id, partition):
                return ErrorCode(getattr(row, field)).name
    return None


def _set_start_offsets(run: CaseRun, group_id: str, topics: tuple[str, ...]) -> bool:
    """Initialize the share partitions. Returns: False while a coordinator is not there yet."""
    with Client(run.wire.bootstrap_servers, client_id=CLIENT_ID) as client:
        wanted = [MetadataRequestTopic(name=name) for name in topics]
        metadata = client.send(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        [found] = client.send(FindCoordinatorRequest(coordinator_keys=(group_id,))).coordinators
    if found.error_code:
        return False
    request = AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=topic.name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=row.partition_index, start_offset=0)
                    for row in topic.partitions
                ],
            )
            for topic in metadata.topics
        ],
    )
    with Client(f"{found.host}:{found.port}", client_id=CLIENT_ID) as client:
        response = client.send(request)
    rows = [row.error_code for topic in response.responses for row in topic.partitions]
    return response.error_code == 0 and bool(rows) and not any(rows)
