"""What makes a random body meaningful for its API: epochs of sessions, first heartbeats, ranges in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tools.oracle.fuzz.request_builder import RequestBuilder
from tools.oracle.fuzz.script_names import Topic

Json = Any
Body = dict[str, Json]

_SESSION_TIMEOUTS = (10_000, 30_000)
_BROKER, _LOGGER = 4, 8


def shape_body(builder: RequestBuilder, body: Body) -> None:
    """Change a body in place, by the rules of its API."""
    shaper = _SHAPERS.get(builder.api)
    if shaper is not None:
        shaper(builder, body)


def _shape_join_group(builder: RequestBuilder, body: Body) -> None:
    body["sessionTimeoutMs"] = builder.rng.choice(_SESSION_TIMEOUTS)
    if builder.version == 0:
        body["sessionTimeoutMs"] = 1000  # It is the time limit of the rebalance, too.
    if builder.state.is_likely(0.03):
        body["sessionTimeoutMs"] = builder.rng.choice([0, -1, 499, 10**8])
    if not body["protocols"] and builder.state.is_likely(0.9):
        body["protocols"] = [{"name": "range", "metadata": "AAAA"}]
    if builder.state.is_likely(0.95):
        body["protocols"] = list({row["name"]: row for row in body["protocols"]}.values())
    if builder.state.is_likely(0.75):
        body["groupInstanceId"] = None
    _drop_unknown(body, builder)


def _shape_sync_group(builder: RequestBuilder, body: Body) -> None:
    body["assignments"] = [
        {"memberId": f"${{{member}}}", "assignment": builder.rng.choice(["AAEC", "AAED"])}
        for member in ("j1", "j2")[: builder.rng.choice([0, 1, 1, 2])]
    ]


def _shape_consumer_heartbeat(builder: RequestBuilder, body: Body) -> None:
    _shape_heartbeat(builder, body)
    if body["memberEpoch"] == 0:
        topics = builder.state.topics or [Topic("t-${run}", "${t}", 2)]
        count = builder.rng.randrange(1, len(topics) + 1)
        body["subscribedTopicNames"] = [topic.name for topic in builder.rng.sample(topics, count)]
        body["topicPartitions"] = []
        if builder.state.is_likely(0.8):
            body.pop("subscribedTopicRegex", None)
    elif builder.state.is_likely(0.6):
        for name in ("subscribedTopicNames", "topicPartitions", "subscribedTopicRegex", "serverAssignor"):
            body.pop(name, None)
        body["rebalanceTimeoutMs"] = -1
    if builder.version == 0 and body["memberEpoch"] == 0 and builder.state.is_likely(0.5):
        body["memberId"] = ""


def _shape_share_heartbeat(builder: RequestBuilder, body: Body) -> None:
    _shape_heartbeat(builder, body)
    if body["memberEpoch"] == 0 and builder.state.topics:
        body["subscribedTopicNames"] = [builder.rng.choice(builder.state.topics).name]
    elif builder.state.is_likely(0.6):
        body["subscribedTopicNames"] = None


def _shape_heartbeat(builder: RequestBuilder, body: Body) -> None:
    """Members join first: epoch 0 with all fields."""
    joined = builder.state.session_epochs
    key = f"{builder.focus.group}/{body['memberId']}"
    if key not in joined and builder.state.is_likely(0.85):
        body["memberEpoch"] = 0
        joined[key] = 1
    elif builder.state.is_likely(0.05):
        body["memberEpoch"] = builder.rng.choice([-1, -1, -2, 0])
        if body["memberEpoch"] == -1:
            joined.pop(key, None)


def _shape_streams_heartbeat(builder: RequestBuilder, body: Body) -> None:
    _shape_heartbeat(builder, body)
    changed = ("topology", "activeTasks", "standbyTasks", "warmupTasks")
    if body["memberEpoch"] == 0:
        body["topology"] = _topology(builder)
        body["activeTasks"] = body["standbyTasks"] = body["warmupTasks"] = []
        body["processId"] = body["processId"] or "process-1"
        body["clientTags"] = body.get("clientTags") or []
    elif builder.state.is_likely(0.7):
        for name in (*changed, "processId", "clientTags", "taskOffsets", "taskEndOffsets", "userEndpoint"):
            body.pop(name, None)
        body["rebalanceTimeoutMs"] = -1
    elif body.get("topology") is not None:
        body["topology"] = _topology(builder)


def _topology(builder: RequestBuilder) -> Body:
    rng = builder.rng
    topics = [topic.name for topic in builder.state.topics] or ["t-${run}"]
    changelog = {"name": "r-${run}-store-changelog", "partitions": 0, "replicationFactor": 1, "topicConfigs": []}
    sources = sorted(rng.sample(topics, rng.randrange(1, len(topics) + 1)))
    if rng.random() < 0.1:
        sources.append("none-${run}")
    first = {
        "subtopologyId": "0",
        "sourceTopics": sources,
        "sourceTopicRegex": [],
        "stateChangelogTopics": [changelog] if rng.random() < 0.3 else [],
        "repartitionSinkTopics": [],
        "repartitionSourceTopics": [],
        "copartitionGroups": [],
    }
    second = {**first, "subtopologyId": "1", "sourceTopics": topics[:1], "stateChangelogTopics": []}
    if rng.random() < 0.2:
        _add_repartition(builder, first)
    return {
        "epoch": rng.choice([0, 0, 0, 1, -1]),
        "subtopologies": [first, second][: rng.choice([1, 1, 2])],
    }


def _add_repartition(builder: RequestBuilder, subtopology: Body) -> None:
    """Repartition topics, expressions and copartition groups, which fit together or not."""
    rng, name = builder.rng, "r-${run}-a-repartition"
    source = {
        "name": rng.choice([name, name, name, "t-${run}", "bad name!", ""]),
        "partitions": rng.choice([0, 0, 1, 2]),
        "replicationFactor": rng.choice([0, 1, 5]),
        "topicConfigs": [],
    }
    subtopology["repartitionSourceTopics"] = [source] * rng.choice([0, 1, 1, 1, 2])
    subtopology["repartitionSinkTopics"] = rng.choice([[], [name], ["none-${run}"], [""]])
    subtopology["sourceTopicRegex"] = rng.choice([[], [], ["[tu]-${run}"], ["("]])
    group = {
        "sourceTopics": rng.choice([[0], [0, 1], [7], []]),
        "sourceTopicRegex": [],
        "repartitionSourceTopics": rng.choice([[], [0], [3]]),
    }
    subtopology["copartitionGroups"] = rng.choice([[], [], [group]])


def _shape_share_fetch(builder: RequestBuilder, body: Body) -> None:
    state, rng = builder.state, builder.rng
    body["groupId"] = "s-${run}" if state.is_likely(0.96) else body["groupId"]
    member = builder.focus.member if builder.focus.member in ("s1", "s2") else "s1"
    body["memberId"] = member if state.is_likely(0.97) else ""
    epoch = state.session_epochs.get(f"share/{member}", 0)
    body["shareSessionEpoch"] = epoch
    state.session_epochs[f"share/{member}"] = epoch + 1
    if state.is_likely(0.06):
        body["shareSessionEpoch"] = rng.choice([-1, 0, epoch + 1, -2, 1])
        state.session_epochs[f"share/{member}"] = body["shareSessionEpoch"] + 1
    for topic in body.get("topics") or []:
        for row in topic["partitions"]:
            row["acknowledgementBatches"] = _share_batches(builder) if epoch and state.is_likely(0.5) else []
    if "isRenewAck" in body and state.is_likely(0.9):
        body["isRenewAck"] = False
    if epoch == 0 and "maxWaitMs" in body:
        body["forgottenTopicsData"] = []


def _share_batches(builder: RequestBuilder) -> list[Body]:
    rng, first, batches = builder.rng, 0, []
    for _ in range(rng.choice([1, 1, 1, 2])):
        first += rng.randrange(3)
        last = first + rng.randrange(3)
        types = [rng.choice([0, 1, 1, 2, 2, 3]) for _ in range(last - first + 1)]
        batches.append({"firstOffset": first, "lastOffset": last, "acknowledgeTypes": rng.choice([types, types[:1]])})
        first = last + 1
    return batches


def _shape_fetch(builder: RequestBuilder, body: Body) -> None:
    state, rng = builder.state, builder.rng
    if "sessionId" in body:
        epoch = state.session_epochs.get("fetch", 0)
        kind = rng.random()
        if kind < 0.35:
            body["sessionId"], body["sessionEpoch"] = 0, -1
        elif kind < 0.55 or not epoch:
            body["sessionId"], body["sessionEpoch"] = 0, 0
            state.session_epochs["fetch"] = 1
        else:
            body["sessionId"], body["sessionEpoch"] = "${fetch_session}", epoch
            state.session_epochs["fetch"] = epoch + 1
            if state.is_likely(0.08):
                body["sessionEpoch"] = rng.choice([-1, epoch + 1, epoch - 1, -2])
            if state.is_likely(0.5):
                body["topics"] = []
        if body["sessionEpoch"] in (0, -1):
            body["forgottenTopicsData"] = []
    if state.is_likely(0.9):
        body.pop("replicaState", None)


def _shape_configs(builder: RequestBuilder, body: Body) -> None:
    """A change of a broker's configuration is only validated: other sequences would see it."""
    if any(row["resourceType"] in (_BROKER, _LOGGER) for row in body["resources"]):
        body["validateOnly"] = True
    if builder.api == "AlterConfigs":  # A real broker sends no response to double resources (docs/differences.md).
        body["resources"] = list({row["resourceName"]: row for row in body["resources"]}.values())


