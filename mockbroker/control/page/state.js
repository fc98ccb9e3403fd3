// What the page knows of the cluster: resources as the API has them, changed by events.

import { get, has } from "./api.js";

export const state = {
  cluster: null,
  nodes: new Map(),
  topics: new Map(),
  groups: new Map(),
  sharePartitions: new Map(),
  faults: new Map(),
  clock: null,
};

const KINDS = {
  node: ["nodes", (node) => [node.node]],
  topic: ["topics", (topic) => [topic.name]],
  group: ["groups", (group) => [group.groupId]],
  "share-partition": ["sharePartitions", (one) => [one.groupId, one.topic, one.partition]],
  fault: ["faults", (fault) => [fault.number]],
};

/** Change the state by an event. Returns: the name of what has changed. */
export function applyEvent(kind, data) {
  if (kind === "clock") {
    setClock(data);
    return "clock";
  }
  const [name, keyOf] = KINDS[kind];
  const key = JSON.stringify(data.removed ? data.key : keyOf(data));
  if (data.removed) state[name].delete(key);
  else state[name].set(key, data);
  if (kind === "share-partition" && !data.removed && state.clock) setClock({ ...state.clock, nowMs: data.nowMs });
  return name;
}

/** Ask for the whole state, as far as the server has it. */
export async function loadState() {
  const [cluster, nodes, topics, groups, faults, clock] = await Promise.all([
    get("/v1/cluster"),
    getIfThere("/v1/nodes", { nodes: [] }),
    getIfThere("/v1/topics", { topics: [] }),
    getIfThere("/v1/groups", { groups: [] }),
    get("/v1/faults"),
    getIfThere("/v1/clock", null),
  ]);
  const shares = groups.groups.filter((group) => group.kind === "share");
  const paths = shares.map((group) => `/v1/groups/${encodeURIComponent(group.groupId)}/share-partitions`);
  const found = await Promise.all(paths.map((path) => get(path)));
  state.cluster = cluster;
  if (clock) setClock(clock);
  else state.clock = null;
  replace("node", nodes.nodes);
  replace("topic", topics.topics);
  replace("group", groups.groups);
  replace("fault", faults.faults);
  replace("share-partition", found.flatMap((answer) => answer.sharePartitions));
}

function getIfThere(path, nothing) {
  return has(path) ? get(path) : nothing;
}

function replace(kind, resources) {
  const [name, keyOf] = KINDS[kind];
  state[name] = new Map(resources.map((resource) => [JSON.stringify(keyOf(resource)), resource]));
}

/** Note the time of the cluster's clock. */
export function setClock(clock) {
  state.clock = { ...clock, readAt: performance.now() };
}

/** The time of the cluster's clock now, milliseconds since 1970. */
export function clusterNow() {
  const { nowMs, mode, readAt } = state.clock;
  return mode === "frozen" ? nowMs : nowMs + (performance.now() - readAt);
}

export function topicEnd(topic, partition) {
  const found = state.topics.get(JSON.stringify([topic]));
  return found?.partitions.find((row) => row.partition === partition)?.endOffset ?? null;
}

export function memberName(groupId, memberId) {
  const group = state.groups.get(JSON.stringify([groupId]));
  return group?.members.find((member) => member.memberId === memberId)?.clientId || null;
}
