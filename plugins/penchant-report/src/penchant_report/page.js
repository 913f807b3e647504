"use strict";
// Without this script the page reads the same; with it, tables sort, jobs can be searched, figures
// say their values and are enlarged, and tables are copied and saved.
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
// ---- figures: values under the pointer, and a larger one on a click
const pointsOf = (figure) =>
  JSON.parse(figure.dataset.points || "[]").flatMap((series) =>
    series.points.map(([x, y, across, up]) => ({ x, y, text: [series.name, across, up] })));
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);
const NEAR = 24; // pixels
function saysValues(image, points) {
  image.addEventListener("pointermove", (event) => {
    const box = image.getBoundingClientRect();
    const away = (point) => Math.hypot(
      point.x * box.width + box.left - event.clientX,
      point.y * box.height + box.top - event.clientY);
    let nearest = null;
    for (const point of points) if (!nearest || away(point) < away(nearest)) nearest = point;
    tip.hidden = !nearest || away(nearest) > NEAR;
    if (tip.hidden) return;
    tip.replaceChildren(...nearest.text.filter(Boolean).map((line) => {
      const row = document.createElement("div");
      row.textContent = line;
      return row;
    }));
    (image.closest("dialog") ?? document.body).append(tip);
    const left = Math.min(nearest.x * box.width + box.left + 12, innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(left, 4)}px`;
    tip.style.top = `${Math.max(nearest.y * box.height + box.top - tip.offsetHeight - 12, 4)}px`;
  });
  image.addEventListener("pointerleave", () => { tip.hidden = true; });
}
function button(text, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "button";
  made.textContent = text;
  made.addEventListener("click", action);
  return made;
}
function enlarged(original, points) {
  const dialog = document.createElement("dialog");
  const image = original.cloneNode();
  const area = document.createElement("div");
  area.className = "area";
  area.append(image);
  let size = 1;
  // What is at `x`, `y` of the area stays there.
  const zoom = (factor, x = area.clientWidth / 2, y = area.clientHeight / 2) => {
    const next = Math.min(Math.max(size * factor, 1), 12);
    const shift = next / size;
    size = next;
    image.style.width = `${100 * size}%`;
    area.scrollTo((area.scrollLeft + x) * shift - x, (area.scrollTop + y) * shift - y);
  };
  area.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = area.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  image.draggable = false;
  image.addEventListener("pointermove", (event) => {
    if (event.buttons) area.scrollBy(-event.movementX, -event.movementY);
  });
  const bar = document.createElement("p");
  bar.append(
    button("+", () => zoom(1.5)), " ", button("−", () => zoom(1 / 1.5)), " ",
    button("Close", () => dialog.close()));
  dialog.append(bar, area);
  dialog.addEventListener("close", () => { tip.hidden = true; document.body.append(tip); dialog.remove(); });
  document.body.append(dialog);
  saysValues(image, points);
  dialog.showModal();
}
for (const figure of document.querySelectorAll("figure.drawn")) {
  const image = figure.querySelector("img");
  const points = pointsOf(figure);
  if (!image) continue;
  saysValues(image, points);
  image.addEventListener("click", () => enlarged(image, points));
  figure.querySelector("figcaption")?.append(" ", button("Enlarge", () => enlarged(image, points)));
}
// ---- tables: copied or saved by a button
for (const text of document.querySelectorAll("pre.copied[data-file]")) {
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
    } catch { // pages from the disk may not write to the clipboard themselves
      getSelection().selectAllChildren(text);
      document.execCommand("copy");
    }
    copy.textContent = "Copied";
  });
  const save = button("Save", () => {
    const address = URL.createObjectURL(new Blob([text.textContent], { type: "text/plain" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = text.dataset.file;
    link.click();
    URL.revokeObjectURL(address);
  });
  text.before(copy, " ", save);
}
