//! Starts mockbroker, a Kafka cluster for tests, and controls it over HTTP.
//!
//! What goes wrong is a panic with its explanation, as in assertions: a test that calls this has nothing to handle.

use std::env;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(10);
const WAIT_LIMIT: Duration = Duration::from_secs(10);
const NEAREST_MAX: &str = "5";

/// A process of the command `mockbroker`, which ends when this value is dropped.
///
/// Dropping it panics if one of the faults has not acted, unless the test has failed already. The process also ends
/// when the program of the tests ends in any way, since its standard input is closed then.
pub struct MockBroker {
    process: Child,
    agent: ureq::Agent,
    bootstrap_servers: String,
    control_url: String,
}

impl MockBroker {
    /// Starts a cluster on free ports, with short timers, and returns when it accepts connections.
    ///
    /// Options are those of the command, as `["--topic", "orders:2"]`. The variable MOCKBROKER names the command if it
    /// is not on the PATH.
    pub fn start(options: &[&str]) -> Self {
        let command = env::var("MOCKBROKER").unwrap_or_else(|_| "mockbroker".to_owned());
        let mut process = Command::new(&command)
            .args(["--port", "0", "--control", "0", "--profile", "quick"])
            .args(["--log-level", "warning", "--exit-with-stdin"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command}: {error}"));
        let output = process.stdout.take().expect("standard output is a pipe");
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            // The receiver is gone when the limit has passed.
            BufReader::new(output).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(WAIT_LIMIT + Duration::from_secs(10)))
            .build();
        let deadline = Instant::now() + START_LIMIT;
        let mut broker =
            Self { process, agent: config.into(), bootstrap_servers: String::new(), control_url: String::new() };
        for address in [&mut broker.bootstrap_servers, &mut broker.control_url] {
            let left = deadline.saturating_duration_since(Instant::now());
            *address = receiver.recv_timeout(left).unwrap_or_else(|error| {
                panic!("{command} has not printed its addresses ({error}); its error is in the output above")
            });
        }
        broker
    }

    /// What clients need: `host:port`, comma-separated.
    pub fn bootstrap_servers(&self) -> &str {
        &self.bootstrap_servers
    }

    /// The URL of the control; `/openapi.json` below it describes all operations.
    pub fn control_url(&self) -> &str {
        &self.control_url
    }

    /// Adds a fault and returns its number.
    ///
    /// `when`: which requests, as `json!({"api": "Produce", "times": 2})`; `then`: what happens to them, as
    /// `json!({"error": "NOT_LEADER_OR_FOLLOWER"})`.
    pub fn add_fault(&self, when: Value, then: Value) -> u64 {
        let added = self.request("POST", "/v1/faults", Some(json!({"when": when, "then": then})));
        added["faults"][0]["number"].as_u64().expect("a fault has a number")
    }

    /// Panics if a fault has not acted.
    pub fn assert_faults_acted(&self) {
        let answer = self.request("GET", "/v1/faults/misses", None);
        let misses = answer["misses"].as_array().expect("misses are a list");
        let messages: Vec<_> = misses.iter().filter_map(|miss| miss["message"].as_str()).collect();
        assert!(messages.is_empty(), "{}", messages.join("\n"));
    }

    /// Waits until a group is in a state with a number of members.
    pub fn wait_for_group(&self, group_id: &str, state: &str, members: usize) -> Value {
        self.wait_for("group", json!({"groupId": group_id, "state": state, "members": members}))
    }

    /// Waits until so many requests of an API have come, and returns them with their responses.
    pub fn wait_for_requests(&self, api: &str, count: usize) -> Value {
        self.wait_for("request", json!({"api": api, "count": count}))
    }

    /// Waits for a state: `group`, `offset`, `request` or `share-members`, with its fields of docs/control.md.
    pub fn wait_for(&self, what: &str, mut condition: Value) -> Value {
        condition["timeoutMs"] = json!(WAIT_LIMIT.as_millis() as u64);
        self.request("POST", &format!("/v1/waits/{what}"), Some(condition))
    }

