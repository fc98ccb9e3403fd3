// Starts mockbroker, a Kafka cluster for tests, for a test of node:test, and controls it over HTTP. No dependencies.

import { AssertionError } from 'node:assert';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

const START_LIMIT_MS = 30_000;
const STOP_LIMIT_MS = 10_000;
const WAIT_LIMIT_MS = 10_000;
const NEAREST_MAX = 5;

/**
 * Start a cluster for a test, or for a suite. Afterwards, whatever the result is, the process ends; and the test fails
 * if one of its faults has not acted.
 *
 * @param {import('node:test').TestContext} t the context of the test
 * @param {...string} options of the command, as '--topic', 'orders:2'
 * @returns {Promise<MockBroker>}
 */
export async function mockbroker(t, ...options) {
  const broker = await MockBroker.start(...options);
  t.after(async () => {
    try {
      await broker.assertFaultsActed();
    } finally {
      await broker.close();
    }
  });
  return broker;
}

/** A process of the command `mockbroker`, which the variable MOCKBROKER names if it is not on the PATH. */
export class MockBroker {
  /** What clients need as list of brokers: `host:port`, comma-separated. */
  bootstrapServers;
  /** The URL of the control; `/openapi.json` below it describes all operations. */
  controlUrl;
  #process;
  #exited;

  constructor(process, exited, bootstrapServers, controlUrl) {
    this.#process = process;
    this.#exited = exited;
    this.bootstrapServers = bootstrapServers;
    this.controlUrl = controlUrl;
  }

  /**
   * Start a cluster on free ports, with short timers; resolved when it accepts connections. The process ends with
   * close(), and also when this one ends in any way, since its standard input is closed then.
   */
  static async start(...options) {
    const command = process.env.MOCKBROKER ?? 'mockbroker';
    const words = ['--port', '0', '--control', '0', '--profile', 'quick', '--log-level', 'warning', '--exit-with-stdin'];
    const child = spawn(command, [...words, ...options], { stdio: ['pipe', 'pipe', 'inherit'] });
    const exited = once(child, 'exit');
    exited.catch(() => {}); // Such as ENOENT: readAddresses reports it.
    try {
      const [bootstrapServers, controlUrl] = await readAddresses(child);
      return new MockBroker(child, exited, bootstrapServers, controlUrl);
    } catch (error) {
      child.kill('SIGKILL');
      throw new Error(`${command} has not printed its addresses: ${error.message}`, { cause: error });
    }
  }

  /**
   * Add a fault.
   *
   * @param {object} when which requests, as { api: 'Produce', times: 2 }
   * @param {object} then what happens to them, as { error: 'NOT_LEADER_OR_FOLLOWER' }
   * @returns {Promise<number>} its number
   */
  async addFault(when, then) {
    const { faults } = await this.request('POST', '/v1/faults', { when, then });
    return faults[0].number;
  }

  /** Throw an AssertionError if a fault has not acted. */
  async assertFaultsActed() {
    const { misses } = await this.request('GET', '/v1/faults/misses');
    if (misses.length > 0) {
      throw new AssertionError({ message: misses.map((miss) => miss.message).join('\n') });
    }
  }

  /**
   * Wait for a state: 'group' with { groupId, state, members }, 'offset' with { groupId, topic, partition, offset },
   * 'request' with { api, count } and filters, 'share-members' with { groupId, members }. Rejected with what was seen
   * instead when the limit has passed.
   */
  async waitFor(what, condition) {
    return this.request('POST', `/v1/waits/${what}`, { timeoutMs: WAIT_LIMIT_MS, ...condition });
  }

  /** The requests of an API that match the filters (docs/control.md), oldest first, each with its response. */
  async exchanges(api, filters = {}) {
    return (await this.#find({ api, ...filters })).exchanges;
  }

  /** Throw an AssertionError unless exactly so many requests match; it shows the requests that come nearest. */
  async assertCount(expected, api, filters = {}) {
    const { count } = await this.#find({ api, bodies: false, ...filters });
    if (count !== expected) {
      const question = JSON.stringify({ api, ...filters });
      const message = `expected ${expected} requests with ${question}, but there are ${count}; the nearest:\n`;
      throw new AssertionError({ message: message + (await this.#nearest(api)), actual: count, expected });
    }
  }

  /** The newest requests of this API, or of all if there is none, a line for each. */
  async #nearest(api) {
    const newest = { order: 'desc', limit: NEAREST_MAX, bodies: false };
    let { exchanges } = await this.#find({ api, ...newest });
    if (exchanges.length === 0) {
      ({ exchanges } = await this.#find(newest));
    }
    const lines = exchanges.map(({ number, api: name, version, clientId, topics, errors, faults }) =>
      `  #${number} ${name} v${version} ${JSON.stringify({ clientId, topics, errors, faults })}`);
    return lines.join('\n') || '  none: no request has come';
  }

  #find(parameters) {
    return this.request('GET', `/v1/exchanges?${new URLSearchParams(parameters)}`);
  }

  /** Drop all topics, records, groups, faults and the history: the cluster is as after its start. */
  async reset() {
    await this.request('POST', '/v1/cluster/reset');
  }

  /**
   * Send any operation of the control. Resolved with the answer, undefined if it has no body; rejected with the
   * explanation of the control if it refuses, or a wait was in vain.
   */
  async request(method, path, body) {
    const response = await fetch(this.controlUrl + path, {
      method,
      headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout((body?.timeoutMs ?? 0) + 10_000),
    });
    const text = await response.text();
    if (!response.ok) {
      const problem = response.headers.get('Content-Type')?.includes('json') ? JSON.parse(text).detail : text;
      throw new Error(`${method} ${path}: ${response.status} ${problem}`);
    }
    return text ? JSON.parse(text) : undefined;
  }

  /** Whether the process runs. */
  get isRunning() {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  /** End the process. */
  async close() {
    this.#process.stdin.end();
    const timer = setTimeout(() => this.#process.kill('SIGKILL'), STOP_LIMIT_MS);
    const [code, signal] = await this.#exited.finally(() => clearTimeout(timer));
    if (code !== 0) {
      throw new Error(`mockbroker ended with ${code ?? signal}`);
    }
  }
}

/** The first two lines of the output. Rejected if the process cannot be started, ends, or exceeds the limit. */
async function readAddresses(child) {
  const lines = [];
  const output = createInterface({ input: child.stdout });
  const limit = setTimeout(() => child.kill('SIGKILL'), START_LIMIT_MS);
  try {
    await once(child, 'spawn'); // Rejected by the event 'error', as when there is no such command.
    for await (const line of output) {
      if (lines.push(line) === 2) {
        return lines;
      }
    }
    throw new Error('it has ended; its error is in the output above');
  } finally {
    clearTimeout(limit);
    output.close();
    child.stdout.resume(); // Nothing else is printed; an unread stream would keep this process waiting.
  }
}
