"""Errors that end a transaction (KIP-890, KIP-1050), and those that end the producer."""

from __future__ import annotations

from typing import Any

from mockbroker.certify.case import Case, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import require_version
from mockbroker.certify.cases.transaction_calls import (
    FIRST_PROTOCOL,
    NEEDS,
    ONE,
    commit_offset,
    commit_one,
    committed_values,
    open_member,
    open_producer,
)
from mockbroker.certify.driver.messages import ErrorInfo
from mockbroker.certify.driver.settings import ConsumerSettings
from mockbroker.journal import Exchange

#: The versions with which a client says that it knows an error. Source: KIP-890, KIP-588, KIP-447, "Public Interfaces".
_FIRST_VERSIONS = {
    ("Produce", "TRANSACTION_ABORTABLE"): 11,
    ("EndTxn", "TRANSACTION_ABORTABLE"): 4,
    ("EndTxn", "PRODUCER_FENCED"): 2,
    ("AddPartitionsToTxn", "PRODUCER_FENCED"): 2,
    ("AddOffsetsToTxn", "TRANSACTION_ABORTABLE"): 4,
    ("TxnOffsetCommit", "TRANSACTION_ABORTABLE"): 4,
    ("TxnOffsetCommit", "ILLEGAL_GENERATION"): 3,
    ("TxnOffsetCommit", "UNKNOWN_MEMBER_ID"): 3,
    ("TxnOffsetCommit", "FENCED_INSTANCE_ID"): 3,
}
_OF_OFFSETS = ("AddOffsetsToTxn", "TxnOffsetCommit")
#: Errors that brokers give only to a request of a member: what it must name, and the field with the value for none.
_OF_MEMBERS = {
    "ILLEGAL_GENERATION": ("generation", "generation_id_or_member_epoch", -1),
    "UNKNOWN_MEMBER_ID": ("member id", "member_id", ""),
    "FENCED_INSTANCE_ID": ("instance id", "group_instance_id", None),
}
_KIP_588 = Source("KIP-588", "Proposed Changes")
_KIP_890 = Source("KIP-890", "Proposed Changes, TRANSACTION_ABORTABLE", "KIP-1050")


def abortable(api: str, code: str, name: str, source: Source, *, level: Level = Level.MUST) -> Case:
    """A case in which a request of the first transaction is refused with an abortable error."""
    settings: ConsumerSettings = {"group_id": "shop"}
    if code == "FENCED_INSTANCE_ID":
        settings["group_instance_id"] = "till"

    def play(run: CaseRun) -> None:
        run.cluster.faults.add(api, times=1, error=code)
        producer = open_producer(run)
        if api in _OF_OFFSETS:
            consumer = open_member(run, settings) if code in _OF_MEMBERS else run.consumer(**settings)
            error = commit_offset(producer, consumer, 7)
        else:
            error = commit_one(producer, "first")
        refused = run.wire.requests(api)
        require_version(run, refused, _FIRST_VERSIONS.get((api, code), 0), code)
        if refused and (why := explain_no_member(refused[0], code)) is not None:
            run.not_exercised(why)
        run.expect(error, "the application sees the error", seen="none", exchanges=refused)

        producer.abort_transaction()
        following = commit_one(producer, "second")

        shown = run.wire.requests("EndTxn")
        run.expect(following is None, "after the abort a transaction is committed", seen=following, exchanges=shown)
        values = committed_values(run)
        run.expect(values == ["second"], "the record of the second transaction", seen=values, exchanges=shown)

    play.__doc__ = f"The first {api} request is answered with {code}."
    if code in _OF_MEMBERS:
        play.__doc__ += " The offset is that of a consumer that is a member of its group."
    capabilities = ("consumer.classic",) if code in _OF_MEMBERS else ("consumer.offsets",) if api in _OF_OFFSETS else ()
    return case(
        f"producing.transaction-errors.{name}",
        title=f"{api} is refused with {code}",
        level=level,
        rule=f"After {code} in {api} the transaction cannot be committed; after an abort the next can.",
        source=source,
        needs=(*NEEDS, *capabilities),
        settings_needed=tuple(settings) if code in _OF_MEMBERS else (),
        cluster=FIRST_PROTOCOL,
        decided_by=(api, "EndTxn"),
    )(play)


def explain_no_member(refused: Exchange[Any, Any], code: str) -> str | None:
    """Why no broker answers a request with an error of members: it does not name what the error is about; else None."""
    noun, field, absent = _OF_MEMBERS.get(code, ("", "", None))
    if not field or getattr(refused.request, field) != absent:
        return None
    sent = f"{refused.api_name} {refused.api_version}"
    return f"the client names no {noun} in {sent}: brokers do not answer with {code} then"


