"use strict";
for (const table of document.querySelectorAll("table[data-sortable]")) {
  table.querySelectorAll("thead th:not([data-unsorted])").forEach((heading) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "descending" || !heading.classList.contains("number");
      const ascending = heading.getAttribute("aria-sort") === "ascending" ? false : down;
      for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const value = (row) => {
        const cell = row.cells[heading.cellIndex];
        return cell.dataset.value === undefined ? cell.textContent : cell.dataset.value === "" ? -Infinity : Number(cell.dataset.value);
      };
      const order = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a < b ? -1 : a > b ? 1 : 0);
      const rows = [...table.tBodies[0].rows].sort((a, b) => (ascending ? 1 : -1) * order(value(a), value(b)));
      table.tBodies[0].append(...rows);
    });
  });
}
for (const input of document.querySelectorAll("input[data-filter]")) {
  const line = input.closest(".filter");
  line.hidden = false;
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    const items = [...document.querySelectorAll(input.dataset.filter)];
    for (const item of items) item.hidden = !item.textContent.toLowerCase().includes(wanted);
    line.querySelector("output").textContent = wanted ? `${items.filter((item) => !item.hidden).length} of ${items.length}` : "";
  });
}
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const details of closed) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of closed) details.open = false;
});