def _shape_add_partitions(builder: RequestBuilder, body: Body) -> None:
    if body.get("transactions") == []:
        row = {"transactionalId": "x-${run}", "producerId": "${pid_x}", "producerEpoch": "${pid_x_e}", "topics": []}
        body["transactions"] = [row]


def _shape_describe_configs(builder: RequestBuilder, body: Body) -> None:
    for row in body["resources"]:
        if row["resourceType"] in (_BROKER, _LOGGER) and not row["configurationKeys"]:
            row["configurationKeys"] = ["log.retention.hours"]


def _shape_create_topics(builder: RequestBuilder, body: Body) -> None:
    for row in body["topics"]:
        if row["name"].endswith("${run}") and builder.state.is_likely(0.7):
            row["name"] = builder.rng.choice(["new-${run}", "new.${run}", "new_${run}"])
        if builder.state.is_likely(0.8):
            row["assignments"] = []
        else:
            row["numPartitions"] = row["replicationFactor"] = -1
            row["assignments"] = row["assignments"] or [{"partitionIndex": 0, "brokerIds": [0]}]


def _shape_delete_topics(builder: RequestBuilder, body: Body) -> None:
    for row in body.get("topics") or []:
        if builder.state.is_likely(0.9):  # Either a name or an id.
            if row["name"] is None:
                row["topicId"] = builder.rng.choice(["${t}", "${u}", "${c}", "${uuid:nowhere}"])
            else:
                row["topicId"] = "A" * 22


