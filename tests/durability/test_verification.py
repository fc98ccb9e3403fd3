"""The comparison after kills finds each kind of broken promise."""

from __future__ import annotations

from tests.durability.copying import TransactionalCopier
from tests.durability.producing import IdempotentProducer
from tests.durability.verification import (
    Record,
    find_broken_transactions,
    find_lost_records,
    find_uncopied_records,
)

_NO_BROKER = "127.0.0.1:1"


def _producer() -> IdempotentProducer:
    producer = IdempotentProducer(_NO_BROKER, "plain", partition_count=1)
    producer.acknowledged.update({(0, 0): b"0", (0, 1): b"1"})
    return producer


def _copier() -> TransactionalCopier:
    copier = TransactionalCopier(_NO_BROKER, "copies", "plain", partition_count=1, seed=1)
    copier.committed.update({0: 2})
    copier.aborted.add(1)
    return copier


def test_records_that_are_where_they_were_acknowledged_are_no_violation() -> None:
    records = [Record(0, 0, b"0"), Record(0, 1, b"1"), Record(0, 2, b"2")]

    assert list(find_lost_records(_producer(), records)) == []


def test_a_missing_record_is_a_violation() -> None:
    (problem,) = find_lost_records(_producer(), [Record(0, 0, b"0")])

    assert "acknowledged at (partition, offset), and not there: 1, as (0, 1): b'1'" in problem


def test_a_record_that_is_stored_twice_is_a_violation() -> None:
    (problem,) = find_lost_records(_producer(), [Record(0, 0, b"0"), Record(0, 1, b"1"), Record(0, 2, b"1")])

    assert "stored more than once: 1, as b'1': 2" in problem


def test_complete_transactions_are_no_violation() -> None:
    assert list(find_broken_transactions(_copier(), [Record(0, 0, b"0:a"), Record(0, 1, b"0:b")])) == []


def test_a_record_of_an_aborted_transaction_is_a_violation() -> None:
    records = [Record(0, 0, b"0:a"), Record(0, 1, b"0:b"), Record(0, 3, b"1:c")]

    (problem,) = find_broken_transactions(_copier(), records)

    assert "records of aborted transactions were read: 1, as 1: 1" in problem


def test_a_transaction_without_all_of_its_records_is_a_violation() -> None:
    (problem,) = find_broken_transactions(_copier(), [Record(0, 0, b"0:a")])

    assert "committed transactions that lack records: 1, as 0: 2" in problem


def test_a_record_that_was_copied_twice_is_a_violation() -> None:
    records = [Record(0, 0, b"0:a"), Record(0, 1, b"0:b"), Record(0, 3, b"2:a")]

    (problem,) = find_broken_transactions(_copier(), records)

    assert "copied more than once: 1, as b'a': 2" in problem


def test_a_transaction_of_unknown_end_that_is_there_in_part_is_a_violation() -> None:
    copier = _copier()
    copier.unknown[2] = 2
    committed = [Record(0, 0, b"0:a"), Record(0, 1, b"0:b")]

    (problem,) = find_broken_transactions(copier, [*committed, Record(0, 3, b"2:c")])

    assert "transactions that are there in part: 1, as 2: 2" in problem
    assert list(find_broken_transactions(copier, committed)) == []
    assert list(find_broken_transactions(copier, [*committed, Record(0, 3, b"2:c"), Record(0, 4, b"2:d")])) == []


def test_a_committed_offset_without_the_copies_before_it_is_a_violation() -> None:
    source = [Record(0, 0, b"a"), Record(0, 1, b"b"), Record(0, 2, b"c")]
    copies = [Record(0, 0, b"0:a")]

    (problem,) = find_uncopied_records(_copier(), source, copies, {0: 2})

    assert "offsets are committed, and there is no copy: 1, as (0, 1): b'b'" in problem
    assert list(find_uncopied_records(_copier(), source, copies, {0: 1})) == []