    /// The requests of an API that match the filters of docs/control.md, oldest first, each with its response.
    pub fn exchanges(&self, api: &str, filters: &[(&str, &str)]) -> Vec<Value> {
        self.find(Some(api), filters).0
    }

    /// Panics unless exactly so many requests match; the message has the requests that come nearest.
    pub fn assert_count(&self, expected: u64, api: &str, filters: &[(&str, &str)]) {
        let (_, count) = self.find(Some(api), filters);
        assert!(
            count == expected,
            "expected {expected} requests of {api} with {filters:?}, but there are {count}; the nearest:\n{}",
            self.nearest(api)
        );
    }

    /// The newest requests of this API, or of all if there is none, a line for each.
    fn nearest(&self, api: &str) -> String {
        let newest = [("order", "desc"), ("limit", NEAREST_MAX), ("bodies", "false")];
        let (mut exchanges, _) = self.find(Some(api), &newest);
        if exchanges.is_empty() {
            (exchanges, _) = self.find(None, &newest);
        }
        if exchanges.is_empty() {
            return "  none: no request has come".to_owned();
        }
        exchanges.iter().fold(String::new(), |mut lines, each| {
            let name = each["api"].as_str().unwrap_or_default();
            let _ = write!(lines, "  #{} {name} v{}", each["number"], each["version"]);
            let _ = write!(lines, ", client {}, topics {}", each["clientId"], each["topics"]);
            let _ = writeln!(lines, ", errors {}, faults {}", each["errors"], each["faults"]);
            lines
        })
    }

    /// The matching exchanges, and how many match in all.
    fn find(&self, api: Option<&str>, filters: &[(&str, &str)]) -> (Vec<Value>, u64) {
        let parameters = api.map(|name| ("api", name)).into_iter().chain(filters.iter().copied());
        let request = self.agent.get(format!("{}/v1/exchanges", self.control_url));
        let mut answer = read("GET /v1/exchanges", request.query_pairs(parameters).call());
        let count = answer["count"].as_u64().expect("the count is a number");
        match answer["exchanges"].take() {
            Value::Array(exchanges) => (exchanges, count),
            other => panic!("GET /v1/exchanges: exchanges are {other}"),
        }
    }

    /// Drops all topics, records, groups, faults and the history: the cluster is as after its start.
    pub fn reset(&self) {
        self.request("POST", "/v1/cluster/reset", None);
    }

    /// Sends any operation of the control; an answer without a body is null.
    ///
    /// Panics with the explanation of the control if it refuses, or if a wait was in vain.
    pub fn request(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let url = format!("{}{path}", self.control_url);
        let answer = match (method, body) {
            ("GET", None) => self.agent.get(url).call(),
            ("DELETE", None) => self.agent.delete(url).call(),
            ("POST", None) => self.agent.post(url).send_empty(),
            ("POST", Some(body)) => self.agent.post(url).send_json(body),
            (_, body) => panic!("{method} {path}: the control has no such operation with the body {body:?}"),
        };
        read(&format!("{method} {path}"), answer)
    }
}

fn read(operation: &str, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Value {
    let mut response = answer.unwrap_or_else(|error| panic!("{operation}: {error}"));
    let text = response.body_mut().read_to_string().unwrap_or_else(|error| panic!("{operation}: {error}"));
    if response.status().is_client_error() || response.status().is_server_error() {
        let problem: Value = serde_json::from_str(&text).unwrap_or_default();
        panic!("{operation}: {}: {}", response.status(), problem["detail"].as_str().unwrap_or(&text));
    }
    if text.is_empty() {
        return Value::Null;
    }
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{operation}: {error} in {text}"))
}

impl Drop for MockBroker {
    fn drop(&mut self) {
        let misses = (!thread::panicking()).then(|| catch_unwind(AssertUnwindSafe(|| self.assert_faults_acted())));
        drop(self.process.stdin.take());
        let deadline = Instant::now() + STOP_LIMIT;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.process.kill(); // An error: it has ended already.
        let _ = self.process.wait();
        if let Some(Err(panic)) = misses {
            resume_unwind(panic);
        }
    }
}