def _shape_metadata(builder: RequestBuilder, body: Body) -> None:
    for row in body.get("topics") or []:
        if "topicId" in row and row["name"] is not None and builder.state.is_likely(0.9):
            row["topicId"] = "A" * 22
    if "allowAutoTopicCreation" in body:
        body["allowAutoTopicCreation"] = False


def _shape_describe_topic_partitions(builder: RequestBuilder, body: Body) -> None:
    """Without names all topics are described, those of other sequences included."""
    if not body["topics"]:
        body["topics"] = [{"name": topic.name} for topic in builder.state.topics] or [{"name": "none-${run}"}]


def _shape_produce(builder: RequestBuilder, body: Body) -> None:
    if builder.state.is_likely(0.95):
        body["transactionalId"] = None


def _shape_quotas(builder: RequestBuilder, body: Body) -> None:
    """Entities have names of the sequence: a default entity belongs to all."""
    for entry in body["entries"]:
        if not entry["entity"]:
            body["validateOnly"] = True
        for entity in entry["entity"]:
            if entity["entityName"] in (None, ""):
                body["validateOnly"] = True


def _shape_delete_acls(builder: RequestBuilder, body: Body) -> None:
    """Filters name a resource or principal of the sequence."""
    for row in body["filters"]:
        row["resourceNameFilter"] = row["resourceNameFilter"] or "acl-${run}"


