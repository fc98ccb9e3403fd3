// Text for people: numbers, times, sizes, and text from the wire.

const TEXT_MAX = 200;
// Control characters, and those that hide or reorder text.
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Text from the wire: characters that cannot be seen are escaped, and long text is cut. */
export function clean(value, limit = TEXT_MAX) {
  const text = String(value);
  const shown = text.length > limit ? `${text.slice(0, limit)}… (${count(text.length - limit)} more)` : text;
  return shown.replace(INVISIBLE, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function count(number) {
  return number.toLocaleString("en");
}

/** "1 record", "2 records". */
export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** A time of the cluster's clock, milliseconds since 1970, as 10:42:03.120. */
export function timeOfDay(ms) {
  return isDate(ms) ? new Date(ms).toISOString().slice(11, 23) : `${ms} ms`;
}

/** The same with its date. */
export function moment(ms) {
  return isDate(ms) ? new Date(ms).toISOString().replace("T", " ").replace("Z", "") : `${ms} ms`;
}

function isDate(ms) {
  return Math.abs(ms) < 8.64e15;
}

export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60 ? `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s` : `${(ms / 3_600_000).toFixed(1)} h`;
}

export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1 << 20 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}

/** Numbers with consecutive ones as ranges: [0, 1, 2, 5] is "0-2, 5". */
export function ranges(numbers) {
  const parts = [];
  for (const number of [...numbers].sort((one, other) => one - other)) {
    const last = parts.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(", ");
}

/** Partitions by topic: "orders 0-2; audit 0". */
export function partitions(byTopic) {
  return Object.entries(byTopic)
    .map(([topic, indexes]) => (indexes.length ? `${clean(topic, 60)} ${ranges(indexes)}` : clean(topic, 60)))
    .join("; ");
}

/** What became of a request. */
export function describeResult({ errors, closed, unread, answeredMs }) {
  if (errors.length) return errors.join(", ");
  if (closed !== null) return `closed: ${closed}`;
  if (unread) return "not read";
  return answeredMs === null ? "waiting" : "ok";
}
