"""The table of all operations of the API."""

from __future__ import annotations

from mockbroker.control.models import exchanges as events
from mockbroker.control.operations import ClusterContext, ControlApi, ControlContext, Operation
from mockbroker.control.resources import (
    certificates,
    clusters,
    event_stream,
    exchange_bytes,
    exchanges,
    groups,
    topics,
    waits,
)
from mockbroker.control.resources import faults as fault_functions
from mockbroker.faults.cluster_model import ClusterFault
from mockbroker.faults.model import Fault, FaultFile

#: The subjects, in the order of the description.
TAGS = {
    "cluster": "The cluster as a whole",
    "nodes": "Brokers",
    "tls": "Certificates of a cluster with `--tls auto`",
    "topics": "Topics, partitions and their leaders",
    "records": "Records, without a client library",
    "groups": "Groups of every type, and their coordinators",
    "share groups": "Share partitions with their records in flight",
    "faults": "What goes wrong on purpose",
    "clock": "The cluster's clock",
    "waits": "Waits for a state, with a limit",
    "history": "Requests and responses on the wire, and events",
}
#: The bodies of events in addition to those of operations.
EVENT_MODELS = (events.EventStart, events.EventsLost, events.Removed)

_PARTITION = "/v1/topics/{topic}/partitions/{partition}"
_SHARE_PARTITION = "/v1/groups/{groupId}/share-partitions/{topic}/{partition}"

