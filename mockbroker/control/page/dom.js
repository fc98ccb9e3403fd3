// Elements. Text becomes text nodes, never markup; the policy of the page refuses anything else.

import { clean } from "./format.js";

export function byId(id) {
  return document.getElementById(id);
}

/** An element with attributes and children: elements, or text, which is cleaned. A function is a click handler. */
export function create(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  for (const child of children) if (child !== null) element.append(child instanceof Node ? child : clean(child));
  return element;
}

/** Set the text of an element, if it is another one: a selection in it stays. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Replace the children of an element, and keep the focus inside it. */
export function replaceChildren(element, ...children) {
  const hadFocus = element.contains(document.activeElement);
  element.replaceChildren(...children);
  if (hadFocus) (element.querySelector("button, a, input, summary") ?? element.closest("section"))?.focus();
}

/** The children of an element by keys. They stay the same elements as long as their keys do. */
export class KeyedList {
  /** createItem: returns {element, update(value)} for a new key. */
  constructor(parent, createItem) {
    this.parent = parent;
    this.createItem = createItem;
    this.items = new Map();
  }

  /** entries: [key, value] in order. An item is updated only if it has another value than before. */
  update(entries) {
    const wanted = new Set(entries.map(([key]) => key));
    for (const [key, item] of this.items) {
      if (wanted.has(key)) continue;
      if (item.element.contains(document.activeElement)) this.parent.closest("[tabindex]")?.focus();
      item.element.remove();
      this.items.delete(key);
    }
    let next = this.parent.firstElementChild;
    for (const [key, value] of entries) {
      let item = this.items.get(key);
      if (!item) {
        item = this.createItem(key);
        this.items.set(key, item);
      }
      if (item.value !== value) item.update(value);
      item.value = value;
      if (item.element === next) next = next.nextElementSibling;
      else this.parent.insertBefore(item.element, next);
    }
  }
}

const ROWS_MAX = 500;

/**
 * A table in a region that scrolls, so that it can be reached by keyboard.
 * columns: {title, number, heading, show(value): text, fill(cell, value)}; heading: its cells name the rows.
 */
export class Table {
  constructor(host, label, columns, empty) {
    this.columns = columns;
    const head = columns.map(({ title, number }) => create("th", { scope: "col", class: number && "number" }, title));
    this.body = create("tbody");
    this.region = create(
      "div",
      { class: "table", tabindex: 0, role: "region", "aria-label": label },
      create("table", {}, create("caption", { class: "hidden" }, label), create("thead", {}, create("tr", {}, ...head)), this.body),
    );
    this.region.hidden = true;
    this.empty = create("p", { class: "empty", hidden: true, tabindex: -1 }, empty);
    this.more = create("p", { class: "empty", hidden: true });
    host.replaceChildren(this.region, this.more, this.empty);
    this.rows = new KeyedList(this.body, () => this.createRow());
  }

  createRow() {
    const cells = this.columns.map(({ number, heading }) =>
      create(heading ? "th" : "td", { scope: heading && "row", class: number && "number" }),
    );
    const update = (value) => {
      this.columns.forEach(({ show, fill }, at) => (fill ? fill(cells[at], value) : setText(cells[at], show(value))));
    };
    return { element: create("tr", {}, ...cells), update };
  }

  /** entries: [key, value] in order. */
  update(entries, rowsMax = ROWS_MAX) {
    this.rows.update(entries.slice(0, rowsMax));
    const hadFocus = this.region.contains(document.activeElement);
    this.region.hidden = entries.length === 0;
    this.empty.hidden = entries.length > 0;
    if (hadFocus && this.region.hidden) this.empty.focus();
    this.more.hidden = entries.length <= rowsMax;
    setText(this.more, `and ${entries.length - rowsMax} more`);
  }
}
