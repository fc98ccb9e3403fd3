"""Producers with the same transactional id, transactions that time out, and offsets in transactions."""

from __future__ import annotations

from mockbroker.certify.case import Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import send_error
from mockbroker.certify.cases.transaction_calls import (
    CONTRACT,
    NEEDS,
    ONE,
    commit_offset,
    commit_one,
    committed_values,
    open_producer,
)
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.handles import ProducerHandle

_FENCING = Source("KIP-98", "Transactional Guarantees", "kafka-clients ProducerFencedException")
_FENCED = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "LOCAL_FATAL")


def _fails_to_commit(run: CaseRun, producer: ProducerHandle, value: str) -> None:
    """Send a record in the open transaction, and commit: one of both must fail because the producer is fenced."""
    error = send_error(producer, "orders", value, timeout_ms=5000)
    if error is None:
        try:
            producer.commit_transaction()
        except ClientError as raised:
            error = raised.info
    shown = [*run.wire.requests("Produce"), *run.wire.requests("EndTxn")]
    run.expect(error, "the older producer cannot commit", seen="no error", exchanges=shown)
    run.should(error and error.name in _FENCED, "PRODUCER_FENCED", seen=error, exchanges=shown)


@case(
    "producing.fencing.second-producer",
    title="A second producer with the same transactional id",
    level=Level.MUST,
    rule="The later producer fences the earlier one, whose open transaction is aborted, and which cannot commit.",
    source=_FENCING,
    needs=NEEDS,
    cluster=ONE,
    quick=True,
    decided_by=("InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"),
)
def second_producer(run: CaseRun) -> None:
    """Nothing fails by a fault: the coordinator raises the epoch for the second producer."""
    old = open_producer(run, "old")
    old.begin()
    first = send_error(old, "orders", "first")
    new = open_producer(run, "new")

    following = commit_one(new, "second")
    _fails_to_commit(run, old, "third")

    run.expect([first, following] == [None, None], "the new producer commits", seen=[first, following])
    values = committed_values(run)
    run.expect(values == ["second"], "only the record of the new producer", seen=values)


@case(
    "producing.fencing.unusable",
    title="A fenced producer begins another transaction",
    level=Level.MUST,
    rule="A fenced producer must be closed: none of its later transactions is committed.",
    source=_FENCING,
    needs=NEEDS,
    cluster=ONE,
    decided_by=("InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"),
)
def unusable(run: CaseRun) -> None:
    """The second producer commits a transaction, before the first one tries to go on."""
    old = open_producer(run, "old")
    old.begin()
    send_error(old, "orders", "first")
    following = commit_one(open_producer(run, "new"), "of the second producer")
    _fails_to_commit(run, old, "second")

    error = commit_one(old, "third")

    values = committed_values(run)
    run.expect(error, "the fenced producer reports an error", seen="a commit", exchanges=run.wire.requests("EndTxn"))
    run.expect(following is None, "the second producer commits", seen=following)
    run.expect(values == ["of the second producer"], "only the record of the second producer", seen=values)


@case(
    "producing.fencing.crash",
    title="A producer crashes with an open transaction",
    level=Level.MUST,
    rule="The next producer with the transactional id waits until the open transaction is aborted, and goes on.",
    source=Source("KIP-98", "Transactional Guarantees", "kafka-clients KafkaProducer.initTransactions"),
    needs=NEEDS,
    cluster=ONE,
    decided_by=("InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"),
)
def crash(run: CaseRun) -> None:
    """The process of the first producer is killed; its transaction has one record."""
    other = run.second_driver()
    crashed = other.producer("crashed", transactional_id="shop")
    crashed.init_transactions()
    crashed.begin()
    sent = send_error(crashed, "orders", "first")
    other.kill()

    error = commit_one(open_producer(run), "second")

    values = committed_values(run)
    run.expect([sent, error] == [None, None], "no error", seen=[sent, error])
    run.expect(values == ["second"], "only the record of the second producer", seen=values)


@case(
    "producing.fencing.timed-out",
    title="A transaction is open for longer than its timeout",
    level=Level.MUST,
    rule="The coordinator aborts it: the producer cannot commit it, and its records are not read.",
    source=Source("KIP-98", "Transaction timeouts", "kafka-clients ProducerConfig.TRANSACTION_TIMEOUT_CONFIG"),
    needs=NEEDS,
    settings_needed=("transaction_timeout_ms",),
    cluster=ONE,
    decided_by=("InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"),
)
def timed_out(run: CaseRun) -> None:
    """The transaction timeout is 20 s. The cluster's clock moves by 60 s before the commit."""
    producer = run.producer(transactional_id="shop", transaction_timeout_ms=20_000)
    producer.init_transactions()
    producer.begin()
    sent = send_error(producer, "orders", "first")
    run.cluster.clock.advance(60_000)

    run.expect(sent is None, "the record is delivered", seen=sent)
    with run.expect_error():
        producer.commit_transaction()
    values = committed_values(run)
    run.expect(values == [], "no record can be read", seen=values, exchanges=run.wire.requests("EndTxn"))


