// Exchanges as they come: the newest ones that match the filter.

import { onSubmit, run } from "./actions.js";
import { get } from "./api.js";
import { byId, create, setText, Table } from "./dom.js";
import { clean, count, describeResult, duration, partitions, plural, size, timeOfDay } from "./format.js";
import { openExchange } from "./exchange_detail.js";

const EXCHANGES_MAX = 500;
const found = new Map();
let table;
let filter = {};
let isPaused = false;
let missed = 0;
let dropped = 0;
let onChange;
let onFilter;

/** changed(): the list has to be drawn again. filtered(): the stream of events has to be opened with the filter. */
export function startExchanges(changed, filtered) {
  onChange = changed;
  onFilter = filtered;
  table = new Table(byId("exchanges-table"), "Exchanges, the newest first", COLUMNS, "No request has matched until now.");
  onSubmit(byId("exchanges-filter"), applyFilter);
  byId("exchanges-pause").addEventListener("click", togglePause);
  byId("exchanges-clear").addEventListener("click", () => {
    found.clear();
    missed = 0;
    onChange();
  });
}

/** The parameters of the stream for the filter. */
export function filterParameters() {
  return { ...filter };
}

/** Ask for the newest exchanges. Those that come by events meanwhile stay. */
export async function loadExchanges() {
  found.clear();
  const answer = await ask(filter);
  answer.exchanges.forEach(add);
  missed = dropped = 0;
  onChange();
}

function ask(values) {
  return get(`/v1/exchanges?${new URLSearchParams({ ...values, order: "desc", limit: EXCHANGES_MAX, bodies: false })}`);
}

async function applyFilter(values) {
  const wanted = Object.fromEntries(Object.entries(values).map(([name, text]) => [name, text.trim()]).filter(([, text]) => text));
  await ask(wanted); // A wrong filter is refused here, before the stream is opened with it.
  filter = wanted;
  onFilter();
  await loadExchanges();
}

/** Take an exchange of an event: a request, or later the same with its response. */
export function takeExchange(exchange) {
  if (isPaused) missed += found.has(exchange.number) ? 0 : 1;
  add(exchange);
  if (!isPaused) onChange();
  else renderAbout();
}

function add(exchange) {
  const known = found.get(exchange.number);
  if (known && isDone(known) && !isDone(exchange)) return;
  if (!known && found.size >= EXCHANGES_MAX) {
    const oldest = Math.min(...found.keys());
    if (exchange.number < oldest) return;
    found.delete(oldest);
    dropped += 1;
  }
  found.set(exchange.number, exchange);
}

function isDone(exchange) {
  return exchange.answeredMs !== null || exchange.closed !== null;
}

function togglePause() {
  isPaused = !isPaused;
  missed = 0;
  byId("exchanges-pause").setAttribute("aria-pressed", isPaused);
  setText(byId("exchanges-pause"), isPaused ? "Resume the list" : "Pause the list");
  if (isPaused) renderAbout();
  else onChange();
}

export function renderExchanges() {
  if (!isPaused) {
    table.update([...found].sort(([one], [other]) => other - one), EXCHANGES_MAX);
  }
  renderAbout();
}

function renderAbout() {
  const older = dropped ? ` ${plural(dropped, "older one")} not shown any more.` : "";
  const paused = isPaused ? ` The list is paused; ${plural(missed, "request")} came since.` : "";
  setText(byId("exchanges-about"), `The newest ${count(found.size)}, at most ${EXCHANGES_MAX}.${older}${paused}`);
}

const COLUMNS = [
  {
    title: "Number",
    heading: true,
    fill: (cell, { number, api }) => {
      if (cell.dataset.number === `${number}`) return;
      cell.dataset.number = number;
      const label = `Open exchange ${number}, ${api}`;
      cell.replaceChildren(create("button", { type: "button", class: "link", "aria-label": label, click: () => run(() => openExchange(number)) }, `${number}`));
    },
  },
  { title: "Time", show: ({ arrivedMs }) => timeOfDay(arrivedMs) },
  { title: "Request", show: ({ api, version }) => `${clean(api, 60)} v${version}` },
  {
    title: "Result",
    fill: (cell, exchange) => {
      setText(cell, clean(describeResult(exchange), 80));
      cell.className = exchange.errors.length || exchange.closed !== null ? "bad" : isDone(exchange) ? "" : "soft";
      if (exchange.faults.length) cell.append(create("span", { class: "badge", "data-state": "fault" }, `fault: ${clean(exchange.faults.join(", "), 100)}`));
    },
  },
  { title: "Latency", number: true, show: ({ arrivedMs, answeredMs }) => (answeredMs === null ? "" : duration(answeredMs - arrivedMs)) },
  { title: "Client", show: ({ clientId, client }) => clean(clientId || client, 40) },
  { title: "Topics", show: ({ topics }) => clean(partitions(topics), 80) },
  { title: "Node", number: true, show: ({ node }) => `${node}` },
  { title: "Bytes", number: true, show: ({ requestBytes, responseBytes }) => `${size(requestBytes)} / ${size(responseBytes)}` },
];
