"""Logins by SASL: PLAIN, SCRAM, what is refused, and logging in again (KIP-368)."""

from __future__ import annotations

import time

from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import error_name, first_error, send_error

_SASL = Source("Kafka protocol guide", "SASL Authentication Sequence", "KIP-43; KIP-152")
#: The first version of SaslAuthenticate with the lifetime of the session (KIP-368).
_WITH_LIFETIME = 1
_REAUTHENTICATION_S = 3.0
_REFUSED = ("SASL_AUTHENTICATION_FAILED", "LOCAL_AUTHENTICATION")


def _plan(mechanism: str, **properties: object) -> ClusterPlan:
    return ClusterPlan(topics={"orders": 1}, sasl=f"{mechanism} alice:alice-secret", properties=properties)


def _needs(mechanism: str) -> tuple[str, ...]:
    return ("producer", "sasl.plain" if mechanism == "PLAIN" else "sasl.scram")


def logged_in(mechanism: str) -> Case:
    """A case in which the client logs in with a mechanism."""

    def play(run: CaseRun) -> None:
        error = first_error(run)

        produced = run.wire.requests("Produce")
        run.expect(error is None, "the record is delivered", seen=error, exchanges=run.last_exchanges())
        principals = {each.principal for each in produced}
        run.expect(principals == {"User:alice"}, "User:alice", seen=principals, exchanges=produced)

    play.__doc__ = f"The listener is SASL_PLAINTEXT with {mechanism} and the user alice."
    return case(
        f"connecting.sasl.{mechanism.lower()}",
        title=f"Login with {mechanism}",
        level=Level.MUST,
        rule=f"A client with {mechanism} logs in by SaslHandshake and SaslAuthenticate before other requests.",
        source=_SASL,
        needs=_needs(mechanism),
        cluster=_plan(mechanism),
        quick=mechanism == "PLAIN",
        decided_by=("SaslHandshake", "SaslAuthenticate"),
    )(play)


def refused(mechanism: str) -> Case:
    """A case in which the password is wrong."""

    def play(run: CaseRun) -> None:
        error = first_error(run, password="wrong")  # noqa: S106 - a wrong one of a test user.

        sent = run.wire.requests("SaslAuthenticate")
        name = error_name(error)
        run.expect(error, "the application sees the error", seen="the record is delivered", exchanges=sent)
        run.should(name in _REFUSED, " or ".join(_REFUSED), seen=error, exchanges=sent)
        run.wire.assert_never("Metadata")

    play.__doc__ = f"The listener is SASL_PLAINTEXT with {mechanism}; the client has a wrong password."
    return case(
        f"connecting.sasl.{mechanism.lower()}-refused",
        title=f"Login with {mechanism} and a wrong password",
        level=Level.MUST,
        rule="A failed authentication is reported to the application, without waiting until a time limit is over.",
        source=Source("KIP-152", "Proposed Changes", "kafka-clients SaslAuthenticationException"),
        needs=_needs(mechanism),
        cluster=_plan(mechanism),
        decided_by=("SaslHandshake", "SaslAuthenticate"),
    )(play)


plain = logged_in("PLAIN")
scram_sha_256 = logged_in("SCRAM-SHA-256")
scram_sha_512 = logged_in("SCRAM-SHA-512")
plain_refused = refused("PLAIN")
scram_refused = refused("SCRAM-SHA-256")


@case(
    "connecting.sasl.mechanism-not-enabled",
    title="A mechanism that the broker does not have",
    level=Level.MUST,
    rule="UNSUPPORTED_SASL_MECHANISM in SaslHandshake is reported, without waiting until a time limit is over.",
    source=Source("KIP-43", "SaslHandshake", "kafka-clients UnsupportedSaslMechanismException"),
    needs=("producer", "sasl.plain", "sasl.scram"),
    cluster=_plan("PLAIN"),
    decided_by=("SaslHandshake", "SaslAuthenticate"),
)
def mechanism_not_enabled(run: CaseRun) -> None:
    """The listener has PLAIN only; the client asks for SCRAM-SHA-256."""
    error = first_error(run, sasl_mechanism="SCRAM-SHA-256")

    asked = run.wire.requests("SaslHandshake")
    run.expect(error, "the application sees the error", seen="the record is delivered", exchanges=asked)
    run.should(error_name(error) != "LOCAL_TIMEOUT", "an error, not a time-out", seen=error, exchanges=asked)
    run.wire.assert_never("SaslAuthenticate")


@case(
    "connecting.sasl.reauthentication",
    title="A session ends while its connection is used",
    level=Level.SHOULD,
    rule="A client with SaslAuthenticate 1 logs in again on the same connection before the session's lifetime is over.",
    source=Source("KIP-368", "Proposed Changes"),
    needs=("producer", "sasl.plain"),
    cluster=_plan("PLAIN", **{"connections.max.reauth.ms": 1200}),
    decided_by=("SaslHandshake", "SaslAuthenticate"),
)
def reauthentication(run: CaseRun) -> None:
    """Sessions last 1.2 seconds. The client sends records until it has logged in again, for about 3 seconds at most."""
    producer = run.acked_producer()
    errors = [send_error(producer, "orders", "first")]
    logins = run.wire.requests("SaslAuthenticate")
    if not logins or logins[-1].api_version < _WITH_LIFETIME:
        version = f"SaslAuthenticate {logins[-1].api_version}" if logins else "no SaslAuthenticate"
        run.not_exercised(f"the client sends {version}: brokers give a lifetime from version {_WITH_LIFETIME} on")
    produced = run.wire.requests("Produce")
    run.expect(produced and not any(errors), "the first record is delivered", seen=errors, exchanges=logins)
    connection, again = produced[-1].connection_id, None
    deadline = time.monotonic() + _REAUTHENTICATION_S
    while not again and time.monotonic() < deadline:
        again = run.find_request("SaslAuthenticate", connection=connection, count=2, timeout_s=0.25)
        errors.append(send_error(producer, "orders", f"{len(errors)}"))

    logins = run.wire.requests("SaslAuthenticate")
    run.expect(not any(errors), "all records are delivered", seen=errors, exchanges=logins)
    run.expect(again, "a second login on the connection", seen="none", exchanges=logins)


@case(
    "connecting.sasl.session-expired",
    title="The broker closes connections whose sessions are over",
    level=Level.MUST,
    rule="A connection that ends because its session is over is opened again, with a new login; records are delivered.",
    source=Source("KIP-368", "Proposed Changes", "Compatibility"),
    needs=("producer", "sasl.plain"),
    cluster=_plan("PLAIN"),
    decided_by=("SaslHandshake", "SaslAuthenticate"),
)
def session_expired(run: CaseRun) -> None:
    """After the first record all sessions end: the next request closes its connection."""
    producer = run.acked_producer()
    first = send_error(producer, "orders", "first")
    run.cluster.faults.schedule("expire-sessions")

    error = send_error(producer, "orders", "second")

    logins = run.wire.requests("SaslAuthenticate")
    run.expect([first, error] == [None, None], "both records are delivered", seen=[first, error], exchanges=logins)