def _shape_elect_leaders(builder: RequestBuilder, body: Body) -> None:
    body["topicPartitions"] = body["topicPartitions"] or [{"topic": "t-${run}", "partitions": [0]}]


def _shape_list_transactions(builder: RequestBuilder, body: Body) -> None:
    if "producerIdFilters" in body and builder.state.is_likely(0.5):
        body["producerIdFilters"] = []


def _shape_update_features(builder: RequestBuilder, body: Body) -> None:
    """Version 0 has no validateOnly: the updates are such that are refused."""
    if builder.version == 0:
        for row in body["featureUpdates"]:
            row["feature"] = "nosuch"


def _shape_init_producer_id(builder: RequestBuilder, body: Body) -> None:
    if builder.version >= 3 and builder.state.is_likely(0.7):
        body["producerId"] = body["producerEpoch"] = -1
    if builder.state.is_likely(0.15):
        body["transactionalId"] = None


def _shape_write_share_state(builder: RequestBuilder, body: Body) -> None:
    """A batch that ends before it begins stops a real share coordinator: it never responds again."""
    for topic in body["topics"]:
        for row in topic["partitions"]:
            for batch in row["stateBatches"]:
                batch["lastOffset"] = max(batch["firstOffset"], batch["lastOffset"])


def _shape_partition_reassignments(builder: RequestBuilder, body: Body) -> None:
    if body["topics"] is None:
        body["topics"] = [{"name": "t-${run}", "partitionIndexes": [0]}]


def _drop_unknown(body: Body, builder: RequestBuilder) -> None:
    """Fields that a version does not have are left out of the body."""
    known = {field.json_name for field in builder.spec.fields if builder.version in field.versions}
    for name in [name for name in body if name not in known]:
        del body[name]


_SHAPERS: Mapping[str, Callable[[RequestBuilder, Body], None]] = {
    "AddPartitionsToTxn": _shape_add_partitions,
    "AlterClientQuotas": _shape_quotas,
    "AlterConfigs": _shape_configs,
    "ConsumerGroupHeartbeat": _shape_consumer_heartbeat,
    "CreateTopics": _shape_create_topics,
    "DeleteAcls": _shape_delete_acls,
    "DeleteTopics": _shape_delete_topics,
    "DescribeConfigs": _shape_describe_configs,
    "DescribeTopicPartitions": _shape_describe_topic_partitions,
    "ElectLeaders": _shape_elect_leaders,
    "Fetch": _shape_fetch,
    "IncrementalAlterConfigs": _shape_configs,
    "InitProducerId": _shape_init_producer_id,
    "JoinGroup": _shape_join_group,
    "ListPartitionReassignments": _shape_partition_reassignments,
    "ListTransactions": _shape_list_transactions,
    "Metadata": _shape_metadata,
    "Produce": _shape_produce,
    "ShareAcknowledge": _shape_share_fetch,
    "ShareFetch": _shape_share_fetch,
    "ShareGroupHeartbeat": _shape_share_heartbeat,
    "StreamsGroupHeartbeat": _shape_streams_heartbeat,
    "SyncGroup": _shape_sync_group,
    "UpdateFeatures": _shape_update_features,
    "WriteShareGroupState": _shape_write_share_state,
}
