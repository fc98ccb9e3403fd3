"""A driver of `mockbroker certify` for librdkafka, by confluent-kafka: JSON lines on stdin and stdout (docs/certify-drivers.md)."""

import json
import sys
import time

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

CAPABILITIES = """producer producer.idempotence producer.transactions consumer.assign consumer.classic consumer.classic.cooperative
consumer.classic.static consumer.kip848 consumer.kip848.regex consumer.pattern consumer.rebalance_events consumer.seek consumer.pause
consumer.offsets share share.explicit share.commit share.callback share.delivery_count admin.topics admin.cluster admin.offsets
sasl.plain sasl.scram tls compression.gzip compression.snappy compression.lz4 compression.zstd""".split()
SETTINGS = {
    "bootstrap_servers": "bootstrap.servers", "client_id": "client.id", "request_timeout_ms": "socket.timeout.ms",
    "metadata_max_age_ms": "topic.metadata.refresh.interval.ms", "retry_backoff_ms": "retry.backoff.ms",
    "retry_backoff_max_ms": "retry.backoff.max.ms", "reconnect_backoff_ms": "reconnect.backoff.ms",
    "reconnect_backoff_max_ms": "reconnect.backoff.max.ms", "connections_max_idle_ms": "connections.max.idle.ms",
    "socket_setup_timeout_ms": "socket.connection.setup.timeout.ms", "rebootstrap": "metadata.recovery.strategy",
    "rebootstrap_trigger_ms": "metadata.recovery.rebootstrap.trigger.ms", "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism", "username": "sasl.username", "password": "sasl.password", "tls_ca_file": "ssl.ca.location",
    "acks": "acks", "idempotence": "enable.idempotence", "linger_ms": "linger.ms", "batch_size": "batch.size",
    "compression": "compression.type", "max_in_flight": "max.in.flight.requests.per.connection", "retries": "retries",
    "delivery_timeout_ms": "delivery.timeout.ms", "max_request_size": "message.max.bytes", "transactional_id": "transactional.id",
    "transaction_timeout_ms": "transaction.timeout.ms", "group_id": "group.id", "group_protocol": "group.protocol",
    "group_instance_id": "group.instance.id", "assignors": "partition.assignment.strategy", "remote_assignor": "group.remote.assignor",
    "session_timeout_ms": "session.timeout.ms", "heartbeat_interval_ms": "heartbeat.interval.ms",
    "max_poll_interval_ms": "max.poll.interval.ms", "auto_offset_reset": "auto.offset.reset", "enable_auto_commit": "enable.auto.commit",
    "auto_commit_interval_ms": "auto.commit.interval.ms", "isolation_level": "isolation.level", "fetch_min_bytes": "fetch.min.bytes",
    "fetch_max_wait_ms": "fetch.wait.max.ms", "fetch_max_bytes": "fetch.max.bytes",
    "max_partition_fetch_bytes": "max.partition.fetch.bytes", "client_rack": "client.rack", "check_crcs": "check.crcs",
    "share_acknowledgement_mode": "share.acknowledgement.mode", "max_poll_records": "max.poll.records",
}  # fmt: skip
KAFKA_NAMES = {
    "UNKNOWN": "UNKNOWN_SERVER_ERROR", "INVALID_MSG": "CORRUPT_MESSAGE", "UNKNOWN_TOPIC_OR_PART": "UNKNOWN_TOPIC_OR_PARTITION",
    "INVALID_MSG_SIZE": "INVALID_FETCH_SIZE", "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE", "STALE_CTRL_EPOCH": "STALE_CONTROLLER_EPOCH",
    "TOPIC_EXCEPTION": "INVALID_TOPIC_EXCEPTION", "ERR_105?": "TRANSACTIONAL_ID_NOT_FOUND", "ERR_106?": "FETCH_SESSION_TOPIC_ID_ERROR",
    "_TIMED_OUT": "LOCAL_TIMEOUT", "_MSG_TIMED_OUT": "LOCAL_TIMEOUT", "_TIMED_OUT_QUEUE": "LOCAL_TIMEOUT",
    "_AUTHENTICATION": "LOCAL_AUTHENTICATION", "_SSL": "LOCAL_AUTHENTICATION", "_STATE": "LOCAL_ILLEGAL_STATE",
    "_INVALID_ARG": "LOCAL_ILLEGAL_STATE", "_CONFLICT": "LOCAL_ILLEGAL_STATE", "_NOT_IMPLEMENTED": "LOCAL_UNSUPPORTED",
    "_UNSUPPORTED_FEATURE": "LOCAL_UNSUPPORTED", "_NO_OFFSET": "LOCAL_NO_OFFSET", "_AUTO_OFFSET_RESET": "LOCAL_NO_OFFSET",
    "_TRANSPORT": "LOCAL_TRANSPORT", "_ALL_BROKERS_DOWN": "LOCAL_TRANSPORT", "_RESOLVE": "LOCAL_TRANSPORT", "_FATAL": "LOCAL_FATAL",
    "_UNKNOWN_TOPIC": "UNKNOWN_TOPIC_OR_PARTITION", "_UNKNOWN_PARTITION": "UNKNOWN_TOPIC_OR_PARTITION",
    "_FENCED": "PRODUCER_FENCED", "_MAX_POLL_EXCEEDED": "LOCAL_TIMEOUT",
}  # fmt: skip
OPEN, EVENTS, ERRORS = {}, {}, {}  # By the name of the client.


