// What buttons and forms do, and how their errors are shown.

import { byId, create } from "./dom.js";
import { clean } from "./format.js";

/** Run an action of a button; an error is shown in the notice of the page. */
export async function run(action) {
  const notice = byId("notice");
  notice.hidden = true;
  try {
    return await action();
  } catch (error) {
    notice.querySelector("span").textContent = clean(error.message, 1000);
    notice.hidden = false;
    return undefined;
  }
}

byId("notice").querySelector("button").addEventListener("click", () => (byId("notice").hidden = true));

export function button(text, action, label) {
  return create("button", { type: "button", "aria-label": label ?? false, click: () => run(action) }, text);
}

/** Let a form run an action with its values as text by name, without empty ones; an error is shown inside it. */
export function onSubmit(form, action) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const problem = form.querySelector(".problem");
    if (problem) problem.textContent = "";
    const values = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
    try {
      await action(values);
    } catch (error) {
      if (!problem) await run(() => Promise.reject(error));
      else problem.textContent = clean(error.message, 1000);
    }
  });
}
