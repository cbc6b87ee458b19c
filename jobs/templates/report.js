"use strict";
const byId = (id) => document.getElementById(id);
const ROWS_SHOWN = 100;

/* Paper shows what is folded away or on another page of a list: what has to be done before each print, and undone behind it. */
const printing = [];
addEventListener("beforeprint", () => printing.forEach(({ before }) => before()));
addEventListener("afterprint", () => printing.forEach(({ after }) => after()));

/* What a filter leaves out is not on paper either, and a line before the list says so. */
function tell(list, words) {
  const note = document.createElement("p");
  note.className = "note";
  note.textContent = words;
  list.before(note);
  return note;
}

/* The real name behind a shown one: undoes visible() of jobs/reporting/figures.py. */
const ESCAPES = { t: "\t", n: "\n", r: "\r", "\\": "\\" };
function real(shown) {
  return shown.replace(/\\(?:x(..)|u(.{4})|U(.{8})|(.))/g, (_, x, u, U, letter) => ESCAPES[letter] ?? String.fromCodePoint(parseInt(x ?? u ?? U, 16)));
}

/* The table of groups: all rows are in the page, and only as many in the document as are looked at, so that it opens at once. */
function tableOfGroups(table) {
  const body = table.tBodies[0];
  const byRank = [...body.rows];
  const whole = (cell) => cell.title || cell.textContent;
  const names = byRank.map((row) => real(whole(row.cells[1])));
  const spellings = byRank.map((row, index) => [whole(row.cells[1]), names[index]].map((name) => name.toLowerCase()));
  const controls = document.querySelector(".controls");
  const column = (id) => byId(id)?.cellIndex;
  const text = (row, id) => whole(row.cells[column(id)]);
  const chosen = (id) => byId(id)?.value ?? "";
  let ordered = byRank;
  let matching = byRank;
  let first = 0;

  function show() {
    const shown = matching.slice(first, first + ROWS_SHOWN);
    body.replaceChildren(...shown);
    const range = shown.length ? `${(first + 1).toLocaleString("en")}\u2013${(first + shown.length).toLocaleString("en")} of ` : "";
    const all = matching.length < byRank.length ? ` (${byRank.length.toLocaleString("en")} in all)` : "";
    byId("shown").textContent = `${range}${matching.length.toLocaleString("en")} groups${all}`;
    byId("previous").disabled = first === 0;
    byId("next").disabled = first + ROWS_SHOWN >= matching.length;
  }

  const found = {
    critical: (row) => text(row, "critical-column") !== "0",
    warning: (row) => text(row, "critical-column") !== "0" || text(row, "warning-column") !== "0",
    now: (row) => text(row, "current-column") !== "0",
    none: (row) => text(row, "critical-column") === "0" && text(row, "warning-column") === "0",
  };

  function select() {
    const wanted = new Set();
    const part = byId("search").value.trim().toLowerCase();
    const [severity, strategy, cluster] = [chosen("with-findings"), chosen("with-strategy"), chosen("in-cluster")];
    byRank.forEach((row, index) => {
      if (!spellings[index].some((name) => name.includes(part)) || (severity && !found[severity](row))) return;
      if (strategy && text(row, "strategy-column") !== strategy) return;
      if (cluster && text(row, "cluster-column") !== cluster) return;
      wanted.add(row);
    });
    matching = ordered.filter((row) => wanted.has(row));
    first = 0;
    show();
  }

  function sortBy(heading) {
    const isNumber = heading.classList.contains("number") && heading.dataset.text === undefined;
    const before = heading.getAttribute("aria-sort");
    const isAscending = before ? before === "descending" : !heading.classList.contains("number");
    for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", isAscending ? "ascending" : "descending");
    const value = (row) => {
      const cell = whole(row.cells[heading.cellIndex]);
      if (!isNumber) return cell;
      const number = Number(cell.replaceAll(",", ""));
      return Number.isNaN(number) ? -Infinity : number; /* not known */
    };
    const sign = isAscending ? 1 : -1;
    const keyed = byRank.map((row) => [value(row), row]);
    keyed.sort(([a], [b]) => sign * (isNumber ? (a < b ? -1 : a > b ? 1 : 0) : a.localeCompare(b, "en")));
    ordered = keyed.map(([, row]) => row);
    select();
  }

  function reveal(row) {
    for (const id of ["search", "with-findings", "with-strategy", "in-cluster"]) if (byId(id)) byId(id).value = "";
    select();
    first = Math.floor(matching.indexOf(row) / ROWS_SHOWN) * ROWS_SHOWN;
    show();
    row.tabIndex = -1;
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "center" });
    for (const other of byRank) other.classList.toggle("sought", other === row);
  }

  /* #group-1f0c... is a group's row or part, #group=orders the same by name, #q=ord a search. */
  function follow() {
    const fragment = location.hash.slice(1);
    const [kind, ...rest] = fragment.split("=");
    if (rest.length && (kind === "group" || kind === "q")) {
      let wanted;
      try {
        wanted = decodeURIComponent(rest.join("="));
      } catch {
        return; /* no text: a lone per cent sign */
      }
      const named = byRank.filter((_, index) => names[index] === wanted);
      if (kind === "group" && named.length === 1) {
        const link = named[0].querySelector("a")?.getAttribute("href") ?? "";
        if (link.startsWith("#")) location.replace(link);
        else reveal(named[0]);
        return;
      }
      byId("search").value = named.length ? whole(named[0].cells[1]) : wanted;
      select();
      byId("groups").scrollIntoView();
      return;
    }
    const row = fragment && byRank.find((one) => one.id === fragment);
    if (row) reveal(row);
    else byId(fragment)?.scrollIntoView(); /* its place changed when rows were taken out */
  }

  for (const heading of table.querySelectorAll("thead th")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sortBy(heading));
  }
  controls.hidden = false;
  byId("search").addEventListener("input", select);
  controls.addEventListener("change", (event) => {
    if (event.target.id !== "search") select();
  });
  byId("previous").addEventListener("click", () => {
    first -= ROWS_SHOWN;
    show();
  });
  byId("next").addEventListener("click", () => {
    first += ROWS_SHOWN;
    show();
  });
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    if (event.target.closest('a[href^="#"]')?.hash === location.hash) follow(); /* again: no hashchange tells of it */
  });
  show();
  follow();

  let note;
  printing.push({
    before() {
      body.replaceChildren(...matching);
      if (matching.length === byRank.length) return;
      const filters = [...controls.querySelectorAll("label")].flatMap((label) => {
        const field = label.lastElementChild;
        return field.value ? [`${label.firstChild.textContent.trim()} "${field.selectedOptions?.[0].text ?? field.value}"`] : [];
      });
      const numbers = `${matching.length.toLocaleString("en")} of ${byRank.length.toLocaleString("en")}`;
      note = tell(table, `Filtered: ${numbers} groups are listed here, by ${filters.join(", ")}.`);
    },
    after() {
      note?.remove();
      show();
    },
  });
}

function filterOfFindings(input) {
  const line = input.closest(".filter");
  const items = [...document.querySelectorAll(input.dataset.filter)];
  const texts = items.map((item) => item.textContent.toLowerCase());
  line.hidden = false;
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    let count = 0;
    items.forEach((item, index) => {
      item.hidden = !texts[index].includes(wanted);
      count += item.hidden ? 0 : 1;
    });
    line.querySelector("output").textContent = wanted ? `${count} of ${items.length}` : "";
  });
  let note;
  printing.push({
    before() {
      const numbers = line.querySelector("output").textContent;
      if (numbers) note = tell(line, `Filtered: ${numbers} findings are listed here, by "${input.value.trim()}".`);
    },
    after: () => note?.remove(),
  });
}

if (byId("group-table")) tableOfGroups(byId("group-table"));
document.querySelectorAll("input[data-filter]").forEach(filterOfFindings);

let closed = [];
printing.push({
  before() {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const details of closed) details.open = true;
  },
  after() {
    for (const details of closed) details.open = false;
  },
});
