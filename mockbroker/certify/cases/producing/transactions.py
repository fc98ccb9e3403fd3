"""Transactions: commit, abort, and the order of requests."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import describe_producer, send_error, sent_batches
from mockbroker.certify.cases.transaction_calls import (
    CONTRACT,
    FIRST_PROTOCOL,
    NEEDS,
    ONE,
    commit_one,
    committed_values,
    open_producer,
)


@case(
    "producing.transactions.commit",
    title="A transaction is committed",
    level=Level.MUST,
    rule="Records of a committed transaction can be read by consumers with read_committed.",
    source=CONTRACT,
    needs=NEEDS,
    cluster=ONE,
    quick=True,
    decided_by=("Produce", "AddPartitionsToTxn", "EndTxn", "InitProducerId"),
)
def commit(run: CaseRun) -> None:
    """Nothing fails."""
    error = commit_one(open_producer(run), "first")

    ended = run.wire.requests("EndTxn")
    run.expect(error is None, "the transaction is committed", seen=error, exchanges=ended)
    run.expect([each.request.committed for each in ended] == [True], "one EndTxn that commits", exchanges=ended)
    run.expect(committed_values(run) == ["first"], "the record can be read", seen=committed_values(run))


@case(
    "producing.transactions.abort",
    title="A transaction is aborted, and the next one committed",
    level=Level.MUST,
    rule="Records of an aborted transaction are not read with read_committed; the producer can begin another one.",
    source=CONTRACT,
    needs=NEEDS,
    cluster=ONE,
    decided_by=("Produce", "AddPartitionsToTxn", "EndTxn", "InitProducerId"),
)
def abort(run: CaseRun) -> None:
    """Nothing fails."""
    producer = open_producer(run)
    producer.begin()
    sent = send_error(producer, "orders", "first")
    producer.abort_transaction()

    error = commit_one(producer, "second")

    ended = run.wire.requests("EndTxn")
    run.expect([sent, error] == [None, None], "no error", seen=[sent, error], exchanges=ended)
    run.expect([each.request.committed for each in ended] == [False, True], "EndTxn: abort, commit", exchanges=ended)
    values = committed_values(run)
    run.expect(values == ["second"], "the record of the second transaction", seen=values, exchanges=ended)


@case(
    "producing.transactions.batches",
    title="Batches of a transaction",
    level=Level.MUST,
    rule="They are marked as transactional, with the producer's id and epoch, and Produce names the transactional id.",
    source=Source("KIP-98", "Message Format; ProduceRequest"),
    needs=NEEDS,
    cluster=ONE,
    on_kafka=True,
    decided_by=("Produce", "AddPartitionsToTxn", "EndTxn", "InitProducerId"),
)
def batches(run: CaseRun) -> None:
    """Nothing fails."""
    error = commit_one(open_producer(run), "first")

    produced = run.wire.requests("Produce")
    given = run.wire.requests("InitProducerId")[-1].response
    run.expect(error is None, "the transaction is committed", seen=error, exchanges=produced)
    run.expect({each.request.transactional_id for each in produced} == {"shop"}, "the id `shop`", exchanges=produced)
    seen = [(each.producer, each.batch.is_transactional) for each in sent_batches(produced)]
    expected = ((given.producer_id, given.producer_epoch), True)
    texts = [f"id {each[0][0]}, epoch {each[0][1]}, transactional: {'yes' if each[1] else 'no'}" for each in seen]
    wanted = f"batches with the id {given.producer_id} and epoch {given.producer_epoch} that are transactional"
    run.expect(set(seen) == {expected}, wanted, seen="; ".join(texts), exchanges=produced)


@case(
    "producing.transactions.partition-added-first",
    title="A partition is added before its first batch",
    level=Level.MUST,
    rule="With transaction.version 1 AddPartitionsToTxn has succeeded for a partition before records are sent to it.",
    source=Source("KIP-98", "Data flow, AddPartitionsToTxnRequest"),
    needs=NEEDS,
    cluster=FIRST_PROTOCOL,
    decided_by=("Produce", "AddPartitionsToTxn", "EndTxn", "InitProducerId"),
)
def partition_added_first(run: CaseRun) -> None:
    """The cluster has transaction.version 1, without KIP-890's second part."""
    error = commit_one(open_producer(run), "first")

    added = run.wire.requests("AddPartitionsToTxn")
    produced = run.wire.requests("Produce")
    run.expect(error is None, "the transaction is committed", seen=error, exchanges=[*added, *produced])
    run.expect(
        added and added[0].departed_ns <= produced[0].arrived_ns,
        "AddPartitionsToTxn is answered before Produce arrives",
        exchanges=[*added, *produced],
    )