@case(
    "producing.fencing.timeout-in-request",
    title="The transaction timeout stands in InitProducerId",
    level=Level.MUST,
    rule="InitProducerId has the transaction timeout of the producer's configuration.",
    source=Source("KIP-98", "InitProducerIdRequest", "kafka-clients ProducerConfig.TRANSACTION_TIMEOUT_CONFIG"),
    needs=NEEDS,
    settings_needed=("transaction_timeout_ms",),
    cluster=ONE,
    on_kafka=True,
    decided_by=("InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"),
)
def timeout_in_request(run: CaseRun) -> None:
    """Nothing fails. The transaction timeout is 21 s."""
    producer = run.producer(transactional_id="shop", transaction_timeout_ms=21_000)
    producer.init_transactions()
    error = commit_one(producer, "first")

    asked = run.wire.requests("InitProducerId")
    given = [each.request.transaction_timeout_ms for each in asked]
    run.expect(error is None, "the transaction is committed", seen=error, exchanges=asked)
    run.expect(set(given) == {21_000}, "21,000 ms", seen=given, exchanges=asked)


@case(
    "producing.fencing.timeout-too-long",
    title="A transaction timeout that the broker does not allow",
    level=Level.MUST,
    rule="INVALID_TRANSACTION_TIMEOUT is not retriable: init_transactions reports it.",
    source=Source("KIP-98", "InitProducerIdResponse", "kafka-clients InvalidTxnTimeoutException"),
    needs=NEEDS,
    settings_needed=("transaction_timeout_ms",),
    cluster=ONE,
    decided_by=("InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"),
)
def timeout_too_long(run: CaseRun) -> None:
    """transaction.max.timeout.ms is 15 minutes; the producer asks for 20."""
    producer = run.producer(transactional_id="shop", transaction_timeout_ms=1_200_000)
    with run.expect_error() as caught:
        producer.init_transactions(timeout_ms=6000)
        producer.begin()

    asked = run.wire.requests("InitProducerId")
    name = caught.error.name
    run.expect(name != "LOCAL_TIMEOUT", "the error, not a time-out", seen=caught.error, exchanges=asked)


@case(
    "producing.offsets.committed",
    title="Offsets of a group are committed in a transaction",
    level=Level.MUST,
    rule="Offsets that are added to a transaction are committed with it.",
    source=CONTRACT,
    needs=(*NEEDS, "consumer.offsets"),
    cluster=ONE,
    decided_by=("InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"),
)
def offsets_committed(run: CaseRun) -> None:
    """Nothing fails."""
    error = commit_offset(open_producer(run), run.consumer(group_id="shop"), 7)

    sent = run.wire.requests("TxnOffsetCommit")
    run.expect(error is None, "the transaction is committed", seen=error, exchanges=sent)
    run.cluster.wait_for_offset("shop", "orders", 0, 7)


@case(
    "producing.offsets.aborted",
    title="Offsets of a group in a transaction that is aborted",
    level=Level.MUST,
    rule="Offsets of an aborted transaction are not committed.",
    source=CONTRACT,
    needs=(*NEEDS, "consumer.offsets"),
    cluster=ONE,
    decided_by=("InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"),
)
def offsets_aborted(run: CaseRun) -> None:
    """Nothing fails. The transaction with offset 7 is aborted, one with offset 3 is committed."""
    producer, consumer = open_producer(run), run.consumer(group_id="shop")
    producer.begin()
    producer.send_offsets(consumer, ("orders", 0, 7))
    producer.abort_transaction()

    error = commit_offset(producer, consumer, 3)

    run.expect(error is None, "the second transaction is committed", seen=error)
    run.cluster.wait_for_offset("shop", "orders", 0, 3)
    group = run.cluster.group("shop")
    offsets = group.offsets if group else {}
    run.expect("7" not in str(offsets), "offset 3", seen=offsets, exchanges=run.wire.requests("EndTxn"))


@case(
    "producing.offsets.member",
    title="The member and generation in TxnOffsetCommit",
    level=Level.SHOULD,
    rule="Offsets of a member of a group are sent with its member id and generation, so that zombies are refused.",
    source=Source("KIP-447", "Proposed Changes", "kafka-clients KafkaProducer.sendOffsetsToTransaction"),
    needs=(*NEEDS, "consumer.offsets", "consumer.classic"),
    cluster=ONE,
    on_kafka=True,
    decided_by=("InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"),
)
def offsets_of_member(run: CaseRun) -> None:
    """The consumer is a member of the group and has read one record."""
    run.produce("orders", "first")
    consumer = run.consumer(group_id="shop", auto_offset_reset="earliest", enable_auto_commit=False)
    run.subscribe(consumer, "orders")
    consumer.poll_until(records=1)

    error = commit_offset(open_producer(run), consumer, 1)

    joined = run.wire.requests("JoinGroup")[-1]
    sent = run.wire.requests("TxnOffsetCommit")
    run.expect(error is None, "the transaction is committed", seen=error, exchanges=sent)
    expected = (joined.response.member_id, joined.response.generation_id)
    given = (sent[-1].request.member_id, sent[-1].request.generation_id_or_member_epoch)
    wanted = f"member {expected[0]} and generation {expected[1]}"
    run.expect(given == expected, wanted, seen=f"{given[0]!s}, {given[1]}", exchanges=[joined, *sent])
