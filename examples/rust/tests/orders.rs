use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};

use mockbroker_test::MockBroker;
use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::client::ClientBuilder;
use rskafka::record::Record;
use serde_json::json;

async fn send(broker: &MockBroker, value: &str) {
    let servers = broker.bootstrap_servers().split(',').map(str::to_owned).collect();
    let client = ClientBuilder::new(servers).client_id("shop").build().await.unwrap();
    let partition = client.partition_client("orders", 0, UnknownTopicHandling::Retry).await.unwrap();
    let record = Record {
        key: None,
        value: Some(value.as_bytes().to_vec()),
        headers: BTreeMap::new(),
        timestamp: chrono::DateTime::UNIX_EPOCH,
    };
    partition.produce(vec![record], Compression::NoCompression).await.unwrap();
}

/// The message of a panic.
fn message_of(action: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(action)).expect_err("this does not panic");
    panic.downcast_ref::<String>().expect("the message is a string").clone()
}

#[tokio::test]
async fn a_producer_retries_when_the_leader_has_moved() {
    let broker = MockBroker::start(&["--topic", "orders:1"]);
    broker.add_fault(
        json!({"api": "Produce", "topic": "orders", "times": 1}),
        json!({"error": "NOT_LEADER_OR_FOLLOWER"}),
    );

    send(&broker, "one espresso").await;

    broker.assert_count(2, "Produce", &[("topic", "orders"), ("clientId", "shop")]);
    broker.assert_count(1, "Produce", &[("error", "NOT_LEADER_OR_FOLLOWER")]);
    assert_eq!(broker.wait_for_requests("Produce", 2)["count"], 2);
}

// What the helper reports.

#[tokio::test]
async fn a_failing_assertion_shows_the_nearest_requests() {
    let broker = MockBroker::start(&["--topic", "orders:1"]);
    send(&broker, "one espresso").await;

    let message = message_of(|| broker.assert_count(1, "Produce", &[("clientId", "kitchen")]));

    assert!(message.contains("but there are 0"), "{message}");
    assert!(message.contains(r#"client "shop", topics {"orders":[0]}"#), "{message}");
}

#[test]
fn a_wait_in_vain_says_what_was_seen_instead() {
    let broker = MockBroker::start(&[]);

    let message =
        message_of(|| drop(broker.request("POST", "/v1/waits/group", Some(json!({"groupId": "bar", "timeoutMs": 1})))));

    assert!(message.contains("seen instead: no such group"), "{message}");
}

#[test]
fn the_process_ends_with_its_owner_and_a_fault_that_has_not_acted_is_reported() {
    let broker = MockBroker::start(&[]);
    let control = broker.control_url().trim_start_matches("http://").to_owned();
    broker.add_fault(json!({"api": "Produce"}), json!({"error": "NOT_LEADER_OR_FOLLOWER"}));

    let message = message_of(|| drop(broker));

    assert!(message.contains("no requests of Produce came"), "{message}");
    assert!(std::net::TcpStream::connect(control).is_err(), "the control still accepts connections");
}
