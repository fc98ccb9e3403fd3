"""Fetch sessions (KIP-227)."""

from __future__ import annotations

from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.fetching.reading import read_count, read_until, require_possible

_SOURCE = Source("KIP-227", "Proposed Changes, FetchRequest metadata")
_FINAL = -1
_NO_SESSION = "the client uses no fetch session, which the KIP leaves to it"
_FETCH_BY_TOPIC_ID = 13


@case(
    "fetching.sessions.epochs",
    title="The epochs of a fetch session",
    level=Level.MUST,
    rule="The first request of a session has epoch 0, and each later one an epoch that is one higher.",
    source=_SOURCE,
    needs=("consumer.assign",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    quick=True,
    decided_by=("Fetch",),
)
def epochs(run: CaseRun) -> None:
    """No fault: records are appended one after the other."""
    consumer = run.consumer(fetch_max_wait_ms=100) if run.has_setting("fetch_max_wait_ms") else run.consumer()
    consumer.assign(("orders", 0, "earliest"))
    for number in range(3):
        run.produce("orders", f"record {number}")
        consumer.poll_until(records=1)

    in_session = [each for each in run.wire.requests("Fetch") if each.response and each.response.session_id]
    if not in_session:
        run.not_exercised(_NO_SESSION)
    by_session: dict[int, list[int]] = {}
    for exchange in in_session:
        by_session.setdefault(exchange.response.session_id, []).append(exchange.request.session_epoch)
    wrong = {number: seen for number, seen in by_session.items() if seen != list(range(len(seen)))}
    run.expect(not wrong, "epochs 0, 1, 2, ... in each session", seen=wrong, exchanges=in_session)


def _lost(name: str, error: str, reason: str, *, first_version: int = 0) -> Case:
    """A case of an error of a whole Fetch request in a session. first_version: of Fetch in which brokers give it."""

    def play(run: CaseRun) -> None:
        run.produce("orders", "first")
        consumer = run.consumer()
        consumer.assign(("orders", 0, "earliest"))
        consumer.poll_until(records=1)
        require_possible(run, run.wire.requests("Fetch")[-1], error, first_version=first_version)
        fault = run.cluster.faults.add(
            "Fetch", times=1, error=error, error_at="top", optional=True, filter="session_id!=0 and session_epoch>0"
        )
        run.produce("orders", "second")
        reading = read_count(run, consumer, 1)
        run.produce("orders", "third")
        reading.extend(read_until(run, consumer, lambda more: "third" in more.values))

        if not fault.hits:
            run.not_exercised(_describe_no_session(run))
        refused = run.wire.requests("Fetch").answered(error=error)
        run.expect(reading.values == ["second", "third"], "each record once", seen=reading.values, exchanges=refused)
        run.should(
            not reading.errors,
            "the client begins again by itself: the application sees no error",
            seen=reading.errors,
            exchanges=refused,
        )
        after = [each for each in run.wire.requests("Fetch", after=refused[0]) if each.node_id == refused[0].node_id]
        run.expect(after, "a Fetch request after the error", seen="none", exchanges=refused)
        run.expect(
            after[0].request.session_epoch in (0, _FINAL),
            "the next request begins a new session, epoch 0, or has none, epoch -1",
            seen=f"session {after[0].request.session_id}, epoch {after[0].request.session_epoch}",
            exchanges=[refused[0], after[0]],
        )

    play.__doc__ = f"One Fetch request in a session, of epoch 1 or higher, is answered with {error} as a whole."
    decorate = case(
        f"fetching.sessions.{name}",
        title=f"A Fetch request is refused with {error}",
        level=Level.MUST,
        rule=f"{reason} The client begins again with a full request, and loses no record.",
        source=_SOURCE,
        needs=("consumer.assign",),
        cluster=ClusterPlan(topics={"orders": 1}),
        decided_by=("Fetch",),
    )
    return decorate(play)


def _describe_no_session(run: CaseRun) -> str:
    """Why no Fetch request was refused."""
    has_session = any(each.request.session_id for each in run.wire.requests("Fetch"))
    return "the client sent no Fetch request in its session after the fault was set" if has_session else _NO_SESSION


not_found = _lost("not-found", "FETCH_SESSION_ID_NOT_FOUND", "The broker has forgotten the session.")
invalid_epoch = _lost(
    "invalid-epoch", "INVALID_FETCH_SESSION_EPOCH", "The broker expected another epoch in the session."
)
topic_id_error = _lost(
    "topic-id-error",
    "FETCH_SESSION_TOPIC_ID_ERROR",
    "The session names topics in another way than the request.",
    first_version=_FETCH_BY_TOPIC_ID,
)


@case(
    "fetching.sessions.node-restarted",
    title="The node that has the session is restarted",
    level=Level.MUST,
    rule="A node that has ended knows no session: the client connects again, reads on, and loses no record.",
    source=_SOURCE,
    needs=("consumer.assign",),
    cluster=ClusterPlan(topics={"orders": 1}),
    decided_by=("Fetch",),
)
def node_restarted(run: CaseRun) -> None:
    """The only node is killed, and starts again at the same address."""
    run.produce("orders", "first")
    consumer = run.consumer()
    consumer.assign(("orders", 0, "earliest"))
    consumer.poll_until(records=1)
    run.cluster.kill_node(0)
    run.cluster.start_node(0)
    run.produce("orders", "second")

    reading = read_count(run, consumer, 1)

    run.expect(reading.values == ["second"], "the record after the restart", seen=reading.values)
    run.should(not reading.errors, "no error for the application", seen=reading.errors)


@case(
    "fetching.sessions.partition-removed",
    title="A partition leaves the assignment",
    level=Level.MUST,
    rule="Records of a partition that is not assigned any more are not given to the application.",
    source=Source("KIP-227", "FetchRequest, forgotten topics", "kafka-clients KafkaConsumer.assign"),
    needs=("consumer.assign",),
    cluster=ClusterPlan(topics={"orders": 2}),
    on_kafka=True,
    decided_by=("Fetch",),
)
def partition_removed(run: CaseRun) -> None:
    """No fault: the consumer is assigned both partitions, and then only the second."""
    consumer = run.consumer()
    consumer.assign(("orders", 0, "earliest"), ("orders", 1, "earliest"))
    run.produce("orders", "a", partition=0)
    run.produce("orders", "b", partition=1)
    consumer.poll_until(records=2)
    consumer.assign(("orders", 1, 1))
    run.produce("orders", "c", partition=0)
    run.produce("orders", "d", partition=1)

    polled = consumer.poll_until(records=1)

    run.expect(
        polled.values == ["d"],
        "only the record of orders-1",
        seen=polled.values,
        exchanges=run.wire.requests("Fetch"),
    )
