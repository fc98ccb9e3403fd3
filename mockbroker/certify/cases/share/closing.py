"""Close of share consumers: acknowledgements that are pending, the end of sessions, and time limits."""

from __future__ import annotations

import time
from contextlib import suppress

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.messages import Acknowledged
from mockbroker.certify.share_group import (
    ACCEPT,
    acknowledgements,
    carrying,
    is_named,
    join,
    join_explicit,
    refuse_acknowledgements,
)

_ORDERS = ClusterPlan(topics={"orders": 1})
_CLOSE = Source("KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer.close")
#: What a close may take longer than its time limit, seconds: the driver, and a busy machine.
_SLACK_S = 4.0


@case(
    "share.close.final-epoch",
    title="Close ends the sessions, then the membership",
    level=Level.MUST,
    rule="A member that is closed ends its session at each node with epoch -1, and leaves the group by a heartbeat "
    "with epoch -1.",
    source=Source("KIP-932", "Share sessions", "kafka-clients KafkaShareConsumer.close"),
    needs=("share",),
    cluster=ClusterPlan(nodes=2, topics={"orders": 2}),
    on_kafka=True,
    quick=True,
)
def final_epoch(run: CaseRun) -> None:
    """No fault: a member with sessions at two nodes is closed."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    nodes = {exchange.node_id for exchange in run.wire.requests("ShareFetch")}
    consumer.close()

    ended = [each for each in run.wire.requests() if getattr(each.request, "share_session_epoch", 0) == -1]
    run.expect({each.node_id for each in ended} == nodes, f"epoch -1 at the nodes {nodes}", seen=ended, exchanges=ended)
    left = run.wire.requests("ShareGroupHeartbeat", where={"member_epoch": -1})
    run.expect(len(left) == 1, "one heartbeat with epoch -1", seen=f"{len(left)}", exchanges=left)


@case(
    "share.close.acknowledgements-sent",
    title="Close sends acknowledgements that are pending",
    level=Level.MUST,
    rule="Close commits the acknowledgements that the application has made, with the final epoch or before it.",
    source=_CLOSE,
    needs=("share.explicit",),
    cluster=_ORDERS,
    on_kafka=True,
)
def acknowledgements_sent(run: CaseRun) -> None:
    """No fault: the application accepts a record, and closes without a commit."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    consumer.acknowledge(consumer.poll_until(records=1).records)
    consumer.close()

    sent = acknowledgements(run)
    seen = [(each.offset, each.type, each.error) for each in sent]
    run.expect(seen == [(0, ACCEPT, "NONE")], "type 1 for offset 0, carried out", seen=seen, exchanges=carrying(sent))


@case(
    "share.close.acknowledgements-waited-for",
    title="Close waits for the results of acknowledgements",
    level=Level.MUST,
    rule="Close waits within its time limit for acknowledgements to complete.",
    source=_CLOSE,
    needs=("share.explicit",),
    cluster=_ORDERS,
)
def acknowledgements_waited_for(run: CaseRun) -> None:
    """Requests with acknowledgements are answered 400 ms late."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    records = consumer.poll_until(records=1).records
    condition = "topics.partitions.acknowledgement_batches.first_offset>=0"
    for api in ("ShareFetch", "ShareAcknowledge"):
        run.cluster.faults.add(api, filter=condition, delay_ms=400, after=True, optional=True)
    consumer.acknowledge(records)
    consumer.close()

    sent = carrying(acknowledgements(run))
    run.expect(sent, "acknowledgements", seen="none")
    answered = sent[0].answered_ms is not None
    run.expect(answered, "the answer has come when close returns", seen="no answer", exchanges=sent)


@case(
    "share.close.callback",
    title="The callback of acknowledgements that close has sent",
    level=Level.MUST,
    rule="The callback gets the results of the acknowledgements that close has sent, before close returns.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients AcknowledgementCommitCallback.onComplete"),
    needs=("share.explicit", "share.callback"),
    cluster=_ORDERS,
)
def callback(run: CaseRun) -> None:
    """The acknowledgement of offset 0 is answered with INVALID_RECORD_STATE for orders-0."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    consumer.acknowledge(consumer.poll_until(records=1).records)
    refuse_acknowledgements(run, "INVALID_RECORD_STATE", times=1)
    closed = consumer.close()

    sent = carrying(acknowledgements(run))
    errors = [event.error for event in closed.events_of(Acknowledged)]
    is_reported = bool(errors) and is_named(errors[0], "INVALID_RECORD_STATE")
    run.expect(is_reported, "the callback gets INVALID_RECORD_STATE", seen=errors or "no callback", exchanges=sent)


