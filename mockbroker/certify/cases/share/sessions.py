"""Share sessions: epochs, and sessions that the broker has lost or refuses."""

from __future__ import annotations

from typing import Any

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.share_group import acknowledgements, carrying, join, join_explicit, session_requests
from mockbroker.journal import Exchange

_ORDERS = ClusterPlan(topics={"orders": 1})


@case(
    "share.session.epochs",
    title="The epochs of a share session",
    level=Level.MUST,
    rule="The first request to a node is a ShareFetch with epoch 0 and no acknowledgements; each later request of the "
    "session, ShareFetch or ShareAcknowledge, has an epoch that is one higher.",
    source=Source("KIP-932", "Share sessions"),
    needs=("share.explicit", "share.commit"),
    cluster=_ORDERS,
    on_kafka=True,
    quick=True,
)
def epochs(run: CaseRun) -> None:
    """No fault: records are delivered, and acknowledged with a commit."""
    consumer = join_explicit(run, "orders")
    for value in ("first", "second"):
        run.produce("orders", value)
        consumer.acknowledge(consumer.poll_until(records=1).records)
        consumer.commit()

    requests = session_requests(run)
    seen = [exchange.request.share_session_epoch for exchange in requests]
    run.expect(requests[0].api_name == "ShareFetch", "ShareFetch first", seen=requests[0].api_name, exchanges=requests)
    run.expect(seen == list(range(len(seen))), "the epochs 0, 1, 2, ...", seen=seen, exchanges=requests)
    errors = [exchange for exchange in requests if exchange.response and exchange.response.error_code]
    run.expect(not errors, "no request of the session is refused", seen=errors, exchanges=errors)


@case(
    "share.session.per-node",
    title="Each node has a share session of its own",
    level=Level.MUST,
    rule="A share session is between a member and one node: each node's epochs begin with 0, whatever others have.",
    source=Source("KIP-932", "Share sessions"),
    needs=("share",),
    cluster=ClusterPlan(nodes=2, topics={"orders": 2}),
    on_kafka=True,
)
def per_node(run: CaseRun) -> None:
    """No fault: the leaders of the two partitions are different nodes."""
    consumer = join(run, "orders")
    run.produce("orders", "first", partition=0)
    run.produce("orders", "second", partition=1)
    values = sorted(str(value) for value in consumer.poll_until(records=2).values)

    run.expect(values == ["first", "second"], "the records of both nodes", seen=values)
    for node in sorted({exchange.node_id for exchange in run.wire.requests("ShareFetch")}):
        requests = session_requests(run, node=node)
        seen = [exchange.request.share_session_epoch for exchange in requests]
        run.expect(seen == list(range(len(seen))), f"epochs 0, 1, ... at node {node}", seen=seen, exchanges=requests)


@case(
    "share.session.lost",
    title="A ShareFetch is refused with SHARE_SESSION_NOT_FOUND",
    level=Level.MUST,
    rule="A client whose share session does not exist any more opens a new one with epoch 0.",
    source=Source("KIP-932", "Share sessions"),
    needs=("share",),
    cluster=_ORDERS,
    quick=True,
)
def lost(run: CaseRun) -> None:
    """One ShareFetch of an open session is answered with SHARE_SESSION_NOT_FOUND at the top."""
    _reopen_after(run, "SHARE_SESSION_NOT_FOUND")


@case(
    "share.session.invalid-epoch",
    title="A ShareFetch is refused with INVALID_SHARE_SESSION_EPOCH",
    level=Level.MUST,
    rule="A client whose epoch is not what the broker expects opens a new session with epoch 0.",
    source=Source("KIP-932", "Share sessions"),
    needs=("share",),
    cluster=_ORDERS,
)
def invalid_epoch(run: CaseRun) -> None:
    """One ShareFetch of an open session is answered with INVALID_SHARE_SESSION_EPOCH at the top."""
    _reopen_after(run, "INVALID_SHARE_SESSION_EPOCH")


