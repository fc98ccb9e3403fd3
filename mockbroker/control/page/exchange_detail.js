// One exchange: its decoded request and response as trees, or its bytes by the fields that they belong to.

import { run } from "./actions.js";
import { get } from "./api.js";
import { byId, create, setText } from "./dom.js";
import { clean, count, describeResult, duration, moment, partitions, plural, size } from "./format.js";

// Branches are built when they are opened, each with so many elements at most.
const CHILDREN_MAX = 200;
// So many fields are shown before branches stay closed.
const OPEN_MAX = 300;
let shown = null;
let openLeft = 0;

export function startExchangeDetail() {
  const dialog = byId("detail");
  byId("detail-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    shown = null;
    byId("detail-request").replaceChildren();
    byId("detail-response").replaceChildren();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  for (const input of dialog.querySelectorAll("[name=view]")) input.addEventListener("change", () => run(showView));
}

/** Show an exchange in the dialog; the focus returns to its button afterwards. */
export async function openExchange(number) {
  await load(number);
  byId("detail").showModal();
  byId("detail-title").focus();
  await showView();
}

/** Show an exchange again that was open without its response. */
export async function updateExchange({ number }) {
  if (shown?.number !== number) return;
  await load(number);
  await showView();
}

async function load(number) {
  shown = await get(`/v1/exchanges/${number}`);
  setText(byId("detail-title"), `${clean(shown.api)} v${shown.version}, exchange ${number}`);
  byId("detail-facts").replaceChildren(
    ...facts(shown).flatMap(([name, text]) => [create("dt", {}, name), create("dd", {}, text)]),
  );
}

function facts(exchange) {
  const { answeredMs, arrivedMs } = exchange;
  return [
    ["Client", `${exchange.clientId || "(no client id)"} at ${exchange.client}, connection ${exchange.connection}`],
    ["Node", `${exchange.node}`],
    ["Principal", exchange.principal],
    ["Correlation id", `${exchange.correlationId}`],
    ["Arrived", moment(arrivedMs)],
    ["Result", describeResult(exchange) + (answeredMs === null ? "" : `, after ${duration(answeredMs - arrivedMs)}`)],
    ["Bytes", `request ${size(exchange.requestBytes)}, response ${size(exchange.responseBytes)}`],
    ["Topics", partitions(exchange.topics)],
    ["Faults", exchange.faults.join(", ")],
    ["Warnings", exchange.decodeWarnings.join("; ")],
  ].filter(([, text]) => text);
}

async function showView() {
  const exchange = shown;
  const view = byId("detail").querySelector("[name=view]:checked").value;
  const bytes = view === "decoded" ? null : await get(`/v1/exchanges/${exchange.number}/bytes?view=${view}`);
  if (shown !== exchange) return; // It was closed meanwhile.
  byId("detail").dataset.view = view;
  for (const side of ["request", "response"]) {
    const content = bytes === null ? drawTree(exchange[side]) : drawBytes(bytes[side], `${side}, ${view}`);
    byId(`detail-${side}`).replaceChildren(...content);
  }
}

function drawTree(message) {
  if (message === null) return [create("p", { class: "empty" }, "There is none.")];
  openLeft = OPEN_MAX;
  return [create("ul", { class: "tree" }, ...drawChildren(message))];
}

function drawChildren(value) {
  const entries = Array.isArray(value) ? value.map((item, at) => [`[${at}]`, item]) : Object.entries(value);
  const items = entries.slice(0, CHILDREN_MAX).map(([name, item]) => create("li", {}, drawField(name, item)));
  if (entries.length > CHILDREN_MAX) items.push(create("li", { class: "soft" }, `and ${count(entries.length - CHILDREN_MAX)} more`));
  return items;
}

function drawField(name, value) {
  const label = create("span", { class: "name" }, name);
  if (typeof value !== "object" || value === null) {
    const text = typeof value === "string" ? JSON.stringify(value) : String(value);
    const isError = /errorCode$/i.test(name) && value !== 0;
    return create("span", {}, label, ": ", create("code", { class: isError && "bad" }, clean(text, 2000)));
  }
  const length = Object.keys(value).length;
  const noun = plural(length, Array.isArray(value) ? "element" : "field");
  if (length === 0) return create("span", {}, label, ": ", create("span", { class: "soft" }, noun));
  const list = create("ul");
  openLeft -= length;
  const branch = create("details", { open: openLeft > 0 }, create("summary", {}, label, " ", create("span", { class: "soft" }, noun)), list);
  const build = () => {
    if (branch.open && !list.firstChild) list.append(...drawChildren(value));
  };
  branch.addEventListener("toggle", build);
  build();
  return branch;
}

function drawBytes(frame, label) {
  if (frame === null) return [create("p", { class: "empty" }, "There is none.")];
  if (frame.problem !== null) return [create("p", { class: "empty" }, frame.problem)];
  const text = create("pre", { tabindex: 0, role: "region", "aria-label": label });
  text.textContent = frame.lines.map((line) => clean(line, 2000)).join("\n");
  const cut = create("p", { class: "empty" }, `The beginning of ${size(frame.size)}.`);
  return frame.isCut ? [text, cut] : [text];
}
