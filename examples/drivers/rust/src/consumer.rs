//! A consumer with assigned partitions, or in a group of either protocol.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, ConsumerGroupMetadata, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use serde_json::{json, Value};

use crate::errors::{is_informational, Failure};
use crate::{within, Outcome};

type Events = Arc<Mutex<Vec<Value>>>;

/// Keeps callbacks as events; the client calls them in `poll` and when it is closed.
struct Context(Events);

impl ClientContext for Context {
    fn log(&self, _: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        eprintln!("{facility}: {message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        eprintln!("{error}: {reason}");
    }
}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let event = match rebalance {
            Rebalance::Assign(partitions) => json!({"type": "assigned", "partitions": places(partitions)}),
            Rebalance::Revoke(partitions) if consumer.assignment_lost() => {
                json!({"type": "lost", "partitions": places(partitions)})
            }
            Rebalance::Revoke(partitions) => json!({"type": "revoked", "partitions": places(partitions)}),
            Rebalance::Error(error) => json!({"type": "error", "error": Failure::from(error.clone()).describe()}),
        };
        self.0.lock().unwrap().push(event);
    }

    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        let error = result.err().map(|error| Failure::from(error).describe());
        self.0.lock().unwrap().push(json!({"type": "committed", "error": error}));
    }
}

pub struct Consumer {
    consumer: Arc<BaseConsumer<Context>>,
    events: Events,
}

impl Consumer {
    pub fn open(config: &mut ClientConfig) -> Result<Self, Failure> {
        if config.get("group.id").is_none() {
            // The client refuses `assign` without a group; nothing is to be committed for this one.
            config.set("group.id", "unused").set("enable.auto.commit", "false");
        }
        let events = Events::default();
        let consumer = Arc::new(config.create_with_context(Context(events.clone()))?);
        Ok(Self { consumer, events })
    }

    pub fn group_metadata(&self) -> Option<ConsumerGroupMetadata> {
        self.consumer.group_metadata()
    }

    /// Dropping the client closes it, with a last commit and the callbacks.
    pub fn close(self, timeout: Duration) -> Outcome {
        let Self { consumer, events } = self;
        within(timeout, move || drop(consumer))?;
        let events: Vec<Value> = events.lock().unwrap().drain(..).collect();
        Ok(json!({"events": events}))
    }

    pub fn call(&self, method: &str, params: &Value, timeout: Duration) -> Outcome {
        match method {
            "poll" => return self.poll(params, timeout),
            "committed" => {
                return Ok(json!({"offsets": found(&self.consumer.committed_offsets(partitions(params)?, timeout)?)}))
            }
            "position" => return self.position(params),
            "assignment" => return Ok(json!({"partitions": places(&self.consumer.assignment()?)})),
            "subscribe" => self.subscribe(params)?,
            "unsubscribe" => self.consumer.unsubscribe(),
            "assign" => self.consumer.assign(&offsets(params)?)?,
            "commit" => self.commit(params, timeout)?,
            "commit_async" => self.consumer.commit_consumer_state(CommitMode::Async)?,
            "seek" => self.seek(params, timeout)?,
            "pause" => self.consumer.pause(&partitions(params)?)?,
            "resume" => self.consumer.resume(&partitions(params)?)?,
            _ => return Err(Failure::unsupported(format!("method {method} of a consumer"))),
        }
        Ok(json!({}))
    }