_FENCED_INSTANCE = Source("KIP-447", "Proposed Changes", "kafka-clients KafkaProducer.sendOffsetsToTransaction")
_DENIED = Source("KIP-98", "Authorization", "kafka-clients KafkaProducer, TopicAuthorizationException")
_MAY = Level.MAY  # Documentation of KafkaProducer counts authorization among the fatal errors; the client recovers.
abortable_produce = abortable("Produce", "TRANSACTION_ABORTABLE", "abortable-in-produce", _KIP_890)
abortable_offsets = abortable("AddOffsetsToTxn", "TRANSACTION_ABORTABLE", "abortable-in-add-offsets", _KIP_890)
abortable_commit = abortable("TxnOffsetCommit", "TRANSACTION_ABORTABLE", "abortable-in-offset-commit", _KIP_890)
abortable_end = abortable("EndTxn", "TRANSACTION_ABORTABLE", "abortable-in-end", _KIP_890)
old_epoch = abortable("Produce", "INVALID_PRODUCER_EPOCH", "epoch-in-produce", _KIP_588, level=Level.SHOULD)
topic_denied = abortable("AddPartitionsToTxn", "TOPIC_AUTHORIZATION_FAILED", "topic-authorization", _DENIED, level=_MAY)
group_denied = abortable("TxnOffsetCommit", "GROUP_AUTHORIZATION_FAILED", "group-authorization", _DENIED, level=_MAY)
old_generation = abortable("TxnOffsetCommit", "ILLEGAL_GENERATION", "illegal-generation", _FENCED_INSTANCE)
unknown_member = abortable("TxnOffsetCommit", "UNKNOWN_MEMBER_ID", "unknown-member", _FENCED_INSTANCE)
fenced_instance = abortable("TxnOffsetCommit", "FENCED_INSTANCE_ID", "fenced-instance", _FENCED_INSTANCE)


def fatal(api: str, code: str, name: str, source: Source) -> Case:
    """A case in which a request of a transaction is refused with an error that the producer does not survive."""

    def play(run: CaseRun) -> None:
        run.cluster.faults.add(api, error=code)
        producer = open_producer(run)

        errors: list[ErrorInfo | None] = [commit_one(producer, value) for value in ("first", "second")]

        refused = run.wire.requests(api)
        require_version(run, refused, _FIRST_VERSIONS.get((api, code), 0), code)
        run.expect(errors[0], "the application sees the error", seen="none", exchanges=refused)
        run.expect(errors[1], "the producer cannot be used any more", seen="a second commit", exchanges=refused)
        run.should(errors[0] and errors[0].name == code, code, seen=errors[0], exchanges=refused)
        values = committed_values(run)
        run.expect(values == [], "no record can be read", seen=values, exchanges=refused)

    play.__doc__ = f"Each {api} request is answered with {code}."
    return case(
        f"producing.transaction-errors.{name}",
        title=f"{api} is refused with {code}",
        level=Level.MUST,
        rule=f"{code} in {api} is fatal: the transaction is not committed, and the producer must be closed.",
        source=source,
        needs=NEEDS,
        cluster=FIRST_PROTOCOL,
        decided_by=(api, "EndTxn"),
    )(play)


_FATAL = Source("KIP-98", "Public Interfaces", "kafka-clients KafkaProducer, fatal exceptions")
fenced_end = fatal("EndTxn", "PRODUCER_FENCED", "fenced-in-end", _KIP_588)
fenced_add = fatal("AddPartitionsToTxn", "PRODUCER_FENCED", "fenced-in-add-partitions", _KIP_588)
denied_end = fatal("EndTxn", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "id-authorization-in-end", _FATAL)
invalid_state = fatal("EndTxn", "INVALID_TXN_STATE", "invalid-state-in-end", _FATAL)
mapping_add = fatal("AddPartitionsToTxn", "INVALID_PRODUCER_ID_MAPPING", "id-mapping", _FATAL)


@case(
    "producing.transaction-errors.init-authorization",
    title="InitProducerId is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    level=Level.MUST,
    rule="Without the right to use the transactional id, init_transactions fails with this error.",
    source=Source("KIP-98", "Authorization", "kafka-clients KafkaProducer.initTransactions, AuthorizationException"),
    needs=NEEDS,
    cluster=ONE,
    decided_by=("Produce", "AddPartitionsToTxn", "EndTxn", "InitProducerId"),
)
def init_authorization(run: CaseRun) -> None:
    """Each InitProducerId request is answered with TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
    run.cluster.faults.add("InitProducerId", error="TRANSACTIONAL_ID_AUTHORIZATION_FAILED")

    producer = run.producer(transactional_id="shop")
    with run.expect_error("TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        producer.init_transactions()
        producer.begin()