class Unsupported(Exception):
    pass


def describe(error):
    if isinstance(error, ck.KafkaException):
        error = error.args[0]
    if not isinstance(error, ck.KafkaError):
        local = {Unsupported: "LOCAL_UNSUPPORTED", ck.IllegalStateException: "LOCAL_ILLEGAL_STATE"}
        return {"name": local.get(type(error), "LOCAL_OTHER"), "message": f"{type(error).__name__}: {error}"}
    name = error.name()
    if name.startswith("_") or name in KAFKA_NAMES or name.startswith("ERR_"):
        name = KAFKA_NAMES.get(name, "LOCAL_OTHER" if name.startswith("_") else "UNKNOWN_SERVER_ERROR")
    flags = {"fatal": error.fatal(), "retriable": error.retriable(), "abortable": error.txn_requires_abort()}
    return {"name": name, "message": f"{error.name()}: {error.str()}", **flags}


def translate(settings, kind):
    config = {"log_level": 4}
    for name, value in settings.items():
        if name not in SETTINGS or (name == "max_poll_records" and kind != "share_consumer"):
            raise Unsupported(f"setting {name} of a {kind}")
        if name == "rebootstrap":
            value = "rebootstrap" if value else "none"
        if (name, value) == ("auto_offset_reset", "none"):
            value = "error"
        config[SETTINGS[name]] = ",".join(map(str, value)) if isinstance(value, list) else value
    if kind == "consumer":
        config.setdefault("group.id", "unused")
    return config


def open_client(client, kind, settings):
    ERRORS.pop(client, None)
    events = EVENTS[client] = []
    config = {**translate(settings, kind), "error_cb": lambda error: note_error(client, error)}
    if kind == "consumer":
        config["on_commit"] = lambda error, _: events.append({"type": "committed", "error": error and describe(error)})
    OPEN[client] = {"producer": ck.Producer, "consumer": ck.Consumer, "share_consumer": ck.ShareConsumer, "admin": AdminClient}[kind](config)
    if kind == "share_consumer":
        OPEN[client].set_acknowledgement_commit_callback(lambda offsets, error: note_acknowledged(events, offsets, error))
    return {}


def note_error(client, error):
    print(client, error, file=sys.stderr)
    if error.fatal() or error.code() in (ck.KafkaError._AUTHENTICATION, ck.KafkaError._SSL):
        ERRORS[client] = error


def note_acknowledged(events, offsets, error):
    for place, numbers in offsets.items():
        found = {"topic": place.topic, "partition": place.partition, "offsets": sorted(numbers)}
        events.append({"type": "acknowledged", **found, "error": error and describe(error)})


def close(client, timeout_ms):
    opened = OPEN.pop(client)
    if isinstance(opened, ck.Producer):
        opened.flush(timeout_ms / 1000)
    elif not isinstance(opened, AdminClient):
        opened.close()
    return {"events": EVENTS.pop(client)}