    /// Polls until there is a record or an event, then takes what is there without waiting.
    fn poll(&self, params: &Value, timeout: Duration) -> Outcome {
        if !params["max_records"].is_null() || !params["wakeup_after_ms"].is_null() {
            return Err(Failure::unsupported("max_records and wakeup of a poll"));
        }
        let deadline = Instant::now() + timeout;
        let mut records = Vec::new();
        loop {
            let is_waiting = records.is_empty() && self.events.lock().unwrap().is_empty();
            let left = if is_waiting { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            match self.consumer.poll(left) {
                Some(Ok(message)) => records.push(record(&message)),
                Some(Err(error)) if is_informational(&error) => eprintln!("{error}"),
                Some(Err(error)) if records.is_empty() => return Err(self.failure(error)),
                Some(Err(error)) => {
                    let event = json!({"type": "error", "error": self.failure(error).describe()});
                    self.events.lock().unwrap().push(event);
                }
                None if left.is_zero() => break,
                None => {} // A callback was called, or the time is over.
            }
        }
        let events: Vec<Value> = self.events.lock().unwrap().drain(..).collect();
        Ok(json!({"records": records, "events": events}))
    }

    fn failure(&self, error: KafkaError) -> Failure {
        match self.consumer.client().fatal_error() {
            Some((code, reason)) => Failure::fatal(code, reason),
            None => error.into(),
        }
    }

    fn subscribe(&self, params: &Value) -> Result<(), Failure> {
        if let Some(pattern) = params["pattern"].as_str() {
            return Ok(self.consumer.subscribe(&[&format!("^{pattern}")])?); // A pattern begins with ^ here.
        }
        let topics: Vec<&str> = params["topics"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        Ok(self.consumer.subscribe(&topics)?)
    }

    /// The client's commit has no time limit.
    fn commit(&self, params: &Value, timeout: Duration) -> Result<(), Failure> {
        let consumer = self.consumer.clone();
        let offsets = if params["offsets"].is_null() { None } else { Some(offsets(params)?) };
        let committed = within(timeout, move || match offsets {
            Some(offsets) => consumer.commit(&offsets, CommitMode::Sync),
            None => consumer.commit_consumer_state(CommitMode::Sync),
        })?;
        committed.map_err(|error| self.failure(error))
    }

    fn seek(&self, params: &Value, timeout: Duration) -> Result<(), Failure> {
        let mut target = TopicPartitionList::new();
        add(&mut target, params, offset(&params["offset"]))?;
        for element in self.consumer.seek_partitions(target, timeout)?.elements() {
            element.error()?;
        }
        Ok(())
    }

    fn position(&self, params: &Value) -> Outcome {
        let known = self.consumer.position()?;
        let asked = partitions(params)?;
        for mut element in asked.elements() {
            let at = known.find_partition(element.topic(), element.partition());
            element.set_offset(at.map_or(Offset::Invalid, |at| at.offset()))?;
        }
        Ok(json!({"offsets": found(&asked)}))
    }
}

fn record(message: &BorrowedMessage<'_>) -> Value {
    let text = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let headers: Vec<Value> = message
        .headers()
        .map(|headers| headers.iter().map(|header| json!([header.key, text(header.value)])).collect())
        .unwrap_or_default();
    json!({
        "topic": message.topic(), "partition": message.partition(), "offset": message.offset(),
        "key": text(message.key()), "value": text(message.payload()), "headers": headers,
        "timestamp": message.timestamp().to_millis(),
    })
}

fn places(partitions: &TopicPartitionList) -> Vec<Value> {
    let place = |at: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| json!({"topic": at.topic(), "partition": at.partition()});
    partitions.elements().iter().map(place).collect()
}

fn found(partitions: &TopicPartitionList) -> Vec<Value> {
    let offset = |offset| if let Offset::Offset(number) = offset { Some(number) } else { None };
    let elements = partitions.elements();
    elements
        .iter()
        .map(|at| json!({"topic": at.topic(), "partition": at.partition(), "offset": offset(at.offset())}))
        .collect()
}

fn partitions(params: &Value) -> Result<TopicPartitionList, Failure> {
    list(&params["partitions"], |_| Offset::Invalid)
}

/// The partitions of `assign`, or the offsets of a commit.
pub fn offsets(params: &Value) -> Result<TopicPartitionList, Failure> {
    let given = if params["offsets"].is_null() { &params["partitions"] } else { &params["offsets"] };
    list(given, |place| offset(&place["offset"]))
}

fn offset(given: &Value) -> Offset {
    match (given.as_i64(), given.as_str()) {
        (Some(number), _) => Offset::Offset(number),
        (None, Some("earliest")) => Offset::Beginning,
        (None, Some("latest")) => Offset::End,
        _ => Offset::Invalid, // The committed one, or that of the reset policy.
    }
}

fn list(given: &Value, offset: impl Fn(&Value) -> Offset) -> Result<TopicPartitionList, Failure> {
    let mut list = TopicPartitionList::new();
    for place in given.as_array().into_iter().flatten() {
        add(&mut list, place, offset(place))?;
    }
    Ok(list)
}

fn add(list: &mut TopicPartitionList, place: &Value, offset: Offset) -> Result<(), Failure> {
    let (topic, partition) = (place["topic"].as_str().unwrap_or_default(), place["partition"].as_i64().unwrap_or(-1));
    Ok(list.add_partition_offset(topic, partition as i32, offset)?)
}
