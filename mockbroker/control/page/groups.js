// Groups with their members, assignments, offsets and lag.

import { byId, create, KeyedList, setText, Table } from "./dom.js";
import { clean, count, partitions, plural } from "./format.js";
import { badge } from "./nodes.js";
import { state } from "./state.js";

const GROUPS_MAX = 30;
const ROWS_MAX = 100;
let list, more;

export function startGroups() {
  const host = byId("groups-list");
  const items = create("div", { class: "stack", tabindex: -1 });
  more = create("p", { class: "empty" });
  host.replaceChildren(items, more);
  list = new KeyedList(items, createGroup);
}

export function renderGroups() {
  const groups = [...state.groups].sort(([one], [other]) => (one < other ? -1 : 1));
  list.update(groups.slice(0, GROUPS_MAX));
  const left = groups.length - GROUPS_MAX;
  setText(more, groups.length === 0 ? "There are no groups yet." : left > 0 ? `and ${plural(left, "more group")}` : "");
}

function createGroup() {
  const title = create("h3");
  const about = create("p", { class: "soft" });
  const [memberHost, offsetHost] = [create("div"), create("div")];
  const element = create("article", { class: "card" }, create("div", { class: "head" }, title, about), memberHost, offsetHost);
  let members, offsets;
  const update = (group) => {
    const name = clean(group.groupId, 80);
    members ??= new Table(memberHost, `Members of ${name}`, MEMBER_COLUMNS, "The group has no members.");
    offsets ??= new Table(offsetHost, `Offsets of ${name}`, offsetColumns(group.kind), "Nothing was committed.");
    setText(title, name);
    const lag = group.offsets.reduce((sum, row) => sum + row.lag, 0);
    about.replaceChildren(
      badge(group.state),
      ` ${group.kind} group, ${plural(group.members.length, "member")}, lag ${count(lag)}`,
    );
    members.update(group.members.map((member) => [member.memberId, member]), ROWS_MAX);
    offsets.update(group.offsets.map((row) => [`${row.partition} ${row.topic}`, row]), ROWS_MAX);
  };
  return { element, update };
}

const MEMBER_COLUMNS = [
  { title: "Client", heading: true, show: (member) => clean(member.clientId || "(no client id)", 80) },
  { title: "Member id", show: (member) => clean(member.memberId, 80) },
  { title: "Host", show: (member) => clean(member.clientHost, 60) },
  { title: "Epoch", number: true, show: (member) => (member.epoch === null ? "" : `${member.epoch}`) },
  { title: "Assigned partitions", show: (member) => partitions(member.partitions) || "none" },
];

function offsetColumns(kind) {
  return [
    { title: "Topic", heading: true, show: (row) => clean(row.topic, 80) },
    { title: "Partition", number: true, show: (row) => `${row.partition}` },
    { title: kind === "share" ? "Start offset" : "Committed", number: true, show: (row) => count(row.offset) },
    { title: "End offset", number: true, show: (row) => count(row.endOffset) },
    { title: "Lag", number: true, show: (row) => count(row.lag) },
  ];
}
