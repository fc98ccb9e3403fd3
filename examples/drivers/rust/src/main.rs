//! A driver of `mockbroker certify` for rdkafka: requests of the driver protocol on stdin, answers on stdout.

mod admin;
mod consumer;
mod errors;
mod producer;
mod settings;

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{json, Value};

use crate::errors::Failure;

const PROTOCOL: i64 = 1;
#[rustfmt::skip]
const CAPABILITIES: &[&str] = &[
    "producer", "producer.idempotence", "producer.transactions",
    "consumer.assign", "consumer.classic", "consumer.classic.cooperative", "consumer.classic.static",
    "consumer.kip848", "consumer.kip848.regex", "consumer.pattern", "consumer.rebalance_events",
    "consumer.seek", "consumer.pause", "consumer.offsets",
    "admin.topics", "admin.cluster", "sasl.plain",
    "compression.gzip", "compression.snappy", "compression.lz4", "compression.zstd",
];

pub type Outcome = Result<Value, Failure>;

enum Client {
    Producer(producer::Producer),
    Consumer(consumer::Consumer),
    Admin(admin::Admin),
}

fn main() -> io::Result<()> {
    let mut clients = HashMap::new();
    let mut stdout = io::stdout();
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let method = request["method"].as_str().unwrap_or_default();
        let answer = match call(&mut clients, method, &request["params"]) {
            Ok(result) => json!({"id": request["id"], "result": result}),
            Err(failure) => json!({"id": request["id"], "error": failure.describe()}),
        };
        writeln!(stdout, "{answer}")?;
        stdout.flush()?;
    }
    std::process::exit(0) // The clients are left as a crash leaves them: dropping them would close them.
}

fn call(clients: &mut HashMap<String, Client>, method: &str, params: &Value) -> Outcome {
    match method {
        "hello" => return hello(params),
        "open" => return open(clients, params),
        _ => {}
    }
    let Some(name) = params["client"].as_str() else {
        return Err(Failure::unsupported(format!("method {method}")));
    };
    let missing = || Failure::illegal_state(format!("no client {name} is open"));
    let timeout = Duration::from_millis(params["timeout_ms"].as_u64().unwrap_or(10_000));
    if method == "close" {
        return match clients.remove(name).ok_or_else(missing)? {
            Client::Producer(producer) => producer.close(timeout),
            Client::Consumer(consumer) => consumer.close(timeout),
            Client::Admin(_) => Ok(json!({})),
        };
    }
    match clients.get(name).ok_or_else(missing)? {
        Client::Producer(producer) if method == "send_offsets" => {
            let Some(Client::Consumer(consumer)) = clients.get(params["consumer"].as_str().unwrap_or_default()) else {
                return Err(Failure::illegal_state(format!("{} is not a consumer", params["consumer"])));
            };
            producer.send_offsets(params, consumer, timeout)
        }
        Client::Producer(producer) => producer.call(method, params, timeout),
        Client::Consumer(consumer) => consumer.call(method, params, timeout),
        Client::Admin(admin) => admin.call(method, params, timeout),
    }
}

fn hello(params: &Value) -> Outcome {
    if params["protocol"].as_i64() != Some(PROTOCOL) {
        return Err(Failure::unsupported(format!("version {} of the protocol", params["protocol"])));
    }
    let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
    let version = format!("{} (librdkafka {librdkafka})", settings::RDKAFKA_VERSION);
    Ok(json!({
        "protocol": PROTOCOL, "name": "rdkafka", "version": version, "language": "Rust",
        "capabilities": CAPABILITIES, "settings": settings::names(),
    }))
}

fn open(clients: &mut HashMap<String, Client>, params: &Value) -> Outcome {
    let name = params["client"].as_str().unwrap_or_default().to_owned();
    if clients.contains_key(&name) {
        return Err(Failure::illegal_state(format!("a client {name} is open")));
    }
    let kind = params["kind"].as_str().unwrap_or_default();
    let mut config = settings::translate(kind, &params["settings"])?;
    let client = match kind {
        "producer" => Client::Producer(producer::Producer::open(&config)?),
        "consumer" => Client::Consumer(consumer::Consumer::open(&mut config)?),
        _ => Client::Admin(admin::Admin::open(&config)?),
    };
    clients.insert(name, client);
    Ok(json!({}))
}

/// Runs what has no time limit in a thread, which goes on when the time is over.
pub fn within<T: Send + 'static>(timeout: Duration, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(timeout).map_err(|_| Failure::local("LOCAL_TIMEOUT", format!("not done within {timeout:?}")))
}