@case(
    "share.session.limit-reached",
    title="A new share session is refused with SHARE_SESSION_LIMIT_REACHED",
    level=Level.MUST,
    rule="While the limit of sessions is reached, the client tries again with epoch 0; it does not give up.",
    source=Source("KIP-932", "Share sessions", "Kafka protocol guide, SHARE_SESSION_LIMIT_REACHED (retriable)"),
    needs=("share",),
    cluster=_ORDERS,
)
def limit_reached(run: CaseRun) -> None:
    """The first two ShareFetch requests, which open the session, are answered with SHARE_SESSION_LIMIT_REACHED."""
    fault = "SHARE_SESSION_LIMIT_REACHED"
    run.cluster.faults.add("ShareFetch", filter="share_session_epoch=0", times=2, error=fault, error_at="top")
    consumer = join(run, "orders")
    run.produce("orders", "first")

    values = consumer.poll_until(records=1).values

    opening = run.wire.requests("ShareFetch")[:3]
    seen = [exchange.request.share_session_epoch for exchange in opening]
    run.expect(values == ["first"], "the record arrives at last", seen=values, exchanges=opening)
    run.expect(seen == [0, 0, 0], "each attempt has epoch 0", seen=seen, exchanges=opening)


@case(
    "share.session.lost-with-acknowledgements",
    title="A session is lost with acknowledgements under way",
    level=Level.MUST,
    rule="A ShareFetch that opens a session carries no acknowledgements; those of the lost session are not repeated in "
    "the new one for records that it has not delivered.",
    source=Source("KIP-932", "Share sessions", "kafka-clients AcknowledgementCommitCallback.onComplete"),
    needs=("share.explicit",),
    cluster=_ORDERS,
)
def lost_with_acknowledgements(run: CaseRun) -> None:
    """The request with the acknowledgement of offset 0 is answered with SHARE_SESSION_NOT_FOUND, before any work."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    [first] = consumer.poll_until(records=1).records
    _refuse_acknowledgements(run, "SHARE_SESSION_NOT_FOUND")
    consumer.acknowledge(first)
    consumer.poll_until(lambda _: run.wire.requests("ShareFetch", where={"share_session_epoch": 0})[1:])
    run.produce("orders", "second")
    [second] = consumer.poll_until(records=1).records
    consumer.acknowledge(second)
    consumer.poll_until(lambda _: [sent for sent in acknowledgements(run) if sent.offset == second.offset])

    sent = acknowledgements(run)
    opening = [each for each in sent if each.exchange.request.share_session_epoch == 0]
    run.expect(not opening, "no acknowledgements with epoch 0", seen=opening, exchanges=carrying(opening))
    carried_out = [each.offset for each in sent if each.error == "NONE"]
    twice = len(carried_out) != len(set(carried_out))
    run.expect(not twice, "no offset is acknowledged with success twice", seen=carried_out, exchanges=carrying(sent))


@case(
    "share.session.lost-result",
    title="The result of acknowledgements of a lost session",
    level=Level.MUST,
    rule="Acknowledgements of a session that the broker has lost were not carried out: the application gets an error.",
    source=Source("KIP-932", "Share sessions", "kafka-clients KafkaShareConsumer.commitSync"),
    needs=("share.explicit", "share.commit"),
    cluster=_ORDERS,
)
def lost_result(run: CaseRun) -> None:
    """Each request that acknowledges offset 0 is answered with SHARE_SESSION_NOT_FOUND, before any work."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    consumer.acknowledge(consumer.poll_until(records=1).records)
    for api in ("ShareFetch", "ShareAcknowledge"):
        condition = "share_session_epoch>0"
        error = "SHARE_SESSION_NOT_FOUND"
        run.cluster.faults.add(api, filter=condition, error=error, error_at="top", optional=True)

    results = consumer.commit(timeout_ms=1_500)

    sent = carrying(acknowledgements(run))
    error_of = results.get(("orders", 0))
    run.expect(error_of is not None, "an error for orders-0", seen=results or "no result", exchanges=sent)


