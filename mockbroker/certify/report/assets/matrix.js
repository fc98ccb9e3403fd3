"use strict";
(() => {
  const form = document.getElementById("controls"), input = document.getElementById("search");
  const found = document.getElementById("found"), table = document.getElementById("matrix");
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const rows = [...table.querySelectorAll("tbody tr:not(.family)")].map((element) => ({
    element, text: `${element.id} ${element.textContent}`.toLowerCase(),
    verdicts: [...element.querySelectorAll(".verdict")].map((each) => each.textContent),
  }));
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    let shown = 0;
    for (const { element, text, verdicts } of rows) {
      const fits = words.every((word) => text.includes(word)) &&
        (chosen.size === boxes.length || verdicts.some((each) => chosen.has(each)));
      element.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    for (const body of table.tBodies) body.hidden = !body.querySelector("tr:not(.family):not([hidden])");
    found.textContent = shown === rows.length ? "" : `${shown} of ${rows.length} cases`;
  };
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  // Arrow keys go from verdict to verdict.
  const move = (link, down, right) => {
    let row = link.closest("tr");
    const at = link.closest("td").cellIndex + right;
    const visible = rows.filter(({ element }) => !element.hidden).map(({ element }) => element);
    for (let index = visible.indexOf(row) + down; index >= 0 && index < visible.length; index += down || visible.length) {
      const target = visible[index].cells[at] && visible[index].cells[at].querySelector("a");
      if (target) { target.focus(); return; }
      if (!down) return;
    }
  };
  const keys = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
  addEventListener("keydown", (event) => {
    const link = document.activeElement && document.activeElement.closest("a.verdict");
    if (event.key === "/" && document.activeElement !== input) { event.preventDefault(); input.focus(); }
    else if (event.key === "Escape" && document.activeElement === input) { input.value = ""; show(); input.blur(); }
    else if (link && table.contains(link) && keys[event.key]) { event.preventDefault(); move(link, ...keys[event.key]); }
  });
  show();
})();
