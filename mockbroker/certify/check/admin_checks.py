"""Checks of the protocol itself, of settings, of admin clients, and of logins."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mockbroker.certify.check.model import TOPIC, Check, CheckRun, Problem
from mockbroker.certify.driver import messages as m
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.settings import SETTINGS_BY_KIND

#: The capability that a driver has if it opens clients of a kind.
KIND_CAPABILITIES = {
    "producer": ("producer",),
    "consumer": ("consumer.assign", "consumer.classic", "consumer.kip848"),
    "share_consumer": ("share",),
    "admin": ("admin.topics", "admin.cluster", "admin.offsets"),
}
#: A value for each setting that can be tried alone.
SAMPLES: Mapping[str, Any] = MappingProxyType(
    {
        "request_timeout_ms": 20_000, "metadata_max_age_ms": 60_000, "retry_backoff_ms": 50,
        "retry_backoff_max_ms": 500, "reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 500,
        "connections_max_idle_ms": 60_000, "socket_setup_timeout_ms": 5_000, "rebootstrap": True,
        "rebootstrap_trigger_ms": 60_000, "security_protocol": "PLAINTEXT", "acks": "all", "idempotence": True,
        "linger_ms": 1, "batch_size": 8_192, "compression": "none", "max_in_flight": 1, "retries": 3,
        "delivery_timeout_ms": 60_000, "max_request_size": 100_000, "transaction_timeout_ms": 30_000,
        "max_block_ms": 10_000, "group_id": "shop", "group_protocol": "classic", "assignors": ["range"],
        "session_timeout_ms": 10_000, "heartbeat_interval_ms": 1_000, "max_poll_interval_ms": 60_000,
        "auto_offset_reset": "earliest", "enable_auto_commit": False, "auto_commit_interval_ms": 1_000,
        "isolation_level": "read_committed", "fetch_min_bytes": 1, "fetch_max_wait_ms": 100,
        "fetch_max_bytes": 1_000_000, "max_partition_fetch_bytes": 100_000, "max_poll_records": 10,
        "client_rack": "a", "check_crcs": True, "share_acknowledgement_mode": "explicit",
        "share_acquire_mode": "batch_optimized",
    }
)  # fmt: skip


def refuse_unknown_method(run: CheckRun) -> None:
    """An unknown method is refused, and the driver goes on."""
    info = run.clients.process.call_unknown("no_such_method")
    run.expect(info == "LOCAL_UNSUPPORTED", f"an unknown method is answered with {info}; LOCAL_UNSUPPORTED is expected")


def refuse_unknown_setting(run: CheckRun) -> None:
    """A setting that the driver does not have is refused."""
    kind = _kinds(run)[0]
    settings = {"bootstrap_servers": run.cluster.bootstrap_servers.split(","), "client_id": "x", "no_such_setting": 1}
    params = m.OpenParams(client="x", kind=kind, settings=settings)
    run.expect_error(lambda: run.clients.call("open", params, m.Nothing, 10_000), "LOCAL_UNSUPPORTED")


def try_settings(run: CheckRun) -> None:
    """Each declared setting is accepted by one kind of client at least; the others may not have it."""
    refused, lacking = [], []
    for setting in run.clients.hello.settings:
        kinds = [kind for kind in _kinds(run) if setting in SETTINGS_BY_KIND[kind]]
        if setting not in SAMPLES or not kinds:
            continue
        errors = {kind: error for kind in kinds if (error := _open(run, kind, setting)) is not None}
        lacking += [f"{setting} for {kind}" for kind in errors]
        wrong = [error for error in errors.values() if error.name != "LOCAL_UNSUPPORTED"]
        if wrong or len(errors) == len(kinds):
            refused.append(f"{setting}: {wrong[0] if wrong else errors[kinds[0]]}")
    if refused:
        raise Problem(f"open refuses settings that hello lists: {'; '.join(refused)}")
    if lacking:
        run.notes.append(f"open refuses {', '.join(lacking)}")


def _open(run: CheckRun, kind: m.ClientKind, setting: str) -> ClientError | None:
    """Open a client with one setting, and close it. Returns: the error."""
    settings = {"bootstrap_servers": run.cluster.bootstrap_servers.split(","), "client_id": setting}
    if kind in ("share_consumer",):
        settings["group_id"] = "shop"
    settings[setting] = SAMPLES[setting]
    try:
        run.clients.call("open", m.OpenParams(client=setting, kind=kind, settings=settings), m.Nothing, 10_000)
        run.clients.call("close", m.ClientParams(client=setting, timeout_ms=5_000), m.CloseResult, 5_000)
    except ClientError as error:
        return error
    return None


def _kinds(run: CheckRun) -> list[m.ClientKind]:
    capabilities = set(run.clients.hello.capabilities)
    kinds: list[m.ClientKind] = ["producer", "consumer", "share_consumer", "admin"]
    found = [kind for kind in kinds if capabilities.intersection(KIND_CAPABILITIES[kind])]
    if not found:
        raise Problem("hello: no capability of any kind of client (producer, consumer..., share, admin...)")
    return found


def administer_topics(run: CheckRun) -> None:
    """Topics are created, listed, enlarged and deleted."""
    admin = run.clients.admin()
    admin.create_topic("new", partitions=2)
    run.expect(run.cluster.topics().get("new") == 2, f"create_topics: the topics are {run.cluster.topics()}")
    names = admin.list_topics()
    run.expect({"new", TOPIC} <= set(names), f"list_topics: {names} without new, {TOPIC}")
    admin.create_partitions("new", 3)
    run.expect(run.cluster.topics().get("new") == 3, "create_partitions: the topic has not 3 partitions")
    run.expect_error(lambda: admin.create_topic("new"), "TOPIC_ALREADY_EXISTS")
    admin.delete_topics("new")
    run.expect("new" not in run.cluster.topics(), "delete_topics: the topic is still there")


def describe_cluster(run: CheckRun) -> None:
    """The id of the cluster and its nodes."""
    found = run.clients.admin().describe_cluster()
    run.expect(found.cluster_id == run.cluster.cluster_id, f"describe_cluster: cluster_id {found.cluster_id!r}")
    addresses = [f"{node.host}:{node.port}" for node in found.nodes]
    expected = run.cluster.bootstrap_servers
    run.expect(addresses == [expected], f"describe_cluster: nodes {addresses} instead of {expected}")


def list_offsets(run: CheckRun) -> None:
    """Both ends of a log."""
    run.fill("a", "b")
    admin = run.clients.admin()
    found = [admin.list_offset(TOPIC, 0, "earliest"), admin.list_offset(TOPIC, 0, "latest")]
    run.expect(found == [0, 2], f"list_offsets: earliest, latest are {found} instead of [0, 2]")


def log_in(run: CheckRun) -> None:
    """A client with the settings of this listener sends a record, or lists the topics."""
    if "producer" in run.clients.hello.capabilities:
        [delivery] = run.clients.acked_producer().send(TOPIC, "a")
        run.expect(delivery.error is None, f"send: {delivery.error}")
    else:
        run.clients.admin().list_topics()


PROTOCOL_CHECKS = (
    Check("unknown method", (), refuse_unknown_method),
    Check("unknown setting", (), refuse_unknown_setting),
    Check("settings", (), try_settings),
)
ADMIN_CHECKS = (
    Check("create_topics, list_topics, create_partitions, delete_topics", ("admin.topics",), administer_topics),
    Check("describe_cluster", ("admin.cluster",), describe_cluster),
    Check("list_offsets", ("admin.offsets",), list_offsets),
    Check("SASL PLAIN", ("sasl.plain",), log_in, {"sasl": "PLAIN alice:secret"}),
    Check("SASL SCRAM", ("sasl.scram",), log_in, {"sasl": "SCRAM-SHA-512 alice:secret"}),
    Check("TLS", ("tls",), log_in, {"tls": "auto"}),
)