@case(
    "share.close.held-records",
    title="Records that are held at close are free at once",
    level=Level.MUST,
    rule="The end of its session releases the records that the member holds: others need not wait for the locks.",
    source=_CLOSE,
    needs=("share.explicit", "share.delivery_count"),
    cluster=_ORDERS,
    on_kafka=True,
)
def held_records(run: CaseRun) -> None:
    """No fault: of two records the member accepts the first one, and is closed; a second member joins."""
    consumer = join_explicit(run, "orders", name="first")
    run.produce("orders", "value-0", "value-1")
    records = consumer.poll_until(records=2).records
    consumer.acknowledge(records[0])
    consumer.close()
    second = run.share_consumer("second", group_id="shop")
    second.subscribe("orders")

    polled = second.poll_until(records=1, timeout_s=5)

    seen = [(record.offset, record.delivery_count) for record in polled.records]
    sent = carrying(acknowledgements(run))
    run.expect(seen == [(1, 2)], "offset 1, delivered the second time", seen=seen, exchanges=sent)


@case(
    "share.close.broker-silent",
    title="Close while the broker does not answer",
    level=Level.MUST,
    rule="Close does not wait longer than its time limit for acknowledgements and for the heartbeat.",
    source=_CLOSE,
    needs=("share.explicit",),
    settings_needed=("request_timeout_ms",),
    cluster=_ORDERS,
)
def broker_silent(run: CaseRun) -> None:
    """No ShareAcknowledge and no ShareGroupHeartbeat is answered from now on; close and each request get 1 s."""
    consumer = join(run, "orders", share_acknowledgement_mode="explicit", request_timeout_ms=1_000)
    run.produce("orders", "first")
    consumer.acknowledge(consumer.poll_until(records=1).records)
    for api in ("ShareAcknowledge", "ShareGroupHeartbeat"):
        run.cluster.faults.add(api, answer="never", optional=True)
    began = time.monotonic()
    with suppress(ClientError):
        consumer.close(timeout_ms=1_000)
    took_s = time.monotonic() - began

    run.expect(took_s <= 1 + _SLACK_S, "close ends within 1 s", seen=f"{took_s:.1f} s")


@case(
    "share.close.before-assignment",
    title="Close of a consumer that has never polled",
    level=Level.MUST,
    rule="A consumer can be closed at any time; without a session there is nothing to end.",
    source=_CLOSE,
    needs=("share",),
    cluster=_ORDERS,
    on_kafka=True,
)
def before_assignment(run: CaseRun) -> None:
    """No fault: the consumer subscribes, and is closed at once."""
    consumer = run.share_consumer(group_id="shop")
    consumer.subscribe("orders")
    began = time.monotonic()
    consumer.close(timeout_ms=2_000)
    took_s = time.monotonic() - began

    refused = [each for each in run.wire.requests("ShareAcknowledge") if each.response and each.response.error_code]
    run.expect(not refused, "no end of a session that does not exist", seen=refused, exchanges=refused)
    run.expect(took_s <= 2 + _SLACK_S, "close ends within 2 s", seen=f"{took_s:.1f} s")


@case(
    "share.close.node-gone",
    title="Close while the node with the session is gone",
    level=Level.MUST,
    rule="Close ends in its time limit although acknowledgements cannot be sent, and leaves the group.",
    source=_CLOSE,
    needs=("share.explicit",),
    cluster=ClusterPlan(nodes=3, topics={"orders": 1}),
)
def node_gone(run: CaseRun) -> None:
    """The node that leads orders-0, and does not coordinate the group, is killed before close with 2 s."""
    run.produce("orders", "first")
    leader = (run.cluster.coordinator("shop") + 1) % 3
    if run.cluster.describe_topic("orders").partitions[0].leader != leader:
        run.cluster.move_leader("orders", 0, to=leader)
    consumer = join_explicit(run, "orders")
    records = consumer.poll_until(records=1).records
    run.cluster.kill_node(leader)
    consumer.acknowledge(records)
    began = time.monotonic()
    with suppress(ClientError):
        consumer.close(timeout_ms=2_000)
    took_s = time.monotonic() - began

    run.expect(took_s <= 2 + _SLACK_S, "close ends within 2 s", seen=f"{took_s:.1f} s")
    left = run.wire.requests("ShareGroupHeartbeat", where={"member_epoch": -1})
    run.expect(left, "a heartbeat with epoch -1", seen="none", exchanges=run.wire.requests("ShareGroupHeartbeat")[-1:])
