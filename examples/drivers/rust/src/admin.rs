//! An admin client: topics and the cluster.

use std::time::Duration;

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication, TopicResult};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use serde_json::{json, Value};

use crate::errors::Failure;
use crate::Outcome;

pub struct Admin(AdminClient<DefaultClientContext>);

impl Admin {
    pub fn open(config: &ClientConfig) -> Result<Self, Failure> {
        Ok(Self(config.create()?))
    }

    pub fn call(&self, method: &str, params: &Value, timeout: Duration) -> Outcome {
        let options = AdminOptions::new().request_timeout(Some(timeout)).operation_timeout(Some(timeout));
        let topics = params["topics"].as_array().cloned().unwrap_or_default();
        match method {
            "create_topics" => {
                let made: Vec<NewTopic<'_>> = topics.iter().map(new_topic).collect();
                check(block_on(self.0.create_topics(&made, &options))?)
            }
            "delete_topics" => {
                let names: Vec<&str> = topics.iter().filter_map(Value::as_str).collect();
                check(block_on(self.0.delete_topics(&names, &options))?)
            }
            "create_partitions" => {
                let counts: Vec<NewPartitions<'_>> = topics
                    .iter()
                    .map(|topic| NewPartitions::new(name(topic), topic["count"].as_u64().unwrap_or(0) as usize))
                    .collect();
                check(block_on(self.0.create_partitions(&counts, &options))?)
            }
            "list_topics" => {
                let metadata = self.0.inner().fetch_metadata(None, timeout)?;
                let mut names: Vec<&str> = metadata.topics().iter().map(|topic| topic.name()).collect();
                names.sort_unstable();
                Ok(json!({"topics": names}))
            }
            "describe_cluster" => self.describe_cluster(timeout),
            _ => Err(Failure::unsupported(format!("method {method} of an admin client"))),
        }
    }

    /// The client does not say which node is the controller.
    fn describe_cluster(&self, timeout: Duration) -> Outcome {
        let client = self.0.inner();
        let metadata = client.fetch_metadata(None, timeout)?;
        let nodes: Vec<Value> = metadata
            .brokers()
            .iter()
            .map(|broker| json!({"id": broker.id(), "host": broker.host(), "port": broker.port()}))
            .collect();
        Ok(json!({"cluster_id": client.fetch_cluster_id(timeout), "controller": null, "nodes": nodes}))
    }
}

fn name(topic: &Value) -> &str {
    topic["name"].as_str().unwrap_or_default()
}

fn new_topic(topic: &Value) -> NewTopic<'_> {
    let replication = TopicReplication::Fixed(topic["replication_factor"].as_i64().unwrap_or(-1) as i32);
    NewTopic::new(name(topic), topic["partitions"].as_i64().unwrap_or(-1) as i32, replication)
}

fn check(results: Vec<TopicResult>) -> Outcome {
    for result in results {
        result.map_err(|(_, code)| KafkaError::AdminOp(code))?;
    }
    Ok(json!({}))
}
