//! A producer, transactional or not.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer};
use rdkafka::ClientContext;
use serde_json::{json, Value};

use crate::consumer::{offsets, Consumer};
use crate::errors::Failure;
use crate::{within, Outcome};

/// The index of a record in its `send`, with its result.
type Done = (usize, Result<Value, KafkaError>);

#[derive(Default)]
struct Context {
    /// What keeps records from being delivered, as a failed login.
    reason: Mutex<Option<Failure>>,
}

impl ClientContext for Context {
    fn log(&self, _: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        eprintln!("{facility}: {message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        eprintln!("{error}: {reason}");
        if let Some(RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SSL) = error.rdkafka_error_code() {
            *self.reason.lock().unwrap() = Some(error.into());
        }
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = Box<(usize, Sender<Done>)>;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: Self::DeliveryOpaque) {
        let (index, done) = *opaque;
        let outcome = match result {
            Ok(message) => Ok(json!({
                "topic": message.topic(), "partition": message.partition(), "offset": message.offset().max(-1),
                "timestamp": message.timestamp().to_millis(),
            })),
            Err((error, _)) => Err(error.clone()),
        };
        let _ = done.send((index, outcome)); // Nobody waits any more when the call's time was over.
    }
}

pub struct Producer(Arc<ThreadedProducer<Context>>);

impl Producer {
    pub fn open(config: &ClientConfig) -> Result<Self, Failure> {
        Ok(Self(Arc::new(config.create_with_context(Context::default())?)))
    }

    pub fn close(self, timeout: Duration) -> Outcome {
        self.0.flush(timeout).map_err(|error| self.failure(error))?;
        within(timeout, move || drop(self))?;
        Ok(json!({}))
    }

    pub fn call(&self, method: &str, params: &Value, timeout: Duration) -> Outcome {
        let result = match method {
            "send" => return Ok(json!({"deliveries": self.send(params, timeout)})),
            "init_transactions" => self.0.init_transactions(timeout),
            "begin" => self.0.begin_transaction(),
            "commit_transaction" => self.0.commit_transaction(timeout),
            "abort_transaction" => self.0.abort_transaction(timeout),
            _ => return Err(Failure::unsupported(format!("method {method} of a producer"))),
        };
        result.map(|()| json!({})).map_err(|error| self.failure(error))
    }

    pub fn send_offsets(&self, params: &Value, consumer: &Consumer, timeout: Duration) -> Outcome {
        let member = consumer.group_metadata().ok_or_else(|| Failure::illegal_state("the consumer has no group"))?;
        let sent = self.0.send_offsets_to_transaction(&offsets(params)?, &member, timeout);
        sent.map(|()| json!({})).map_err(|error| self.failure(error))
    }

    /// Gives all records to the client, then waits for each.
    fn send(&self, params: &Value, timeout: Duration) -> Vec<Value> {
        let deadline = Instant::now() + timeout;
        let records = params["records"].as_array().cloned().unwrap_or_default();
        let (sender, receiver) = mpsc::channel::<Done>();
        let mut deliveries = vec![Value::Null; records.len()];
        let mut waiting = 0;
        for (index, record) in records.iter().enumerate() {
            match self.send_one(params, record, Box::new((index, sender.clone()))) {
                Ok(()) => waiting += 1,
                Err(error) => deliveries[index] = self.failed(error),
            }
        }
        while waiting > 0 {
            let Ok((index, outcome)) = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) else {
                break;
            };
            deliveries[index] = outcome.unwrap_or_else(|error| self.failed(error));
            waiting -= 1;
        }
        let reason = self.0.context().reason.lock().unwrap().clone();
        let late =
            reason.unwrap_or_else(|| Failure::local("LOCAL_TIMEOUT", "the record has not been delivered in time"));
        for delivery in deliveries.iter_mut().filter(|delivery| delivery.is_null()) {
            *delivery = json!({"error": late.describe()});
        }
        deliveries
    }

    fn send_one(&self, params: &Value, record: &Value, opaque: Box<(usize, Sender<Done>)>) -> Result<(), KafkaError> {
        let mut sent: BaseRecord<'_, str, str, _> =
            BaseRecord::with_opaque_to(params["topic"].as_str().unwrap_or_default(), opaque);
        if let Some(key) = record["key"].as_str() {
            sent = sent.key(key);
        }
        if let Some(value) = record["value"].as_str() {
            sent = sent.payload(value);
        }
        if let Some(partition) = record["partition"].as_i64().or(params["partition"].as_i64()) {
            sent = sent.partition(partition as i32);
        }
        if let Some(timestamp) = record["timestamp"].as_i64() {
            sent = sent.timestamp(timestamp);
        }
        if let Some(headers) = record["headers"].as_array().filter(|headers| !headers.is_empty()) {
            let made = OwnedHeaders::new_with_capacity(headers.len());
            sent = sent.headers(headers.iter().fold(made, |made, header| {
                made.insert(Header { key: header[0].as_str().unwrap_or_default(), value: header[1].as_str() })
            }));
        }
        self.0.send(sent).map_err(|(error, _)| error)
    }

    fn failed(&self, error: KafkaError) -> Value {
        json!({"error": self.failure(error).describe()})
    }

    /// The error, or the fatal one that the client keeps.
    fn failure(&self, error: KafkaError) -> Failure {
        match self.0.client().fatal_error() {
            Some((code, reason)) => Failure::fatal(code, reason),
            None => error.into(),
        }
    }
}
