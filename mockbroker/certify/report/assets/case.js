"use strict";
(() => {
  // A line of the diagram opens the exchange that it belongs to.
  for (const mark of document.querySelectorAll("svg.sequence a"))
    mark.addEventListener("click", () => {
      const target = document.getElementById(mark.getAttribute("href").slice(1));
      if (target) target.open = true;
    });
  const open = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target && "open" in target) target.open = true;
  };
  addEventListener("hashchange", open);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") location.href = document.querySelector("nav a").href;
  });
  open();
})();
