"""docs/not-supported.md, generated from ROUTES and the notes of this module."""

from __future__ import annotations

from kwire import schema
from mockbroker.handlers import ROUTES

#: Parts that served APIs lack, and subjects without an API: subject, missing part, behaviour instead.
NOTES: tuple[tuple[str, str, str], ...] = (
    ("Persisters of share groups", "other than Kafka's default and no-op", "rejected with an error"),
    (
        "Data directories",
        "share editions, the persister `control-records`, and several log directories for one node",
        "the first two are rejected with `--data-dir`; `log.dirs` has no effect beside it",
    ),
    ("SASL mechanisms", "GSSAPI (Kerberos), and callback handlers in Java", "rejected at startup"),
    (
        "OAUTHBEARER",
        "a JWKS over https: or of another machine, and token validators in Java",
        "rejected at startup; a file: URL and http: URLs of this machine work",
    ),
    ("TLS key stores", "JCEKS and BKS", "rejected when the listener is configured; PEM, PKCS12 and JKS work"),
    (
        "Principals",
        "`principal.builder.class`",
        "Kafka's default builder: SASL users, and names of certificates by `ssl.principal.mapping.rules`",
    ),
    ("Client metrics", "receivers in Java", "clients may push if `metric.reporters` names any class but JmxReporter"),
    (
        "Topology descriptions of streams groups",
        "plugins in Java, and so their failures: errors 134 and 135, and status 2 of a description",
        "kept in memory if `group.streams.topology.description.plugin.class` names any class",
    ),
    (
        "Assignors of streams groups",
        "those in Java, and warm-up tasks",
        "`group.streams.assignors` may only name `sticky`, which in Kafka 4.4.0 assigns no warm-up tasks either",
    ),
    ("Authorizers", "other than Kafka's standard one", "`authorizer.class.name` is accepted and has no effect"),
    (
        "Quotas",
        "`client.quota.callback.class`, and the rates as metrics",
        "Kafka's default callback; throttle times are in the responses",
    ),
    (
        "Limits of connections",
        "`max.connections.per.ip.overrides`, and `max.connections` of a listener",
        "`max.connections` of a broker lets further connections wait, `max.connections.per.ip` closes them",
    ),
    ("IP quotas", "host names that need DNS", "rejected; addresses and `localhost` are accepted"),
    (
        "Log directories",
        "sizes of volumes, future logs, new logs outside the first directory",
        "-1 for total and usable bytes; a log is moved immediately",
    ),
    (
        "The metadata quorum",
        "separate controllers, the metadata log, other voters, and at the controller's listener the APIs between nodes",
        "one voter, in addition to the first node, whose offsets count changes; no voter can join by kraft.version 1; "
        "the controller's listener (`--controller-port`) belongs to the first node, and lists the APIs of clients",
    ),
    (
        "Broker loggers",
        "the effect of their levels",
        "levels are stored and described, but do not change the log; the command has its own log level",
    ),
    (
        "Replication",
        "other replica selectors than Kafka's rack-aware one; followers that fetch and can be slow, unless "
        "`mockbroker.replication=real`",
        "a replica on a running broker has every record immediately; one on a stopped broker keeps its records",
    ),
    (
        "Throttled replication",
        "`leader.replication.throttled.rate` and the like",
        "a reassignment ends immediately, with `mockbroker.replication=real` when the new replicas have fetched",
    ),
    (
        "Racks",
        "replicas and assignments that are spread over racks",
        "`mockbroker.racks` gives each broker its rack, for clients and for `replica.selector.class`",
    ),
    (
        "Message formats before magic 2",
        "in a data directory, and rewritten by compaction; as in Kafka 4, producers cannot write them",
        "`Cluster.append_old_messages` adds them to a log in memory; compaction leaves them as they are",
    ),
    ("Tiered storage", "`remote.log.storage.system.enable`", "all segments are local"),
    (
        "Older releases (`--versions`)",
        "API versions that Kafka 4 has removed, APIs between brokers, feature levels before 4.0",
        "not listed, and refused; the behaviour is that of `--release`",
    ),
    (
        "The proxy",
        "faults of nodes, chaos profiles, TLS for its clients, SaslHandshake v0, and the topics of fetch sessions",
        "rejected with an error; a fault of a topic acts on the fetches that name it",
    ),
    (
        "Replays",
        "connections with SCRAM, GSSAPI or OAUTHBEARER logins; other places of leaders than in the capture",
        "named before anything is sent; requests go to the node that had them",
    ),
)

_HEAD = """<!-- Generated by `python -m tools.reference` from ROUTES and its own notes; do not edit. -->

# Not supported

A request for an API that is not supported closes the connection, as in Kafka, and the reason is logged. ApiVersions
does not list such an API, so clients do not use it. The codec has every message of Kafka 4.4.
"""


def render_page() -> str:
    """The whole page, Markdown."""
    apis = [
        f"| {spec.api_key} | {spec.name.removesuffix('Request')} | {spec.versions} |"
        for spec in sorted(_missing(), key=lambda spec: spec.api_key or 0)
    ]
    head = ["| key | API | versions in Kafka 4.4 |", "|---|---|---|"]
    lines = [_HEAD, "## APIs", "", *([*head, *apis] if apis else ["All client APIs of Kafka 4.4 are supported."])]
    lines += ["", "## Other subjects", "", "| subject | missing | instead |", "|---|---|---|"]
    lines += [f"| {subject} | {missing} | {instead} |" for subject, missing, instead in NOTES]
    return "\n".join(lines) + "\n"


def _missing() -> list[schema.MessageSpec]:
    specs = (schema.load_schema(name) for name in schema.message_names() if name.endswith("Request"))
    return [spec for spec in specs if spec.api_key not in ROUTES and "broker" in spec.listeners and spec.versions]
