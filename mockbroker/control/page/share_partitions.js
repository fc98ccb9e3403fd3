// Share partitions: each as a strip of its records by state, and a table of the same.

import { byId, create, KeyedList, setText, Table } from "./dom.js";
import { clean, count, duration, plural } from "./format.js";
import { clusterNow, memberName, state, topicEnd } from "./state.js";

const PARTITIONS_MAX = 30;
const SEGMENTS_MAX = 200;
const ROWS_MAX = 100;
/** What a part of a strip means, by the states of records and the rest; the class has its colour and its pattern. */
const MEANINGS = {
  AVAILABLE: "available",
  ACQUIRED: "acquired",
  ACKNOWLEDGED: "acknowledged",
  ARCHIVED: "archived",
  GAP: "no record",
  LATER: "not fetched yet",
};
let list, more;

export function startSharePartitions() {
  const entries = Object.entries(MEANINGS);
  byId("share-legend").append(
    ...entries.map(([name, text]) => create("li", {}, create("span", { class: `part part-${name.toLowerCase()}` }), text)),
  );
  const items = create("div", { class: "stack", tabindex: -1 });
  more = create("p", { class: "empty" });
  byId("share-list").replaceChildren(items, more);
  list = new KeyedList(items, createPartition);
}

export function renderSharePartitions() {
  const entries = [...state.sharePartitions].sort(([one], [other]) => (one < other ? -1 : 1));
  // A strip also shows the end of the log and names of clients.
  list.update(
    entries
      .slice(0, PARTITIONS_MAX)
      .map(([key, partition]) => [key, { partition, end: topicEnd(partition.topic, partition.partition) }]),
  );
  const left = entries.length - PARTITIONS_MAX;
  const nothing = "No share group has fetched records yet.";
  setText(more, entries.length === 0 ? nothing : left > 0 ? `and ${plural(left, "more share partition")}` : "");
}

function createPartition() {
  const title = create("h3");
  const about = create("p", { class: "soft" });
  const strip = create("div", { class: "strip", role: "img" });
  const scale = create("p", { class: "scale", "aria-hidden": "true" }, create("span"), create("span"));
  const host = create("div");
  const element = create("article", { class: "card" }, create("div", { class: "head" }, title, about), strip, scale, host);
  let table;
  const update = ({ partition, end }) => {
    const name = `${clean(partition.topic, 60)}-${partition.partition} of ${clean(partition.groupId, 60)}`;
    table ??= new Table(host, `Records in flight, ${name}`, COLUMNS, "No records are in flight.");
    const parts = splitPartition(partition, end);
    setText(title, name);
    setText(about, describePlace(partition));
    strip.setAttribute("aria-label", `${name}: ${describe(parts)}`);
    strip.replaceChildren(...drawParts(parts));
    setText(scale.firstChild, count(partition.startOffset));
    setText(scale.lastChild, count(Math.max(end ?? 0, partition.endOffset)));
    const rows = partition.inFlight.map((run) => [run.firstOffset, { ...run, owner: nameOwner(partition, run) }]);
    table.update(rows, ROWS_MAX);
  };
  return { element, update };
}

function describePlace({ leader, startOffset, endOffset, stateEpoch }) {
  const hasRecords = endOffset > startOffset;
  const place = hasRecords ? `offsets ${count(startOffset)} to ${count(endOffset - 1)}` : `at offset ${count(startOffset)}`;
  return `${place}, leader node ${leader}, state epoch ${stateEpoch}`;
}

/** The parts of a strip: {meaning, first, last, run}, in order and without holes. */
function splitPartition({ startOffset, endOffset, inFlight }, logEnd) {
  const parts = [];
  let next = startOffset;
  const add = (meaning, last, run = null) => {
    if (last >= next) parts.push({ meaning, first: next, last, run });
    next = Math.max(next, last + 1);
  };
  for (const run of inFlight) {
    add("GAP", run.firstOffset - 1);
    add(run.state, run.lastOffset, run);
  }
  add("GAP", endOffset - 1);
  if (logEnd !== null) add("LATER", logEnd - 1);
  return parts;
}

function describe(parts) {
  const sums = new Map();
  for (const { meaning, first, last } of parts) sums.set(meaning, (sums.get(meaning) ?? 0) + last - first + 1);
  return [...sums].map(([meaning, sum]) => `${count(sum)} ${MEANINGS[meaning] ?? meaning}`).join(", ") || "no records";
}

/** Elements as wide as their numbers of records. Many records that were not fetched take a part of the strip only. */
function drawParts(parts) {
  const inFlight = parts.reduce((sum, { run, first, last }) => sum + (run ? last - first + 1 : 0), 0);
  const otherMax = Math.max(inFlight / 4, 8);
  const shown = parts.slice(0, SEGMENTS_MAX);
  const elements = shown.map(({ meaning, first, last, run }) => {
    const records = last - first + 1;
    const text = run ? `${run.deliveryCount}` : meaning === "LATER" ? `${count(records)} ${MEANINGS.LATER}` : "";
    const title = `${first === last ? first : `${first} to ${last}`}: ${MEANINGS[meaning] ?? meaning}`;
    const element = create("span", { class: `part part-${meaning.toLowerCase()}`, title }, create("b", {}, text));
    if (run?.isInTransition) element.classList.add("in-transition");
    element.style.flexGrow = run ? records : Math.min(records, otherMax);
    return element;
  });
  if (parts.length > shown.length) elements.push(create("span", { class: "part" }, `and ${parts.length - shown.length} more parts`));
  return elements;
}

function nameOwner({ groupId }, { memberId }) {
  if (memberId === null) return "";
  const client = memberName(groupId, memberId);
  const id = memberId.length > 10 ? `${clean(memberId.slice(0, 8))}…` : clean(memberId);
  return client === null ? id : `${clean(client, 40)} (${id})`;
}

const COLUMNS = [
  {
    title: "Offsets",
    heading: true,
    show: ({ firstOffset, lastOffset }) => (firstOffset === lastOffset ? count(firstOffset) : `${count(firstOffset)} to ${count(lastOffset)}`),
  },
  {
    title: "State",
    fill: (cell, run) => {
      const text = `${MEANINGS[run.state] ?? run.state}${run.isInTransition ? ", being stored" : ""}`;
      cell.replaceChildren(create("span", { class: `part part-${run.state.toLowerCase()}` }), text);
    },
  },
  { title: "Deliveries", number: true, show: (run) => `${run.deliveryCount}` },
  { title: "Owner", show: (run) => run.owner },
  {
    title: "Lock",
    number: true,
    fill: (cell, run) => {
      if (run.lockDeadlineMs === null) delete cell.dataset.deadline;
      else cell.dataset.deadline = run.lockDeadlineMs;
      setText(cell, run.lockDeadlineMs === null ? "" : remaining(run.lockDeadlineMs));
    },
  },
];

function remaining(deadlineMs) {
  return duration(Math.max(deadlineMs - clusterNow(), 0));
}

/** Show how long each lock remains. */
export function showLocks() {
  for (const cell of byId("share-list").querySelectorAll("[data-deadline]")) setText(cell, remaining(Number(cell.dataset.deadline)));
}
