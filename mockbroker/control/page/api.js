// Requests to the API of the control, with the token of this tab.

import { byId } from "./dom.js";

const TOKEN = "mockbroker-token";

/** An error that the control answered: a problem by RFC 9457. */
export class ProblemError extends Error {
  constructor(status, problem) {
    super(problem.detail ?? problem.title ?? `status ${status}`);
    this.status = status;
  }
}

/** A response without an error. Asks for the token where one is needed. */
export async function open(path, { method = "GET", body, headers = {}, signal } = {}) {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN);
    const response = await fetch(path, {
      method,
      signal,
      cache: "no-store",
      headers: {
        ...(token === null ? {} : { Authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      body,
    });
    if (response.ok) return response;
    if (response.status !== 401) throw new ProblemError(response.status, await readProblem(response));
    // Another request may have asked for it since.
    if (sessionStorage.getItem(TOKEN) === token) await askToken(token !== null);
  }
}

/** The decoded body of a response; undefined for an empty one. */
export async function send(method, path, value) {
  const response = await open(path, { method, body: value === undefined ? undefined : JSON.stringify(value) });
  const text = await response.text();
  return text ? JSON.parse(text, readNumber) : undefined;
}

export function get(path) {
  return send("GET", path);
}

let paths = new Set();

/** Ask which operations this server has: a proxy has fewer than a cluster. */
export async function loadApi() {
  paths = new Set(Object.keys((await get("/openapi.json")).paths));
}

/** Whether the server has operations of a path of the API's description. */
export function has(path) {
  return paths.has(path);
}

/** Integers beyond 2^53 as they were sent, where the browser can read them. */
function readNumber(key, value, context) {
  const isInexact = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
  return isInexact && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value;
}

async function readProblem(response) {
  try {
    return await response.json();
  } catch {
    return { title: `${response.status} ${response.statusText}` };
  }
}

let asked = null;

/** Ask for the token, once for all requests that wait for it. */
function askToken(wasWrong) {
  asked ??= new Promise((resolve) => {
    const dialog = byId("token");
    const form = dialog.querySelector("form");
    form.querySelector(".problem").textContent = wasWrong ? "The token is wrong." : "";
    form.elements.token.value = "";
    form.onsubmit = (event) => {
      event.preventDefault();
      sessionStorage.setItem(TOKEN, form.elements.token.value.trim());
      dialog.oncancel = null;
      dialog.close();
      asked = null;
      resolve();
    };
    dialog.oncancel = (event) => event.preventDefault(); // Nothing works without it.
    dialog.showModal();
  });
  return asked;
}
