// The stream of events: read by fetch, so that the token can be sent, and opened again behind its last event.

import { open } from "./api.js";

const DELAY_MIN_MS = 500;
const DELAY_MAX_MS = 10_000;
// The control sends something every 15 seconds.
const SILENCE_MAX_MS = 40_000;

export class EventStream {
  /**
   * query(): the parameters of the next connection. onEvent(kind, data): for each event.
   * onState(isLive, delayMs): when the stream was opened, or lost and is opened again after so long.
   */
  constructor({ query, onEvent, onState }) {
    Object.assign(this, { query, onEvent, onState });
    this.lastId = null;
    this.wake = null;
  }

  /** Open the stream again with other parameters; no event is lost. */
  restart() {
    this.isRestarted = true;
    this.controller?.abort();
    this.wake?.();
  }

  /** Close the stream; `run` opens it again behind its last event. */
  stop() {
    this.isStopped = true;
    this.restart();
  }

  /** Read until the stream is stopped. */
  async run() {
    this.isStopped = false;
    for (let delayMs = DELAY_MIN_MS; ; ) {
      this.isRestarted = false;
      try {
        await this.readOnce(() => (delayMs = DELAY_MIN_MS));
      } catch (error) {
        if (!this.isRestarted) console.debug("stream:", error.message);
      }
      if (this.isStopped) return;
      if (this.isRestarted) continue;
      this.onState(false, delayMs);
      await new Promise((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, delayMs);
      });
      if (this.isStopped) return;
      delayMs = Math.min(delayMs * 2, DELAY_MAX_MS);
    }
  }

  async readOnce(onOpen) {
    this.controller = new AbortController();
    const headers = this.lastId === null ? {} : { "Last-Event-ID": this.lastId };
    const response = await open(`/v1/events?${this.query()}`, { headers, signal: this.controller.signal });
    onOpen();
    this.onState(true, 0);
    for await (const { kind, id, data } of readEvents(response.body, this.controller)) {
      if (id !== null) this.lastId = id;
      this.onEvent(kind, JSON.parse(data));
    }
  }
}

/** The events of a body. Aborts when nothing has come for too long. */
async function* readEvents(body, controller) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { kind: "", id: null, data: "" };
  for (;;) {
    const timer = setTimeout(() => controller.abort(), SILENCE_MAX_MS);
    const { done, value } = await reader.read().finally(() => clearTimeout(timer));
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data: ")) event.data = line.slice(6);
      else if (line.startsWith("event: ")) event.kind = line.slice(7);
      else if (line.startsWith("id: ")) event.id = line.slice(4);
      else if (line === "") {
        if (controller.signal.aborted) return; // The next connection gets it again.
        if (event.kind) yield event;
        event = { kind: "", id: null, data: "" };
      }
    }
  }
}