@case(
    "producing.transactions.second-protocol",
    title="Transactions with transaction.version 2",
    level=Level.MAY,
    rule="A client with Produce 12 does not send AddPartitionsToTxn: partitions are added as it produces.",
    source=Source("KIP-890", "Transaction Version 2, Proposed Changes"),
    needs=NEEDS,
    cluster=ONE,
    on_kafka=True,
    decided_by=("Produce", "AddPartitionsToTxn", "EndTxn", "InitProducerId"),
)
def second_protocol(run: CaseRun) -> None:
    """The cluster has transaction.version 2, as it is the default."""
    error = commit_one(open_producer(run), "first")

    added = run.wire.requests("AddPartitionsToTxn")
    produced = run.wire.requests("Produce")
    run.expect(error is None, "the transaction is committed", seen=error, exchanges=produced)
    run.expect(not added and produced[0].api_version >= 12, "Produce 12 without AddPartitionsToTxn", exchanges=added)


@case(
    "producing.transactions.epoch-of-answer",
    title="Two transactions with transaction.version 2",
    level=Level.MUST,
    rule="A client that ends a transaction with EndTxn 5 uses the producer id and epoch of the answer from then on.",
    source=Source("KIP-890", "Transaction Version 2, EndTxn"),
    needs=NEEDS,
    cluster=ONE,
    on_kafka=True,
    decided_by=("Produce", "AddPartitionsToTxn", "EndTxn", "InitProducerId"),
)
def epoch_of_answer(run: CaseRun) -> None:
    """EndTxn is answered with the next epoch, if the client sends version 5 or later."""
    producer = open_producer(run)
    errors = [commit_one(producer, value) for value in ("first", "second")]

    ended = run.wire.requests("EndTxn")
    produced = run.wire.requests("Produce")
    run.expect(errors == [None, None], "both are committed", seen=errors, exchanges=[*ended, *produced])
    if ended[0].api_version < 5:
        run.not_exercised(f"the client sends EndTxn {ended[0].api_version}, whose answer has no epoch")
    given = (ended[0].response.producer_id, ended[0].response.producer_epoch)
    [batch] = sent_batches(produced[-1:])
    run.expect(
        (batch.producer, batch.batch.base_sequence) == (given, 0),
        f"producer id {given[0]}, epoch {given[1]}, sequence 0",
        seen=describe_producer(batch),
        exchanges=[ended[0], produced[-1]],
    )


@case(
    "producing.transactions.commit-lost",
    title="The connection ends after EndTxn was handled",
    level=Level.MUST,
    rule="The outcome of EndTxn is not known: the client sends it again, and the transaction is committed once.",
    source=CONTRACT,
    needs=NEEDS,
    cluster=ONE,
    decided_by=("Produce", "AddPartitionsToTxn", "EndTxn", "InitProducerId"),
)
def commit_lost(run: CaseRun) -> None:
    """The first EndTxn request is handled; instead of its answer the connection is closed."""
    run.cluster.faults.add("EndTxn", times=1, after=True, drop="close")
    producer = open_producer(run)

    errors = [commit_one(producer, value) for value in ("first", "second")]

    ended = run.wire.requests("EndTxn")
    values = committed_values(run)
    run.expect(errors == [None, None], "both transactions are committed", seen=errors, exchanges=ended)
    run.expect(values == ["first", "second"], "both records can be read", seen=values, exchanges=ended)


@case(
    "producing.transactions.failed-record",
    title="A record of the transaction fails",
    level=Level.SHOULD,
    rule="A transaction of which a record could not be sent is not committed: commit fails, and abort is possible.",
    source=Source("KIP-98", "Public Interfaces", "kafka-clients KafkaProducer.send and commitTransaction"),
    needs=NEEDS,
    cluster=ONE,
    decided_by=("Produce", "AddPartitionsToTxn", "EndTxn", "InitProducerId"),
)
def failed_record(run: CaseRun) -> None:
    """The second Produce request is answered with INVALID_RECORD."""
    run.cluster.faults.add("Produce", first=2, times=1, error="INVALID_RECORD")
    producer = open_producer(run)
    producer.begin()
    errors = [send_error(producer, "orders", value) for value in ("first", "second")]

    with run.expect_error():
        producer.commit_transaction()
    producer.abort_transaction()

    run.expect(errors[0] is None and errors[1], "the second record fails", seen=errors)
    values = committed_values(run)
    run.expect(values == [], "no record can be read", seen=values, exchanges=run.wire.requests("EndTxn"))


@case(
    "producing.transactions.record-outside",
    title="A record before the transaction begins",
    level=Level.SHOULD,
    rule="A transactional producer refuses records outside of a transaction.",
    source=Source("KIP-98", "Public Interfaces", "kafka-clients KafkaProducer.send, IllegalStateException"),
    needs=NEEDS,
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    decided_by=("Produce", "AddPartitionsToTxn", "EndTxn", "InitProducerId"),
)
def record_outside(run: CaseRun) -> None:
    """Nothing fails at the broker."""
    error = send_error(open_producer(run), "orders", "first", timeout_ms=3000)

    run.expect(error, "the client refuses the record", seen="it is delivered", exchanges=run.wire.requests("Produce"))
    run.wire.assert_never("Produce")
