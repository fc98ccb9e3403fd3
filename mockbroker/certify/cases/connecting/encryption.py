"""TLS: certificates, names, and SASL over it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import error_name, first_error
from mockbroker.certify.cases.tcp_relay import relay
from mockbroker.security.certificates import create_certificates

_TLS = ClusterPlan(topics={"orders": 1}, tls="auto")
_NAMES = Source("KIP-294", "Proposed Changes", "kafka-clients SslConfigs.SSL_ENDPOINT_IDENTIFICATION_ALGORITHM_CONFIG")
_NEEDS = ("producer", "tls")


@case(
    "connecting.tls.verified",
    title="A certificate of a known authority",
    level=Level.MUST,
    rule="A client connects to a broker whose certificate its authorities have signed.",
    source=Source("Kafka documentation", "ssl.truststore.location", "KIP-651"),
    needs=_NEEDS,
    cluster=_TLS,
    decided_by=("ApiVersions", "Produce"),
)
def verified(run: CaseRun) -> None:
    """The listener is SSL; the client has the authority of its certificate."""
    error = first_error(run)

    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.last_exchanges())


@case(
    "connecting.tls.unknown-authority",
    title="A certificate of an unknown authority",
    level=Level.MUST,
    rule="A client refuses a certificate that none of its authorities has signed, and sends nothing.",
    source=Source("Kafka documentation", "ssl.truststore.location", "kafka-clients SslAuthenticationException"),
    needs=_NEEDS,
    cluster=_TLS,
    decided_by=("ApiVersions", "Produce"),
)
def unknown_authority(run: CaseRun) -> None:
    """The listener is SSL; the client has another authority than that of its certificate."""
    with tempfile.TemporaryDirectory(prefix="mockbroker-") as folder:
        other = create_certificates(Path(folder))
        error = first_error(run, tls_ca_file=str(other.authority))

    run.expect(error, "the application sees an error", seen="the record is delivered")
    run.expect(not run.wire.requests(), "no request", exchanges=run.last_exchanges())
    run.should(error_name(error) == "LOCAL_AUTHENTICATION", "LOCAL_AUTHENTICATION", seen=error)


@case(
    "connecting.tls.wrong-name",
    title="A certificate of another host",
    level=Level.MUST,
    rule="A client compares the host that it connects to with the certificate, refuses another one, and sends nothing.",
    source=_NAMES,
    needs=_NEEDS,
    cluster=_TLS,
    quick=True,
    decided_by=("ApiVersions", "Produce"),
)
def wrong_name(run: CaseRun) -> None:
    """The bootstrap address is 127.0.0.2, which forwards to the broker; its certificate is for 127.0.0.1."""
    host, _, port = run.cluster.bootstrap_servers.partition(":")
    with relay("127.0.0.2", (host, int(port))) as relayed:
        error = first_error(run, bootstrap_servers=[f"127.0.0.2:{relayed}"])

    run.expect(error, "the application sees an error", seen="the record is delivered", exchanges=run.last_exchanges())
    run.expect(not run.wire.requests(), "no request", exchanges=run.last_exchanges())
    run.should(error_name(error) == "LOCAL_AUTHENTICATION", "LOCAL_AUTHENTICATION", seen=error)


@case(
    "connecting.tls.host-name",
    title="The bootstrap server by its name",
    level=Level.MUST,
    rule="A client accepts a certificate that has the name by which it connects.",
    source=_NAMES,
    needs=_NEEDS,
    cluster=_TLS,
    decided_by=("ApiVersions", "Produce"),
)
def host_name(run: CaseRun) -> None:
    """The bootstrap address is localhost; the certificate is for localhost and 127.0.0.1."""
    port = run.cluster.bootstrap_servers.partition(":")[2]

    error = first_error(run, bootstrap_servers=[f"localhost:{port}"])

    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.last_exchanges())


@case(
    "connecting.tls.plain-client",
    title="A client without TLS at a TLS listener",
    level=Level.MUST,
    rule="A client that gets no answer that it can read reports an error, and is not blocked for ever.",
    source=Source("Kafka protocol guide", "Network"),
    needs=_NEEDS,
    cluster=_TLS,
    decided_by=("ApiVersions", "Produce"),
)
def plain_client(run: CaseRun) -> None:
    """The listener is SSL; the client has security_protocol PLAINTEXT."""
    error = first_error(run, security_protocol="PLAINTEXT")

    run.expect(error, "an error", seen="the record is delivered")
    run.expect(not run.wire.requests(), "no request is understood", exchanges=run.last_exchanges())


@case(
    "connecting.tls.sasl",
    title="Login by SCRAM over TLS",
    level=Level.MUST,
    rule="With SASL_SSL the client logs in over the encrypted connection.",
    source=Source("Kafka protocol guide", "SASL Authentication Sequence"),
    needs=("producer", "tls", "sasl.scram"),
    cluster=ClusterPlan(topics={"orders": 1}, tls="auto", sasl="SCRAM-SHA-512 alice:alice-secret"),
    decided_by=("ApiVersions", "Produce"),
)
def over_tls(run: CaseRun) -> None:
    """The listener is SASL_SSL with SCRAM-SHA-512 and the user alice."""
    error = first_error(run)

    produced = run.wire.requests("Produce")
    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.last_exchanges())
    principals = {each.principal for each in produced}
    run.expect(principals == {"User:alice"}, "User:alice", seen=principals, exchanges=produced)