def send(client, topic, records, timeout_ms, partition=None):
    producer, results = OPEN[client], [None] * len(records)

    def done(index, error, message):
        place = {"topic": message.topic(), "partition": message.partition(), "offset": -1 if error or message.offset() is None else message.offset()}
        results[index] = {"error": describe(error)} if error else {**place, "timestamp": message.timestamp()[1]}

    for index, record in enumerate(records):
        where = record.get("partition", partition)
        extra = {} if where is None else {"partition": where}
        extra |= {"timestamp": record["timestamp"]} if "timestamp" in record else {}
        try:
            producer.produce(
                topic, record["value"], record.get("key"), headers=[tuple(each) for each in record.get("headers", [])] or None,
                on_delivery=lambda error, message, index=index: done(index, error, message), **extra,
            )  # fmt: skip
        except ck.KafkaException as error:
            results[index] = {"error": describe(error)}
    deadline = time.monotonic() + timeout_ms / 1000
    while None in results and time.monotonic() < deadline and client not in ERRORS:
        producer.poll(0.05)
    late = {"error": {"name": "LOCAL_TIMEOUT", "message": f"no delivery report within {timeout_ms} ms"}}
    if client in ERRORS:  # The client goes on trying; the application sees the reason in its error callback.
        late = {"error": describe(ERRORS.pop(client))}
    return {"deliveries": [result or late for result in results]}


def transaction(method):
    def run(client, timeout_ms):
        seconds = [] if method == "begin_transaction" else [timeout_ms / 1000]
        getattr(OPEN[client], method)(*seconds)
        return {}

    return run


def send_offsets(client, offsets, consumer, timeout_ms):
    OPEN[client].send_offsets_to_transaction(places(offsets), OPEN[consumer].consumer_group_metadata(), timeout_ms / 1000)
    return {}


def subscribe(client, timeout_ms, topics=None, pattern=None):
    names, opened, events = topics or ["^" + pattern.removeprefix("^")], OPEN[client], EVENTS[client]
    if isinstance(opened, ck.ShareConsumer):
        opened.subscribe(names)
        return {}

    def note(kind):
        return lambda _, partitions: events.append({"type": kind, "partitions": [place(each) for each in partitions]})

    opened.subscribe(names, on_assign=note("assigned"), on_revoke=note("revoked"), on_lost=note("lost"))
    return {}


def poll(client, timeout_ms, max_records=None, wakeup_after_ms=None):
    opened, events, records = OPEN[client], EVENTS[client], []
    if wakeup_after_ms is not None:
        raise Unsupported("wakeup")
    deadline, is_share = time.monotonic() + timeout_ms / 1000, isinstance(opened, ck.ShareConsumer)
    while not records and not events and client not in ERRORS:
        left = max(deadline - time.monotonic(), 0)
        first = list(opened.poll(min(left, 0.1))) if is_share else [opened.poll(min(left, 0.1))]
        more = [] if is_share or first[0] is None or first[0].error() else opened.consume((max_records or 500) - 1, 0) if max_records != 1 else []
        for message in [*first, *more]:
            if message is None:  # Not `not message`: a message is false if its value is empty or null.
                continue
            if message.error():
                ERRORS.setdefault(client, message.error())
            else:
                records.append(consumed(message, is_share))
        if left == 0:
            break
    if client in ERRORS and not records:
        raise ck.KafkaException(ERRORS.pop(client))
    found = list(events)
    events.clear()
    return {"records": records, "events": found}


def consumed(message, is_share):
    key, value = (None if data is None else data.decode("utf-8", "replace") for data in (message.key(), message.value()))
    headers = [[name, None if data is None else data.decode("utf-8", "replace")] for name, data in message.headers() or []]
    record = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset(), "key": key, "value": value}
    counted = {"delivery_count": message.delivery_count()} if is_share else {}
    kind, time_ms = message.timestamp()
    return {**record, "headers": headers, "timestamp": None if kind == ck.TIMESTAMP_NOT_AVAILABLE else time_ms, **counted}


def commit(client, timeout_ms, offsets=None):
    opened = OPEN[client]
    if isinstance(opened, ck.ShareConsumer):
        results = opened.commit_sync(timeout_ms / 1000)
        return {"partitions": [{**place(each), "error": error and describe(error)} for each, error in results.items()]}
    try:
        opened.commit(offsets=places(offsets), asynchronous=False) if offsets else opened.commit(asynchronous=False)
    except ck.KafkaException as error:
        if error.args[0].code() != ck.KafkaError._NO_OFFSET:  # Nothing to commit.
            raise
    return {}


def commit_async(client, timeout_ms):
    opened = OPEN[client]
    opened.commit_async() if isinstance(opened, ck.ShareConsumer) else opened.commit(asynchronous=True)
    return {}


def acknowledge(client, records, timeout_ms):
    for each in records:
        if each["type"] == "renew":
            raise Unsupported("renew")
        OPEN[client].acknowledge_offset(each["topic"], each["partition"], each["offset"], ck.AcknowledgeType[each["type"].upper()])
    return {}