@case(
    "share.session.connection-lost",
    title="The connection of a session is closed",
    level=Level.MUST,
    rule="A session ends with its connection: on the next one the client opens a new session with epoch 0.",
    source=Source("KIP-932", "Share sessions"),
    needs=("share",),
    cluster=_ORDERS,
)
def connection_lost(run: CaseRun) -> None:
    """The connection is closed at one ShareFetch of an open session, without an answer."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    run.cluster.faults.add("ShareFetch", filter="share_session_epoch>0", times=1, drop=True)
    polling = run.in_background(lambda: consumer.poll_until(records=1, timeout_s=12))
    run.wire.wait_until(lambda: [each for each in run.wire.requests("ShareFetch") if each.faults])
    [dropped] = [each for each in run.wire.requests("ShareFetch") if each.faults]
    run.produce("orders", "first")

    values = polling.result().values

    after = session_requests(run, after=dropped.number)
    run.expect(values == ["first"], "the record arrives in the new session", seen=values, exchanges=after)
    seen = after[0].request.share_session_epoch
    run.expect(seen == 0, "epoch 0 on the new connection", seen=seen, exchanges=[dropped, after[0]])


@case(
    "share.session.incremental",
    title="Requests of an open session name changes only",
    level=Level.SHOULD,
    rule="The broker keeps the partitions of a session: a request of an open one names those that it adds, removes or "
    "acknowledges.",
    source=Source("KIP-932", "Share sessions"),
    needs=("share",),
    cluster=ClusterPlan(topics={"orders": 3}),
    on_kafka=True,
)
def incremental(run: CaseRun) -> None:
    """No fault, and no records: the session is open, and nothing changes."""
    consumer = join(run, "orders")
    consumer.poll_until(lambda _: len(run.wire.requests("ShareFetch")) > 2)

    later = [each for each in session_requests(run) if each.request.share_session_epoch > 1]
    naming = [each for each in later if each.request.topics]
    run.expect(not naming, "no partitions in later requests", seen=f"{len(naming)} with partitions", exchanges=naming)


@case(
    "share.session.forgotten",
    title="A partition leaves the session when it is not assigned any more",
    level=Level.MUST,
    rule="A client removes partitions that are not assigned to it any more from its session.",
    source=Source("KIP-932", "Share sessions"),
    needs=("share",),
    cluster=ClusterPlan(topics={"orders": 1, "payments": 1}),
    on_kafka=True,
)
def forgotten(run: CaseRun) -> None:
    """No fault: the application subscribes to orders and payments, then to orders alone."""
    consumer = join(run, "orders", "payments")
    run.start_share_group(consumer, "shop", "orders", "payments")
    consumer.subscribe("orders")

    removed = consumer.poll_until(lambda _: _forgetting(run), timeout_s=6) and _forgetting(run)

    names = run.wire.requests("ShareFetch").topic_names
    topics = {names[each.topic_id] for exchange in removed for each in exchange.request.forgotten_topics_data}
    run.expect(topics == {"payments"}, "payments is removed", seen=topics, exchanges=removed)


def _forgetting(run: CaseRun) -> list[Exchange[Any, Any]]:
    return [each for each in run.wire.requests("ShareFetch") if each.request.forgotten_topics_data]


def _refuse_acknowledgements(run: CaseRun, error: str) -> None:
    """Refuse the next request that has acknowledgements, of either API, at the top and before any work."""
    condition = "share_session_epoch>0 and topics.partitions.acknowledgement_batches.first_offset>=0"
    for api in ("ShareFetch", "ShareAcknowledge"):
        run.cluster.faults.add(api, filter=condition, times=1, error=error, error_at="top", optional=True)


def _reopen_after(run: CaseRun, error: str) -> None:
    """Refuse one ShareFetch of an open session, and expect a new session in which a record arrives."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    run.cluster.faults.add("ShareFetch", filter="share_session_epoch>0", times=1, error=error, error_at="top")
    polling = run.in_background(lambda: consumer.poll_until(records=1, timeout_s=12))
    [refused] = run.wire.wait_for_request("ShareFetch", error=error)

    reopened = run.wire.wait_for_request("ShareFetch", where={"share_session_epoch": 0}, after=refused)
    run.produce("orders", "first")

    values = polling.result().values
    run.expect(values == ["first"], "the record arrives in the new session", seen=values, exchanges=reopened)
    between = [each for each in session_requests(run, after=refused.number) if each.number < reopened[0].number]
    run.expect(not between, "the next request of the session has epoch 0", seen=between, exchanges=[refused, *between])
