// The cluster's clock.

import { button, onSubmit } from "./actions.js";
import { get, send } from "./api.js";
import { byId, setText } from "./dom.js";
import { moment } from "./format.js";
import { clusterNow, setClock, state } from "./state.js";

const READ_MS = 2_000;
const MODES = { running: "running", frozen: "frozen", auto: "jumps to the next deadline" };

async function change(name, body) {
  setClock(await send("POST", `/v1/clock/${name}`, body));
  renderClock();
}

export function startClock() {
  byId("clock-actions").append(
    button("Freeze", () => change("freeze")),
    button("Resume", () => change("resume"), "Resume the clock"),
    button("Auto", () => change("auto"), "Auto: jump to the next deadline whenever all clients wait"),
  );
  onSubmit(byId("clock-advance"), ({ amount, unit }) => change("advance", { durationMs: Math.round(amount * unit) }));
  // A clock that runs causes no event when it is moved.
  setInterval(async () => {
    if (document.hidden || !state.clock) return;
    try {
      setClock(await get("/v1/clock"));
    } catch {
      // The stream says that the cluster cannot be reached.
    }
  }, READ_MS);
}

export function renderClock() {
  if (!state.clock) return;
  const { mode } = state.clock;
  const [freeze, resume, auto] = byId("clock-actions").children;
  setText(byId("clock-mode"), MODES[mode] ?? mode);
  byId("clock-mode").dataset.state = mode;
  freeze.setAttribute("aria-pressed", mode === "frozen");
  resume.setAttribute("aria-pressed", mode === "running");
  auto.setAttribute("aria-pressed", mode === "auto");
  showTime();
}

/** Show the time, without its milliseconds while it runs. */
export function showTime() {
  const text = moment(Math.round(clusterNow()));
  setText(byId("clock-now"), `${state.clock.mode === "frozen" ? text : text.slice(0, 19)} UTC`);
}