def assign(client, partitions, timeout_ms):
    named = {"earliest": ck.OFFSET_BEGINNING, "latest": ck.OFFSET_END, None: ck.OFFSET_STORED}
    OPEN[client].assign([ck.TopicPartition(p["topic"], p["partition"], named.get(p.get("offset"), p.get("offset"))) for p in partitions])
    return {}


def offsets(method, limit):
    def run(client, partitions, timeout_ms):
        found = getattr(OPEN[client], method)(places(partitions), **({"timeout": timeout_ms / 1000} if limit else {}))
        for each in found:
            if each.error:
                raise ck.KafkaException(each.error)
        return {"offsets": [{**place(each), "offset": each.offset if each.offset >= 0 else None} for each in found]}

    return run


def on_partitions(method):
    def run(client, partitions, timeout_ms):
        getattr(OPEN[client], method)(places(partitions))
        return {}

    return run


def seek(client, topic, partition, offset, timeout_ms):
    OPEN[client].seek(ck.TopicPartition(topic, partition, offset))
    return {}


def unsubscribe(client, timeout_ms):
    OPEN[client].unsubscribe()
    return {}


def administer(method, make):
    def run(client, topics, timeout_ms):
        futures = getattr(OPEN[client], method)([make(each) for each in topics], request_timeout=timeout_ms / 1000)
        for future in futures.values():
            future.result(timeout_ms / 1000)
        return {}

    return run


def describe_cluster(client, timeout_ms):
    found = OPEN[client].describe_cluster(request_timeout=timeout_ms / 1000).result(timeout_ms / 1000)
    nodes = [{"id": node.id, "host": node.host, "port": node.port} for node in found.nodes]
    return {"cluster_id": found.cluster_id, "controller": found.controller and found.controller.id, "nodes": nodes}


def list_offsets(client, partitions, timeout_ms):
    specs = {"earliest": OffsetSpec.earliest, "latest": OffsetSpec.latest}
    wanted = {
        ck.TopicPartition(p["topic"], p["partition"]): specs[p["spec"]]() if p["spec"] in specs else OffsetSpec.for_timestamp(p["spec"])
        for p in partitions
    }
    found = OPEN[client].list_offsets(wanted, request_timeout=timeout_ms / 1000)
    offsets = {each: future.result(timeout_ms / 1000).offset for each, future in found.items()}
    return {"offsets": [{**place(each), "offset": offset if offset >= 0 else None} for each, offset in offsets.items()]}


def place(partition):
    return {"topic": partition.topic, "partition": partition.partition}


def places(given):
    return [ck.TopicPartition(p["topic"], p["partition"], p.get("offset", ck.OFFSET_INVALID)) for p in given]


def hello(protocol):
    name = {"protocol": 1, "name": "librdkafka (confluent-kafka)", "version": ck.libversion()[0], "language": "C, Python"}
    return {**name, "capabilities": CAPABILITIES, "settings": sorted(SETTINGS)}


METHODS = {
    "hello": hello, "open": open_client, "close": close, "send": send, "send_offsets": send_offsets, "subscribe": subscribe,
    "unsubscribe": unsubscribe, "assign": assign, "poll": poll, "commit": commit, "commit_async": commit_async, "seek": seek,
    "init_transactions": transaction("init_transactions"), "begin": transaction("begin_transaction"),
    "commit_transaction": transaction("commit_transaction"), "abort_transaction": transaction("abort_transaction"),
    "committed": offsets("committed", True), "position": offsets("position", False), "pause": on_partitions("pause"),
    "resume": on_partitions("resume"), "acknowledge": acknowledge, "describe_cluster": describe_cluster, "list_offsets": list_offsets,
    "assignment": lambda client, timeout_ms: {"partitions": [place(each) for each in OPEN[client].assignment()]},
    "create_topics": administer("create_topics", lambda t: NewTopic(t["name"], t["partitions"], t["replication_factor"])),
    "delete_topics": administer("delete_topics", str),
    "create_partitions": administer("create_partitions", lambda t: NewPartitions(t["name"], t["count"])),
    "list_topics": lambda client, timeout_ms: {"topics": sorted(OPEN[client].list_topics(timeout=timeout_ms / 1000).topics)},
}  # fmt: skip


def main():
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["method"] not in METHODS:
                raise Unsupported(f"method {request['method']}")
            answer = {"result": METHODS[request["method"]](**request["params"])}
        except Exception as error:
            answer = {"error": describe(error)}
        print(json.dumps({"id": request["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
