// Faults: those that act, forms that add some, and chaos profiles.

import { button, onSubmit, run } from "./actions.js";
import { get, send } from "./api.js";
import { byId, create, replaceChildren, Table } from "./dom.js";
import { clean, count, plural } from "./format.js";
import { applyEvent, state } from "./state.js";

/** What the form offers: the text, and what happens as `then` of the fault, by the values of the form. */
const EFFECTS = {
  error: ["answer with an error code", ({ error }) => ({ error })],
  delay: ["delay the answer", ({ delayMs }) => ({ delayMs: Number(delayMs) })],
  throttle: ["throttle the client", ({ throttleMs }) => ({ throttleMs: Number(throttleMs) })],
  close: ["close the connection", () => ({ drop: "close" })],
  reset: ["reset the connection", () => ({ drop: "reset" })],
  never: ["never answer", () => ({ answer: "never" })],
  twice: ["answer twice", () => ({ answer: "twice" })],
  stale: ["answer with stale leaders", () => ({ stale: true })],
  corrupt: ["corrupt the records", () => ({ corruptRecords: true })],
  hold: ["hold until released", () => ({ hold: true })],
};
const CONDITIONS = { api: String, topic: String, partition: Number, clientId: String, times: Number };
const EXAMPLE = { when: { api: "Produce", topic: "orders", every: 3 }, then: { delayMs: 200, after: true }, optional: true };
let table, onChange;

/** changed(name): is called after faults have changed. */
export function startFaults(changed) {
  onChange = changed;
  table = new Table(
    byId("faults-table"),
    "Faults",
    [
      { title: "Number", heading: true, show: (fault) => `${fault.number}` },
      { title: "Name", show: (fault) => clean(fault.name, 120) },
      { title: "Hits", number: true, show: (fault) => count(fault.hits) },
      { title: "Held", number: true, show: (fault) => count(fault.held) },
      { title: "Actions", fill: fillActions },
      { title: "Definition", fill: (cell, { fault }) => cell.replaceChildren(create("code", {}, clean(JSON.stringify(fault), 400))) },
    ],
    "There are no faults.",
  );
  byId("faults-clear").addEventListener("click", () => run(removeAll));
  startForm(byId("fault-form"));
  const json = byId("fault-json");
  json.elements.json.value = JSON.stringify(EXAMPLE, null, 2);
  onSubmit(json, (values) => addFaults(parse(values.json)));
  startChaos();
}

function fillActions(cell, { number, held }) {
  const key = `${number}${held ? " held" : ""}`;
  if (cell.dataset.number === key) return;
  cell.dataset.number = key;
  const buttons = [button("Remove", () => remove(number), `Remove fault ${number}`)];
  if (held) buttons.unshift(button("Release", () => release(number), `Release the requests that fault ${number} holds`));
  cell.replaceChildren(...buttons);
}

async function release(number) {
  await send("POST", `/v1/faults/${number}/release`, {});
}

async function remove(number) {
  await send("DELETE", `/v1/faults/${number}`);
  onChange(applyEvent("fault", { removed: true, key: [number] }));
}

async function removeAll() {
  await send("DELETE", "/v1/faults");
  state.faults.clear();
  onChange("faults");
}

async function addFaults(value) {
  const { faults } = await send("POST", "/v1/faults", value);
  for (const fault of faults) onChange(applyEvent("fault", fault));
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`This is not JSON: ${error.message}`);
  }
}

function startForm(form) {
  const { effect } = form.elements;
  effect.append(...Object.entries(EFFECTS).map(([name, [text]]) => create("option", { value: name }, text)));
  const showFields = () => {
    for (const label of form.querySelectorAll("[data-effect]")) label.hidden = label.dataset.effect !== effect.value;
  };
  effect.addEventListener("change", showFields);
  showFields();
  onSubmit(form, (values) => {
    const when = {};
    for (const [name, convert] of Object.entries(CONDITIONS)) if (name in values) when[name] = convert(values[name]);
    const then = EFFECTS[values.effect][1](values);
    if ("after" in values) then.after = true;
    // A fault of this page that has not acted fails no test.
    return addFaults({ when, then, optional: true });
  });
}

export function renderFaults() {
  table.update([...state.faults].sort(([, one], [, other]) => one.number - other.number));
  byId("faults-clear").disabled = state.faults.size === 0;
}

let profiles = [];

function startChaos() {
  const form = byId("chaos-form");
  const describe = () => {
    byId("chaos-about").textContent = profiles.find(({ name }) => name === form.elements.profile.value)?.description ?? "";
  };
  form.elements.profile.addEventListener("change", describe);
  onSubmit(form, async ({ profile, seed }) => {
    await send("POST", "/v1/chaos", { profile, seed: seed === undefined ? null : Number(seed) });
    await loadChaos();
  });
}

/** Ask for the chaos profiles, and for those that were started. */
export async function loadChaos() {
  const form = byId("chaos-form");
  if (!profiles.length) {
    ({ profiles } = await get("/v1/chaos/profiles"));
    form.elements.profile.append(...profiles.map(({ name }) => create("option", { value: name }, name)));
    form.elements.profile.dispatchEvent(new Event("change"));
  }
  const { chaos } = await get("/v1/chaos");
  replaceChildren(byId("chaos-runs"), ...chaos.filter((one) => one.isActive).map(drawRun));
}

function drawRun({ number, profile, seed, hits }) {
  const stop = async () => {
    await send("DELETE", `/v1/chaos/${number}`);
    await loadChaos();
  };
  return create("li", {}, `${profile}, seed ${seed}, ${plural(hits, "hit")} `, button("Stop", stop, `Stop ${profile}`));
}
