// Tables of class "sortable": a click on a head sorts by the number in data-value, or by the text.
document.addEventListener("click", function (event) {
  const head = event.target.closest("table.sortable th");
  if (!head) return;
  const table = head.closest("table");
  const column = Array.from(head.parentNode.children).indexOf(head);
  const up = head.dataset.order !== "up";
  head.parentNode.querySelectorAll("th").forEach((each) => delete each.dataset.order);
  head.dataset.order = up ? "up" : "down";
  const body = table.tBodies[0];
  const key = (row) => {
    const cell = row.children[column];
    const value = cell.dataset.value;
    return value === undefined ? cell.textContent.trim() : value === "" ? NaN : Number(value);
  };
  const rows = Array.from(body.rows).sort((a, b) => {
    const x = key(a), y = key(b);
    // What is missing stays last.
    if (Number.isNaN(x)) return 1;
    if (Number.isNaN(y)) return -1;
    const order = typeof x === "number" ? x - y : x.localeCompare(y);
    return up ? order : -order;
  });
  rows.forEach((row) => body.appendChild(row));
});
