// Nodes and topics.

import { button, run } from "./actions.js";
import { send } from "./api.js";
import { byId, create, replaceChildren, Table } from "./dom.js";
import { clean, count, ranges } from "./format.js";
import { applyEvent, state } from "./state.js";

const ACTIONS = { running: ["pause", "stop", "kill"], paused: ["resume", "kill"], down: ["start"] };
let nodes, topics, onChange;

/** changed(name): is called after a node has changed. */
export function startNodes(changed) {
  onChange = changed;
  nodes = new Table(
    byId("nodes-table"),
    "Nodes",
    [
      { title: "Node", heading: true, show: describeNode },
      { title: "State", fill: (cell, node) => replaceChildren(cell, badge(node.state)) },
      { title: "Actions", fill: fillActions },
      { title: "Addresses", show: (node) => addresses(node.endpoints) },
    ],
    "There are no nodes.",
  );
  topics = new Table(
    byId("topics-table"),
    "Partitions of topics",
    [
      { title: "Topic", heading: true, show: ({ topic }) => clean(topic.name, 80) },
      { title: "Partition", number: true, show: ({ row }) => `${row.partition}` },
      { title: "Leader", show: ({ row }) => (row.leader < 0 ? "none" : `node ${row.leader}, epoch ${row.leaderEpoch}`) },
      { title: "Replicas", show: ({ row }) => ranges(row.replicas) },
      { title: "In sync", show: ({ row }) => ranges(row.inSync) },
      { title: "First offset", number: true, show: ({ row }) => count(row.startOffset) },
      { title: "End offset", number: true, show: ({ row }) => count(row.endOffset) },
    ],
    "There are no topics yet.",
  );
  byId("node-add").addEventListener("click", () => run(async () => changeNode(await send("POST", "/v1/nodes"))));
  byId("topics-internal").addEventListener("change", renderTopics);
}

function describeNode({ node, isController, rack }) {
  const roles = [isController && "controller", rack !== null && `rack ${clean(rack, 40)}`].filter(Boolean);
  return roles.length ? `${node} (${roles.join(", ")})` : `${node}`;
}

function addresses(endpoints) {
  return Object.entries(endpoints)
    .map(([name, address]) => `${clean(address, 80)} ${name}`)
    .join(", ");
}

export function badge(name) {
  return create("span", { class: "badge", "data-state": name.toLowerCase() }, name);
}

function changeNode(node) {
  onChange(applyEvent("node", node));
}

function fillActions(cell, { node, state: current }) {
  if (cell.dataset.state === current) return;
  cell.dataset.state = current;
  const buttons = ACTIONS[current].map((name) => {
    const text = name[0].toUpperCase() + name.slice(1);
    return button(text, async () => changeNode(await send("POST", `/v1/nodes/${node}/${name}`)), `${text} node ${node}`);
  });
  replaceChildren(cell, create("div", { class: "actions" }, ...buttons));
}

export function renderNodes() {
  nodes.update([...state.nodes].sort(([, one], [, other]) => one.node - other.node));
}

export function renderTopics() {
  const isShown = (topic) => !topic.isInternal || byId("topics-internal").checked;
  const shown = [...state.topics.values()].filter(isShown).sort((one, other) => (one.name < other.name ? -1 : 1));
  topics.update(
    shown.flatMap((topic) => topic.partitions.map((row) => [`${row.partition} ${topic.name}`, { topic, row }])),
  );
}
