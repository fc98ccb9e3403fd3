"""Versions of APIs: negotiation by ApiVersions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import error_name, not_idempotent, send_error
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.expectations import ExpectationFailed
from mockbroker.cluster import Cluster
from mockbroker.config.kafka_versions import parse_versions
from mockbroker.journal import Exchange

_NEGOTIATION = Source("KIP-35", "Proposed Changes", "Kafka protocol guide, Retrieving Supported API versions")
_ONE = ClusterPlan(topics={"orders": 1})
#: In place of the versions of an API that a broker does not have.
_NOT_SERVED = (-1, -1)


def _use_newest_broker(use: Callable[[Cluster], None]) -> dict[int, Exchange[Any, Any]]:
    """Run a client on a broker without limits. Returns: for each API the request with the highest version.

    What the client sends there counts, and not whether it succeeds.
    """
    with Cluster(topics={"orders": 1}, profile="quick") as newest:
        with suppress(ClientError, ExpectationFailed):
            use(newest)
        sent = sorted(newest.requests(), key=lambda each: each.api_version)
    return {each.api_key: each for each in sent}


def _require_newer_versions(run: CaseRun, newest: Mapping[int, Exchange[Any, Any]]) -> None:
    """Check that a client has newer versions than the broker of the case, which it must not send there.

    newest: its requests to a broker without limits. ApiVersions does not count: its version comes before the answer.
    Raises: NotExercised.
    """
    assert run.case.cluster.versions is not None
    limits = parse_versions(run.case.cluster.versions)
    sent = [each for each in newest.values() if each.api_name != "ApiVersions"]
    newer = [each for each in sent if each.api_version > (limits.range_of(each.api_key) or _NOT_SERVED)[1]]
    if not newer:
        versions = ", ".join(f"{each.api_name} {each.api_version}" for each in sent) or "nothing"
        run.not_exercised(f"the client has no newer versions: to a broker without limits it sends {versions}")
    run.note(f"to a broker without limits the client sends newer versions of {', '.join(e.api_name for e in newer)}")


def _use_producer(run: CaseRun, newest: Cluster) -> None:
    settings = not_idempotent(run, bootstrap_servers=newest.bootstrap_servers.split(","))
    send_error(run.acked_producer("newest", **settings), "orders", "first")


def _use_consumer(run: CaseRun, newest: Cluster) -> None:
    addresses = newest.bootstrap_servers.split(",")
    consumer = run.consumer("newest", group_id="shop", auto_offset_reset="earliest", bootstrap_servers=addresses)
    consumer.subscribe("orders")
    run.poll_for(consumer, lambda: newest.requests("Fetch"), "Fetch", timeout_s=3, may_fail=True)


def older(release: str) -> Case:
    """A case in which the broker has the versions of an older release."""

    def play(run: CaseRun) -> None:
        producer = run.acked_producer(**not_idempotent(run))
        error = send_error(producer, "orders", "first")

        _require_newer_versions(run, _use_newest_broker(lambda newest: _use_producer(run, newest)))
        sent = run.wire.requests()
        closed = [each for each in sent if each.closed]
        run.expect(error is None, "the record is delivered", seen=error, exchanges=run.last_exchanges())
        run.expect(not closed, "no request in a version that the broker does not have", exchanges=closed)

    play.__doc__ = (
        f"ApiVersions lists the APIs and versions of Kafka {release}; others close the connection.\n\n"
        "A second producer, on a broker without limits, shows whether the client has newer versions."
    )
    return case(
        f"connecting.versions.kafka-{release.replace('.', '-')}",
        title=f"A broker with the versions of Kafka {release}",
        level=Level.MUST if release != "1.0" else Level.SHOULD,
        rule="A client sends each API in a version that both the client and the broker have.",
        source=_NEGOTIATION,
        needs=("producer",),
        cluster=ClusterPlan(topics={"orders": 1}, versions=release),
        decided_by=("ApiVersions", "Produce"),
    )(play)


kafka_3_7 = older("3.7")
kafka_2_1 = older("2.1")


@case(
    "connecting.versions.older-produce",
    title="A broker that has only older versions of Produce",
    level=Level.MUST,
    rule="A client sends an API in a version that the broker lists.",
    source=_NEGOTIATION,
    needs=("producer",),
    cluster=_ONE,
    quick=True,
    decided_by=("ApiVersions", "Produce"),
)
def older_produce(run: CaseRun) -> None:
    """A first producer shows which version of Produce the client sends; then ApiVersions lists only those below it."""
    first = send_error(run.acked_producer("first"), "orders", "first")
    newest = max((each.api_version for each in run.wire.requests("Produce")), default=0)
    if not run.wire.requests("ApiVersions"):
        run.not_exercised("the client sends no ApiVersions")
    run.expect(first is None, "the first record is delivered", seen=first)
    run.cluster.faults.add("ApiVersions", max_versions={"Produce": newest - 1}, optional=True)
    before = run.wire.requests()[-1]

    error = send_error(run.acked_producer("second"), "orders", "second")

    if not run.wire.requests("ApiVersions", after=before):
        run.not_exercised("a second producer of the process asks for no versions")
    produced = run.wire.requests("Produce", after=before)
    versions = sorted({exchange.api_version for exchange in produced})
    run.expect(error is None, "the second record is delivered", seen=error)
    run.expect(
        versions and versions[-1] < newest, f"Produce in a version below {newest}", seen=versions, exchanges=produced
    )


@case(
    "connecting.versions.older-metadata",
    title="A broker that has only older versions of Metadata and FindCoordinator",
    level=Level.MUST,
    rule="A client sends an API in a version that the broker lists.",
    source=_NEGOTIATION,
    needs=("consumer.classic",),
    cluster=ClusterPlan(topics={"orders": 1}, versions={"Metadata": 7, "FindCoordinator": 2, "Fetch": 11}),
    decided_by=("ApiVersions", "Metadata", "FindCoordinator", "Fetch"),
)
def older_metadata(run: CaseRun) -> None:
    """ApiVersions lists Metadata up to version 7, FindCoordinator up to 2, Fetch up to 11; a group reads a record.

    A second consumer, on a broker without limits, shows whether the client has newer versions.
    """
    run.produce("orders", "first")
    consumer = run.consumer(group_id="shop", auto_offset_reset="earliest")
    run.subscribe(consumer, "orders")

    polled = consumer.poll_until(records=1)

    _require_newer_versions(run, _use_newest_broker(lambda newest: _use_consumer(run, newest)))
    run.expect(polled.values == ["first"], "the record", seen=polled.values)
    for api, limit in (("Metadata", 7), ("FindCoordinator", 2), ("Fetch", 11)):
        sent = run.wire.requests(api)
        versions = sorted({each.api_version for each in sent})
        run.expect(versions[-1] <= limit, f"{api} up to {limit}", seen=versions, exchanges=sent)


@case(
    "connecting.versions.v0-fallback",
    title="A broker that does not have the client's version of ApiVersions",
    level=Level.MUST,
    rule="UNSUPPORTED_VERSION comes in the form of version 0, and the client asks in a lower one.",
    source=Source("KIP-511", "Proposed Changes", "Kafka protocol guide, Retrieving Supported API versions"),
    needs=("producer",),
    cluster=ClusterPlan(topics={"orders": 1}, versions={"ApiVersions": 0}),
    quick=True,
    decided_by=("ApiVersions", "Produce"),
)
def v0_fallback(run: CaseRun) -> None:
    """ApiVersions above version 0 is answered in version 0 with UNSUPPORTED_VERSION and the versions that it has."""
    error = send_error(run.acked_producer(), "orders", "first")

    asked = run.wire.requests("ApiVersions")
    if not any(each.api_version > 0 for each in asked):
        run.not_exercised("the client asks in version 0 at once" if asked else "the client sends no ApiVersions")
    run.expect(error is None, "the record is delivered", seen=error, exchanges=asked)
    run.expect(
        any(each.api_version == 0 and each.response.error_code == 0 for each in asked),
        "ApiVersions in version 0",
        seen=[each.api_version for each in asked],
        exchanges=asked,
    )


@case(
    "connecting.versions.newer-broker",
    title="A broker that has newer versions than the client knows",
    level=Level.MUST,
    rule="A client sends its own highest version to a broker that has higher ones.",
    source=_NEGOTIATION,
    needs=("producer",),
    cluster=_ONE,
    decided_by=("ApiVersions", "Produce"),
)
def newer_broker(run: CaseRun) -> None:
    """ApiVersions lists every API up to version 99."""
    run.cluster.faults.add("ApiVersions", set_fields={"api_keys.max_version": 99}, optional=True)

    error = send_error(run.acked_producer(), "orders", "first")

    if not run.wire.requests("ApiVersions"):
        run.not_exercised("the client sends no ApiVersions")
    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.last_exchanges())


@case(
    "connecting.versions.software-name",
    title="The name and version of the client software",
    level=Level.SHOULD,
    rule="A client that sends ApiVersions 3 gives its name and version, in Latin characters, digits, dots and dashes.",
    source=Source("KIP-511", "Public Interfaces, Request Validation"),
    needs=("producer",),
    cluster=_ONE,
    on_kafka=True,
    decided_by=("ApiVersions", "Produce"),
)
def software_name(run: CaseRun) -> None:
    """Nothing fails."""
    error = send_error(run.acked_producer(), "orders", "first")

    run.expect(error is None, "the record is delivered", seen=error)
    asked = [each for each in run.wire.requests("ApiVersions") if each.api_version >= 3]
    if not asked:
        run.not_exercised("the client sends no ApiVersions of version 3 or higher, which has the name")
    pattern = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
    for each in asked:
        given = (each.request.client_software_name, each.request.client_software_version)
        run.expect(all(pattern.fullmatch(text) for text in given), "a name and a version", seen=given, exchanges=each)


@case(
    "connecting.versions.missing-api",
    title="A broker without the API that a feature needs",
    level=Level.MUST,
    rule="A client does not send an API that the broker does not list: it reports that the feature is not supported.",
    source=_NEGOTIATION,
    needs=("producer.idempotence",),
    cluster=ClusterPlan(topics={"orders": 1}, versions={"InitProducerId": -1}),
    decided_by=("ApiVersions", "InitProducerId"),
)
def missing_api(run: CaseRun) -> None:
    """ApiVersions does not list InitProducerId, which an idempotent producer needs."""
    producer = run.producer(idempotence=True, acks="all")
    try:
        error = send_error(producer, "orders", "first", timeout_ms=6000)
    except ClientError as raised:  # LOCAL_UNSUPPORTED is what the client should report here.
        error = raised.info

    run.note(f"the client reports {error_name(error) or 'no error'}")
    run.wire.assert_never("InitProducerId")
    run.should(error_name(error) not in (None, "LOCAL_TIMEOUT"), "an error that says so", seen=error)
