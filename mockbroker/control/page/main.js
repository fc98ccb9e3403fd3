// Starts the page: loads the state, reads the stream of events, and draws what has changed.

import { get, has, loadApi } from "./api.js";
import { renderClock, showTime, startClock } from "./clock.js";
import { byId, create, setText } from "./dom.js";
import { EventStream } from "./event_stream.js";
import { startExchangeDetail, updateExchange } from "./exchange_detail.js";
import { filterParameters, loadExchanges, renderExchanges, startExchanges, takeExchange } from "./exchanges.js";
import { loadChaos, renderFaults, startFaults } from "./faults.js";
import { clean, count, plural } from "./format.js";
import { renderGroups, startGroups } from "./groups.js";
import { renderNodes, renderTopics, startNodes } from "./nodes.js";
import { renderSharePartitions, showLocks, startSharePartitions } from "./share_partitions.js";
import { applyEvent, loadState, state } from "./state.js";

const DRAW_MS = 150;
const TICK_MS = 250;
// More events than these, while everything is loaded, let it be loaded again.
const QUEUED_MAX = 5_000;

/** What is drawn after each part of the state has changed. */
const DRAWINGS = {
  cluster: [drawTitle, drawTiles],
  nodes: [renderNodes, drawTiles],
  topics: [renderTopics, renderSharePartitions, drawTiles],
  groups: [renderGroups, renderSharePartitions, drawTiles],
  sharePartitions: [renderSharePartitions],
  faults: [renderFaults, drawTiles],
  clock: [renderClock],
  exchanges: [renderExchanges, drawTiles],
};
const pending = new Set();
let isScheduled = false;
let lastNumber = 0;

/** Draw soon: many changes are one drawing. */
function draw(name) {
  for (const drawing of DRAWINGS[name]) pending.add(drawing);
  if (isScheduled) return;
  isScheduled = true;
  setTimeout(() => requestAnimationFrame(drawPending), DRAW_MS);
}

function drawPending() {
  isScheduled = false;
  const drawings = [...pending];
  pending.clear();
  if (state.cluster) for (const drawing of drawings) drawing();
}

let isLoading = false;
let isLoadNeeded = false;
let queued = [];

/** Load everything. Events that come meanwhile are applied afterwards, since they may be newer. */
async function load() {
  isLoadNeeded = true;
  if (isLoading) return;
  isLoading = true;
  try {
    while (isLoadNeeded) {
      isLoadNeeded = false;
      if (queued.length >= QUEUED_MAX) queued = [];
      await loadApi();
      hideAbsent();
      await Promise.all([loadState(), loadExchanges(), has("/v1/chaos") ? loadChaos() : null]);
    }
  } catch (error) {
    console.debug("load:", error.message);
    setTimeout(load, 1000);
  } finally {
    isLoading = false;
    for (const [kind, data] of queued) takeEvent(kind, data);
    queued = [];
  }
  for (const name of Object.keys(DRAWINGS)) draw(name);
}

/** Hide the parts of the page whose operations this server does not have. */
function hideAbsent() {
  for (const part of document.querySelectorAll("[data-needs]")) part.hidden = !has(part.dataset.needs);
}

function takeEvent(kind, data) {
  if (kind === "request" || kind === "exchange") {
    lastNumber = Math.max(lastNumber, data.number);
    takeExchange(data);
    updateExchange(data).catch((error) => console.debug("exchange:", error.message));
  } else if (kind === "start") {
    if (!state.cluster) load();
  } else if (kind === "lost") {
    load();
  } else if (kind === "reset") {
    lastNumber = 0;
    queued = [];
    load();
  } else if (isLoading) {
    if (queued.length < QUEUED_MAX) queued.push([kind, data]);
    else isLoadNeeded = true;
  } else if (kind === "chaos") {
    loadChaosSoon();
  } else {
    draw(applyEvent(kind, data));
  }
}

let chaosTimer = null;

function loadChaosSoon() {
  chaosTimer ??= setTimeout(() => {
    chaosTimer = null;
    loadChaos().catch((error) => console.debug("chaos:", error.message));
  }, 1000);
}

const stream = new EventStream({
  // Without kinds: all that the server has.
  query: () => new URLSearchParams(filterParameters()),
  onEvent: takeEvent,
  onState(isLive, delayMs) {
    byId("stream").dataset.state = isLive ? "live" : "lost";
    setText(byId("stream"), isLive ? "live" : `connection lost; trying again${delayMs >= 1000 ? ` in ${Math.round(delayMs / 1000)} s` : ""}`);
  },
});

function drawTitle() {
  const { bootstrapServers, seed, version } = state.cluster;
  const addresses = clean(bootstrapServers, 1000).split(",");
  byId("title").replaceChildren(...addresses.flatMap((text, at) => (at ? [",", create("wbr"), text] : [text])));
  document.title = `mockbroker ${clean(bootstrapServers, 60)}`;
  const seeded = seed === null ? "" : `, seed ${seed}`;
  setText(byId("about"), `${describeServer(state.cluster)}${seeded}; mockbroker ${version}`);
}

function describeServer({ upstream, nodes, release, profile, shareEdition }) {
  if (upstream !== undefined) return `Proxy for ${clean(upstream, 80)}, ${plural(nodes.length, "node")}`;
  const edition = shareEdition === null ? "" : `, share groups of ${shareEdition}`;
  return `As Kafka ${release}${edition}, profile ${profile}`;
}

function drawTiles() {
  const nodes = [...state.nodes.values()];
  const running = nodes.filter((node) => node.state === "running").length;
  const topics = [...state.topics.values()].filter((topic) => !topic.isInternal);
  const members = [...state.groups.values()].reduce((sum, group) => sum + group.members.length, 0);
  const tiles = {
    ...(has("/v1/nodes") && { "Nodes running": `${running} of ${nodes.length}` }),
    ...(has("/v1/topics") && { Topics: count(topics.length) }),
    ...(has("/v1/groups") && { Groups: count(state.groups.size), Members: count(members) }),
    Faults: count(state.faults.size),
    Requests: count(lastNumber),
  };
  const host = byId("tiles");
  if (host.children.length !== Object.keys(tiles).length) {
    host.replaceChildren(...Object.keys(tiles).map((name) => create("div", {}, create("dt", {}, name), create("dd"))));
  }
  Object.values(tiles).forEach((text, at) => setText(host.children[at].lastChild, text));
}

async function loadNames() {
  const names = await get("/page/names.json");
  for (const [id, list] of [["api-names", names.apis], ["error-names", names.errors]]) {
    byId(id).append(...list.map((name) => create("option", { value: name })));
  }
}

startClock();
startNodes(draw);
startGroups();
startSharePartitions();
startFaults(draw);
startExchangeDetail();
startExchanges(
  () => draw("exchanges"),
  () => stream.restart(),
);
setInterval(() => {
  if (!state.clock || document.hidden) return;
  showTime();
  showLocks();
}, TICK_MS);
loadNames().catch((error) => console.debug("names:", error.message));
stream.run();
// A browser may keep a page that was left, with its connections, of which it has few for each server.
addEventListener("pagehide", () => stream.stop());
addEventListener("pageshow", (event) => event.persisted && stream.run());
