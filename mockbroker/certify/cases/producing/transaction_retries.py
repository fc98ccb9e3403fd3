"""Errors in transactions after which the client sends the request again, and coordinators that move."""

from __future__ import annotations

from collections.abc import Callable

from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.transaction_calls import (
    FIRST_PROTOCOL,
    NEEDS,
    commit_offset,
    commit_one,
    committed_values,
    open_producer,
)
from mockbroker.certify.driver.handles import ProducerHandle

#: APIs that only a transaction with offsets of a group sends.
_OF_OFFSETS = ("AddOffsetsToTxn", "TxnOffsetCommit")
_SOURCE = Source("KIP-98", "RPC Protocol, error codes", "kafka-clients KafkaProducer, RetriableException")


def retried(api: str, code: str, name: str) -> Case:
    """A case in which a request of a transaction is refused once with a retriable error."""

    def play(run: CaseRun) -> None:
        run.cluster.faults.add(api, times=1, error=code)
        if api in _OF_OFFSETS:
            consumer = run.consumer(group_id="shop")
            error = commit_offset(open_producer(run), consumer, 7)
        else:
            error = commit_one(open_producer(run), "first")

        sent = run.wire.requests(api)
        run.expect(error is None, "the transaction is committed", seen=error, exchanges=sent)
        run.expect(len(sent) > 1, f"{api} is sent again", seen=f"{len(sent)} requests", exchanges=sent)
        if api not in _OF_OFFSETS:
            values = committed_values(run)
            run.expect(values == ["first"], "the record can be read", seen=values, exchanges=sent)

    play.__doc__ = f"The first {api} request is answered with {code}."
    return case(
        f"producing.transaction-retries.{name}",
        title=f"{api} is refused once with {code}",
        level=Level.MUST,
        rule=f"{code} is retriable: the client sends {api} again, and the transaction goes on.",
        source=_SOURCE,
        needs=(*NEEDS, "consumer.offsets") if api in _OF_OFFSETS else NEEDS,
        cluster=FIRST_PROTOCOL,
        decided_by=(api, "EndTxn"),
    )(play)


find_not_available = retried("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", "find-not-available")
init_loading = retried("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS", "init-loading")
init_concurrent = retried("InitProducerId", "CONCURRENT_TRANSACTIONS", "init-concurrent")
init_not_coordinator = retried("InitProducerId", "NOT_COORDINATOR", "init-not-coordinator")
add_concurrent = retried("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS", "add-concurrent")
add_loading = retried("AddPartitionsToTxn", "COORDINATOR_LOAD_IN_PROGRESS", "add-loading")
add_not_coordinator = retried("AddPartitionsToTxn", "NOT_COORDINATOR", "add-not-coordinator")
end_loading = retried("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS", "end-loading")
end_not_coordinator = retried("EndTxn", "NOT_COORDINATOR", "end-not-coordinator")
end_concurrent = retried("EndTxn", "CONCURRENT_TRANSACTIONS", "end-concurrent")
offsets_not_coordinator = retried("AddOffsetsToTxn", "NOT_COORDINATOR", "offsets-not-coordinator")
commit_loading = retried("TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", "commit-loading")
commit_not_coordinator = retried("TxnOffsetCommit", "NOT_COORDINATOR", "commit-not-coordinator")


@case(
    "producing.transaction-retries.coordinator-moved",
    title="The transaction coordinator moves",
    level=Level.MUST,
    rule="On NOT_COORDINATOR the client looks the coordinator up again, and goes on at the node of the answer.",
    source=_SOURCE,
    needs=NEEDS,
    cluster=ClusterPlan(nodes=2, topics={"orders": 1}, properties={"transaction.state.log.replication.factor": 2}),
    decided_by=("Produce", "AddPartitionsToTxn", "EndTxn", "InitProducerId"),
)
def coordinator_moved(run: CaseRun) -> None:
    """After the record is sent, the other node becomes the coordinator."""
    producer = open_producer(run)
    producer.begin()
    [delivery] = producer.send("orders", "first")
    seen = run.cluster.journal.last_number
    run.cluster.move_coordinator("shop", kind="transaction")

    producer.commit_transaction()

    ended = run.wire.requests("EndTxn")
    node = run.cluster.coordinator("shop", kind="transaction")
    run.expect(delivery.error is None, "the record is delivered", seen=delivery.error)
    run.expect(ended[-1].node_id == node, f"EndTxn at node {node}", seen=f"node {ended[-1].node_id}", exchanges=ended)
    run.wire.assert_sent("FindCoordinator", after=seen)


def stopped(name: str, title: str) -> Callable[[Callable[[CaseRun], None]], Case]:
    """A case in which the coordinator's node is stopped during a transaction; the other node leads the partition."""
    return case(
        f"producing.transaction-retries.{name}",
        title=title,
        level=Level.MUST,
        rule="When the connection to the coordinator ends, the client looks it up again, and commits there.",
        source=_SOURCE,
        needs=NEEDS,
        cluster=ClusterPlan(
            nodes=2,
            topics={"orders": 1},
            properties={"transaction.state.log.replication.factor": 2, "transaction.state.log.min.isr": 1},
        ),
        decided_by=("Produce", "AddPartitionsToTxn", "EndTxn", "InitProducerId"),
    )


def begin_at_other_node(run: CaseRun) -> tuple[ProducerHandle, int]:
    """A transaction with the record "first", whose coordinator is not at the leader's node; and the coordinator's."""
    coordinator = run.cluster.coordinator("shop", kind="transaction")
    run.cluster.move_leader("orders", 0, to=1 - coordinator)
    producer = open_producer(run)
    producer.begin()
    [delivery] = producer.send("orders", "first")
    run.expect(delivery.error is None, "the record is delivered", seen=delivery.error)
    return producer, coordinator


@stopped("coordinator-stopped", "The transaction coordinator's node is stopped before the end of the transaction")
def coordinator_stopped(run: CaseRun) -> None:
    """The node is stopped after the first record; the answer for a second one comes when the connection has ended."""
    producer, coordinator = begin_at_other_node(run)
    run.cluster.stop_node(coordinator)
    [delivery] = producer.send("orders", "second")

    producer.commit_transaction()

    run.expect(delivery.error is None, "the second record is delivered", seen=delivery.error)
    values = committed_values(run)
    ended = run.wire.requests("EndTxn")
    run.expect(values == ["first", "second"], "both records can be read", seen=values, exchanges=ended)


@stopped("coordinator-stopped-in-end", "The transaction coordinator's node is stopped while EndTxn is under way")
def coordinator_stopped_in_end(run: CaseRun) -> None:
    """The node is stopped when the first EndTxn request has arrived; it is not handled."""
    run.cluster.faults.add("EndTxn", times=1, answer="never")
    producer, coordinator = begin_at_other_node(run)

    committing = run.in_background(producer.commit_transaction)
    run.wire.wait_for_request("EndTxn")
    run.cluster.stop_node(coordinator)
    committing.result()

    values = committed_values(run)
    run.expect(values == ["first"], "the record can be read", seen=values, exchanges=run.wire.requests("EndTxn"))
