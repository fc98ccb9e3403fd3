"use strict";
(() => {
  const input = document.getElementById("search"), found = document.getElementById("found");
  const places = [...document.querySelectorAll("main tbody tr, main .rows > li:not(.axis)")]
    .map((element) => ({ element, text: element.textContent.toLowerCase() }));
  const holders = [...document.querySelectorAll("main figure, main section")].reverse()
    .map((element) => ({ element, text: element.querySelector("h2, h3").textContent.toLowerCase() }));
  const search = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (text) => words.every((word) => text.includes(word));
    for (const { element, text } of places) element.hidden = !fits(text);
    // Figures before sections: what holds nothing that fits is put away, unless its own title does.
    for (const { element, text } of holders) {
      const inside = element.matches("section") ? "figure:not([hidden])" : "tbody tr:not([hidden]), .rows > li:not([hidden]):not(.axis)";
      const own = words.length > 0 && fits(text);
      element.hidden = words.length > 0 && !own && !element.querySelector(inside);
      if (own) for (const each of element.querySelectorAll("[hidden]")) each.hidden = false;
    }
    // With the title of a figure all its rows are found.
    const rows = places.filter(({ element }) => element.matches("tr") && !element.closest("[hidden]")).length;
    found.textContent = words.length ? `${rows.toLocaleString("en")} row${rows === 1 ? "" : "s"}` : "";
  };
  input.closest("[hidden]").hidden = false;
  input.addEventListener("input", search);
  addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape" && document.activeElement === input) {
      input.value = "";
      search();
      input.blur();
    }
  });
  if (input.value) search();
})();
