"use strict";
// Without this script the page reads the same; with it, tables sort and jobs can be searched.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = table.tBodies[0];
      const key = (row) => {
        const cell = row.cells[column];
        const text = cell.dataset.value ?? (cell.lastElementChild ?? cell).textContent.trim();
        const number = Number(text);
        return text !== "" && Number.isFinite(number) ? number : text;
      };
      const compare = (a, b) => {
        if (typeof a === "number" && typeof b === "number") return a - b;
        if (typeof a === "number") return -1;
        if (typeof b === "number") return 1;
        return a.localeCompare(b, undefined, { numeric: true });
      };
      const rows = [...body.rows].map((row) => [key(row), row]);
      rows.sort((a, b) => (up ? 1 : -1) * compare(a[0], b[0]));
      body.append(...rows.map(([, row]) => row));
    });
  });
}
for (const box of document.querySelectorAll(".filter")) {
  const input = box.querySelector("input");
  const items = [...document.querySelectorAll(box.dataset.items)];
  const counter = box.querySelector("output");
  box.hidden = false;
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const item of items) {
      const text = item.dataset.text.toLowerCase();
      item.hidden = !words.every((word) => text.includes(word));
      shown += item.hidden ? 0 : 1;
    }
    counter.textContent = words.length ? `${shown} of ${items.length}` : "";
  });
}
// A link to a job that is folded opens it.
const unfold = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") {
    target.open = true;
    target.scrollIntoView();
  }
};
addEventListener("hashchange", unfold);
if (location.hash) unfold();
