//! Translates the neutral settings of the protocol to properties of librdkafka; what is not set keeps its default.

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use serde_json::Value;

use crate::errors::Failure;

/// Of the crate, as Cargo.lock has it.
pub const RDKAFKA_VERSION: &str = "0.39.0";

#[rustfmt::skip]
const COMMON: &[(&str, &str)] = &[
    ("bootstrap_servers", "bootstrap.servers"), ("client_id", "client.id"), ("request_timeout_ms", "socket.timeout.ms"),
    ("metadata_max_age_ms", "topic.metadata.refresh.interval.ms"), ("retry_backoff_ms", "retry.backoff.ms"),
    ("retry_backoff_max_ms", "retry.backoff.max.ms"), ("reconnect_backoff_ms", "reconnect.backoff.ms"),
    ("reconnect_backoff_max_ms", "reconnect.backoff.max.ms"), ("connections_max_idle_ms", "connections.max.idle.ms"),
    ("socket_setup_timeout_ms", "socket.connection.setup.timeout.ms"), ("rebootstrap", "metadata.recovery.strategy"),
    ("rebootstrap_trigger_ms", "metadata.recovery.rebootstrap.trigger.ms"), ("security_protocol", "security.protocol"),
    ("sasl_mechanism", "sasl.mechanism"), ("username", "sasl.username"), ("password", "sasl.password"),
];
#[rustfmt::skip]
const PRODUCER: &[(&str, &str)] = &[
    ("acks", "acks"), ("idempotence", "enable.idempotence"), ("linger_ms", "linger.ms"), ("batch_size", "batch.size"),
    ("compression", "compression.type"), ("max_in_flight", "max.in.flight.requests.per.connection"),
    ("retries", "retries"), ("delivery_timeout_ms", "delivery.timeout.ms"), ("max_request_size", "message.max.bytes"),
    ("transactional_id", "transactional.id"), ("transaction_timeout_ms", "transaction.timeout.ms"),
];
#[rustfmt::skip]
const CONSUMER: &[(&str, &str)] = &[
    ("group_id", "group.id"), ("group_protocol", "group.protocol"), ("group_instance_id", "group.instance.id"),
    ("assignors", "partition.assignment.strategy"), ("remote_assignor", "group.remote.assignor"),
    ("session_timeout_ms", "session.timeout.ms"), ("heartbeat_interval_ms", "heartbeat.interval.ms"),
    ("max_poll_interval_ms", "max.poll.interval.ms"), ("auto_offset_reset", "auto.offset.reset"),
    ("enable_auto_commit", "enable.auto.commit"), ("auto_commit_interval_ms", "auto.commit.interval.ms"),
    ("isolation_level", "isolation.level"), ("fetch_min_bytes", "fetch.min.bytes"),
    ("fetch_max_wait_ms", "fetch.wait.max.ms"), ("fetch_max_bytes", "fetch.max.bytes"),
    ("max_partition_fetch_bytes", "max.partition.fetch.bytes"), ("client_rack", "client.rack"),
    ("check_crcs", "check.crcs"),
];

fn tables(kind: &str) -> Result<[&'static [(&'static str, &'static str)]; 2], Failure> {
    match kind {
        "producer" => Ok([COMMON, PRODUCER]),
        "consumer" => Ok([COMMON, CONSUMER]),
        "admin" => Ok([COMMON, &[]]),
        _ => Err(Failure::unsupported(format!("a client of kind {kind}"))),
    }
}

pub fn names() -> Vec<&'static str> {
    [COMMON, PRODUCER, CONSUMER].concat().iter().map(|(name, _)| *name).collect()
}

pub fn translate(kind: &str, settings: &Value) -> Result<ClientConfig, Failure> {
    let tables = tables(kind)?;
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Warning);
    for (name, value) in settings.as_object().into_iter().flatten() {
        let Some((_, property)) = tables.iter().flat_map(|table| table.iter()).find(|(known, _)| known == name) else {
            return Err(Failure::unsupported(format!("setting {name} of a {kind}")));
        };
        config.set(*property, translate_value(name, value));
    }
    Ok(config)
}

fn translate_value(name: &str, value: &Value) -> String {
    match (name, value) {
        ("rebootstrap", Value::Bool(on)) => if *on { "rebootstrap" } else { "none" }.to_owned(),
        ("auto_offset_reset", Value::String(reset)) if reset == "none" => "error".to_owned(),
        (_, Value::String(text)) => text.clone(),
        (_, Value::Array(items)) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        _ => value.to_string(),
    }
}