OPERATIONS = (
    Operation("GET", "/v1/cluster", clusters.get_cluster, "cluster"),
    Operation("GET", "/v1/cluster/client-settings", clusters.get_client_settings, "cluster"),
    Operation("POST", "/v1/cluster/reset", clusters.reset_cluster, "cluster", status=204),
    Operation("POST", "/v1/cluster/shutdown", clusters.shut_down, "cluster", status=202),
    Operation("GET", "/v1/nodes", clusters.list_nodes, "nodes"),
    Operation("POST", "/v1/nodes", clusters.add_node, "nodes", status=201, location="/v1/nodes/{node}"),
    Operation("GET", "/v1/nodes/{node}", clusters.get_node, "nodes"),
    Operation("POST", "/v1/nodes/{node}/stop", clusters.stop_node, "nodes"),
    Operation("POST", "/v1/nodes/{node}/kill", clusters.kill_node, "nodes"),
    Operation("POST", "/v1/nodes/{node}/start", clusters.start_node, "nodes"),
    Operation("POST", "/v1/nodes/{node}/restart", clusters.restart_node, "nodes"),
    Operation("POST", "/v1/nodes/{node}/pause", clusters.pause_node, "nodes"),
    Operation("POST", "/v1/nodes/{node}/resume", clusters.resume_node, "nodes"),
    Operation("POST", "/v1/nodes/{node}/versions", clusters.set_node_versions, "nodes"),
    Operation("GET", "/v1/listeners", clusters.list_listeners, "cluster"),
    Operation("GET", "/v1/tls", certificates.get_authority, "tls"),
    Operation("POST", "/v1/tls/certificates", certificates.issue_certificate, "tls", status=201),
    Operation("POST", "/v1/tls/rotate", certificates.rotate_certificate, "tls"),
    Operation("GET", "/v1/topics", topics.list_topics, "topics"),
    Operation("POST", "/v1/topics", topics.create_topic, "topics", status=201, location="/v1/topics/{name}"),
    Operation("GET", "/v1/topics/{topic}", topics.get_topic, "topics"),
    Operation("DELETE", "/v1/topics/{topic}", topics.delete_topic, "topics", status=204),
    Operation("POST", f"{_PARTITION}/move-leader", topics.move_leader, "topics"),
    Operation("GET", "/v1/topics/{topic}/records", topics.read_records, "records"),
    Operation("POST", "/v1/topics/{topic}/records", topics.produce_records, "records", status=201),
    Operation("POST", f"{_PARTITION}/old-messages", topics.append_old_messages, "records", status=201),
    Operation("GET", "/v1/groups", groups.list_groups, "groups"),
    Operation("GET", "/v1/groups/{groupId}", groups.get_group, "groups"),
    Operation("DELETE", "/v1/groups/{groupId}", groups.delete_group, "groups", status=204),
    Operation("GET", "/v1/coordinators/{kind}/{key}", groups.get_coordinator, "groups"),
    Operation("POST", "/v1/coordinators/{kind}/{key}/move", groups.move_coordinator, "groups"),
    Operation("GET", "/v1/groups/{groupId}/share-partitions", groups.list_share_partitions, "share groups"),
    Operation("GET", _SHARE_PARTITION, groups.get_share_partition, "share groups"),
    Operation("GET", "/v1/faults", fault_functions.list_faults, "faults"),
    Operation(
        "POST",
        "/v1/faults",
        fault_functions.add_faults,
        "faults",
        status=201,
        body_types=(Fault, ClusterFault, FaultFile),
    ),
    Operation("DELETE", "/v1/faults", fault_functions.remove_all_faults, "faults", status=204),
    Operation("GET", "/v1/faults/misses", fault_functions.list_fault_misses, "faults"),
    Operation("GET", "/v1/faults/{number}", fault_functions.get_fault, "faults"),
    Operation("DELETE", "/v1/faults/{number}", fault_functions.remove_fault, "faults"),
    Operation("POST", "/v1/faults/{number}/hold", fault_functions.hold_requests, "faults"),
    Operation("POST", "/v1/faults/{number}/release", fault_functions.release_requests, "faults"),
    Operation("GET", "/v1/chaos", fault_functions.list_chaos, "faults"),
    Operation("POST", "/v1/chaos", fault_functions.start_chaos, "faults", status=201, location="/v1/chaos/{number}"),
    Operation("GET", "/v1/chaos/profiles", fault_functions.list_chaos_profiles, "faults"),
    Operation("GET", "/v1/chaos/{number}", fault_functions.get_chaos, "faults"),
    Operation("DELETE", "/v1/chaos/{number}", fault_functions.stop_chaos, "faults"),
    Operation("GET", "/v1/clock", clusters.get_clock, "clock"),
    Operation("POST", "/v1/clock/freeze", clusters.freeze_clock, "clock"),
    Operation("POST", "/v1/clock/resume", clusters.resume_clock, "clock"),
    Operation("POST", "/v1/clock/advance", clusters.advance_clock, "clock"),
    Operation("POST", "/v1/clock/auto", clusters.automate_clock, "clock"),
    Operation("POST", "/v1/waits/group", waits.wait_for_group, "waits"),
    Operation("POST", "/v1/waits/share-members", waits.wait_for_share_members, "waits"),
    Operation("POST", "/v1/waits/node", waits.wait_for_node, "waits"),
    Operation("POST", "/v1/waits/offset", waits.wait_for_offset, "waits"),
    Operation("POST", "/v1/waits/request", waits.wait_for_request, "waits"),
    Operation("POST", "/v1/waits/held", waits.wait_for_held, "waits"),
    Operation("GET", "/v1/exchanges", exchanges.list_exchanges, "history"),
    Operation("GET", "/v1/exchanges/{number}", exchanges.get_exchange, "history"),
    Operation("GET", "/v1/exchanges/{number}/bytes", exchange_bytes.get_exchange_bytes, "history"),
    Operation("GET", "/v1/conformance-notes", exchanges.list_conformance_notes, "history"),
    Operation(
        "GET",
        "/v1/events",
        event_stream.stream_events,
        "history",
        media_type="text/event-stream",
        headers=(("Last-Event-ID", "lastEventId"),),
    ),
)

#: The operations that clusters and proxies have, by the annotations of their functions.
SHARED_OPERATIONS = tuple(operation for operation in OPERATIONS if operation.signature.context is ControlContext)

CLUSTER_API = ControlApi(
    OPERATIONS,
    ClusterContext,
    events.EVENT_KINDS,
    "Controls a mockbroker cluster: topics, records, groups, share groups, faults, the clock, waits, and the history "
    "of requests. Errors are problems by RFC 9457, with a `type` that stays the same.",
)
