"""The transaction coordinator's topic: real records, and another coordinator that takes over from them."""

from __future__ import annotations

import pytest

from kwire.codec import decode
from kwire.error_codes import ErrorCode
from kwire.messages.describe_transactions import DescribeTransactionsRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.records.coordinator.transaction_log import TransactionLogKey, TransactionLogValue
from mockbroker.state.metadata.cluster_image import CoordinatorKind
from tests.support.brokers.broker import Broker
from tests.support.brokers.producer import Producer

ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT = 1, 2, 4


class Bench(Producer):
    """Three nodes with copies of everything, and one transactional id."""

    def __init__(self, *features: str) -> None:
        config = {"default.replication.factor": "3", "transaction.state.log.min.isr": "1"}
        super().__init__(Broker(nodes=3, topics={"t": 1}, config=config, features=features))

    def state(self) -> str:
        return str(self.coordinator(DescribeTransactionsRequest(("tx",)), 0).transaction_states[0].transaction_state)

    def values(self) -> list[tuple[int, TransactionLogValue | None]]:
        """The value of each record of the topic, with its version."""
        found: list[tuple[int, TransactionLogValue | None]] = []
        shard = self.broker.metadata.coordinator_partition_index(CoordinatorKind.TRANSACTION, "tx")
        log = self.broker.leader_log("__transaction_state", shard)
        for batch in log.batches_below(log.end_offset):
            for record in batch.records():
                assert record.key is not None
                assert decode(TransactionLogKey, 0, record.key[2:]).transactional_id == "tx"
                if record.value is None:
                    found.append((-1, None))
                else:
                    version = int.from_bytes(record.value[:2], "big")
                    found.append((version, decode(TransactionLogValue, version, record.value[2:])))
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_every_change_is_a_record(bench: Bench) -> None:
    bench.add(0)
    bench.coordinator(EndTxnRequest("tx", *bench.holder, committed=True), 5)

    values = [value for _, value in bench.values() if value is not None]
    assert [value.transaction_status for value in values] == [0, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT]
    assert [value.producer_epoch for value in values] == [0, 0, 1, 1]
    assert values[0].transaction_partitions is None
    assert [row.topic for row in values[2].transaction_partitions or ()] == ["t"]
    assert values[3].transaction_partitions == []


@pytest.mark.parametrize(("level", "version"), [("0", 0), ("1", 1), ("2", 1)])
def test_the_form_of_values_goes_by_the_level_of_the_feature(level: str, version: int) -> None:
    bench = Bench(f"transaction.version={level}")

    assert bench.values()[0][0] == version


def test_an_id_that_is_forgotten_leaves_a_record_without_value(bench: Bench) -> None:
    bench.broker.advance(8 * 86_400_000)

    assert bench.values()[-1] == (-1, None)
    assert bench.coordinator(DescribeTransactionsRequest(("tx",)), 0).transaction_states[0].error_code == (
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    )


@pytest.mark.parametrize("is_clean", [True, False])
def test_another_coordinator_takes_over_what_is_open_and_its_timeout(bench: Bench, is_clean: bool) -> None:
    bench.add(0)
    former = bench.coordinator_id
    if is_clean:
        bench.broker.stop_node(former)
    else:
        bench.broker.kill_node(former)
        bench.broker.advance(9_000)
    assert bench.coordinator_id != former
    assert bench.state() == "Ongoing"
    bench.broker.advance(70_000)

    assert bench.state() == "CompleteAbort"
    assert bench.markers() == [0]


def test_what_was_about_to_end_ends_under_the_next_coordinator(bench: Bench) -> None:
    bench.add(0)
    bench.broker.core.state.inter_broker.latency_ms = 500
    answer = bench.coordinator(EndTxnRequest("tx", *bench.holder, committed=True), 5)
    assert answer.error_code == 0
    assert bench.state() == "PrepareCommit"
    bench.broker.stop_node(bench.coordinator_id)
    bench.broker.advance(2_000)

    assert bench.state() == "CompleteCommit"
    assert bench.markers()
    assert [value.transaction_status for _, value in bench.values() if value is not None][-1] == COMPLETE_COMMIT


def test_a_coordinator_that_restarts_knows_what_it_knew(bench: Bench) -> None:
    bench.add(0)
    node = bench.coordinator_id
    bench.broker.kill_node(node)
    bench.broker.start_node(node)

    assert bench.state() == "Ongoing"
    assert bench.coordinator(EndTxnRequest("tx", *bench.holder, committed=True), 5).producer_epoch == 1
    assert bench.state() == "CompleteCommit"
