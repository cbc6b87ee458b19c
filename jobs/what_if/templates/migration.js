/* The table of a migration plan: its lines are data, and only as many rows are in the document as are looked at. */
function tableOfPlan(table) {
  const { columns, first, texts, badges, verdicts, lines: packed } = JSON.parse(byId("group-lines").textContent);
  const isText = new Set(["cluster", "strategy", "reasons", "partitions", "imbalance"]);
  const lines = packed.map((values, number) => {
    const line = Object.fromEntries(columns.map((name, at) => [name, isText.has(name) ? texts[values[at]] : values[at]]));
    return { ...line, order: first + number, verdict: line.kind, sentences: line.sentences.map((at) => texts[at]) };
  });
  const body = table.tBodies[0];
  const controls = document.querySelector(".controls");
  const headings = [...table.querySelectorAll("thead th")];
  let ordered = lines;
  let matching = lines;
  let start = 0;

  function row(line) {
    const it = document.createElement("tr");
    const add = (tag, text, style) => {
      const cell = document.createElement(tag);
      if (style) cell.className = style;
      cell.textContent = cut(text);
      if (cut(text) !== text) cell.title = text;
      it.append(cell);
      return cell;
    };
    const addNumber = (value) => add("td", value === null ? DASH : NUMBERS.format(value));
    addNumber(line.order);
    add("th", line.group, "id").scope = "row";
    if (headings.some((heading) => heading.dataset.column === "cluster")) add("td", line.cluster, "id");
    const badge = document.createElement("span");
    badge.className = `badge ${badges[line.kind]}`.trim();
    badge.textContent = verdicts[line.kind];
    const why = document.createElement("details");
    why.className = "why";
    const summary = document.createElement("summary");
    summary.textContent = "why";
    const list = document.createElement("ul");
    for (const sentence of line.sentences) {
      const item = document.createElement("li");
      item.textContent = sentence;
      list.append(item);
    }
    why.append(summary, list);
    add("td", "", "word verdict").append(badge, ` ${line.reasons}`, why);
    add("td", line.strategy, "word");
    for (const value of [line.moves, line.stopped, line.members]) addNumber(value);
    add("td", line.partitions);
    add("td", line.imbalance);
    return it;
  }

  function fill(shown) {
    const rows = document.createDocumentFragment();
    for (const line of shown) rows.append(row(line));
    body.replaceChildren(rows);
  }

  function show() {
    const shown = matching.slice(start, start + ROWS_SHOWN);
    fill(shown);
    const range = shown.length ? `${NUMBERS.format(start + 1)}${DASH}${NUMBERS.format(start + shown.length)} of ` : "";
    const all = matching.length < lines.length ? ` (${NUMBERS.format(lines.length)} in all)` : "";
    byId("shown").textContent = `${range}${NUMBERS.format(matching.length)} ${matching.length === 1 ? "group" : "groups"}${all}`;
    byId("previous").disabled = start === 0;
    byId("next").disabled = start + ROWS_SHOWN >= matching.length;
  }

  function select() {
    const part = byId("search").value.trim().toLowerCase();
    const kind = byId("with-verdict").value;
    const isNamed = (line) => [line.group, real(line.group)].some((name) => name.toLowerCase().includes(part));
    matching = ordered.filter((line) => (!part || isNamed(line)) && (!kind || line.kind === Number(kind)));
    start = 0;
    show();
  }

  function sortBy(heading) {
    const name = heading.dataset.column;
    const isNumber = heading.classList.contains("number");
    const before = heading.getAttribute("aria-sort");
    const sign = (before ? before === "descending" : !isNumber) ? 1 : -1;
    for (const other of headings) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    const compare = isNumber ? (a, b) => (a ?? -1) - (b ?? -1) : (a, b) => LETTERS.compare(a, b);
    ordered = [...lines].sort((a, b) => sign * compare(a[name], b[name]));
    select();
  }

  for (const heading of headings) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sortBy(heading));
  }
  controls.hidden = false;
  byId("search").addEventListener("input", select);
  byId("with-verdict").addEventListener("change", select);
  byId("previous").addEventListener("click", () => {
    start -= ROWS_SHOWN;
    show();
  });
  byId("next").addEventListener("click", () => {
    start += ROWS_SHOWN;
    show();
  });
  show();

  let note;
  printing.unshift({
    before() {
      fill(matching);
      if (matching.length < lines.length) note = addNote(table, `Filtered: ${NUMBERS.format(matching.length)} of ${NUMBERS.format(lines.length)} groups are listed here.`);
    },
    after() {
      note?.remove();
      show();
    },
  });
}

tableOfPlan(byId("group-table"));
