/* The lines of the file, see PACKED of jobs/report/packed.py: an object of functions, each from a line's number to a value of the line. */
function unpack() {
  const { columns, first, newest, details, next, lines } = JSON.parse(byId("group-lines").textContent);
  const at = Object.fromEntries(columns.map((name, number) => [name, number]));
  for (const name of ["cluster", "strategy"]) {
    const known = [];
    for (const line of lines) {
      const member = line[at[name]];
      if (typeof member === "number") line[at[name]] = known[member];
      else known.push((line[at[name]] = member ?? DASH));
    }
  }
  const of = Object.fromEntries(columns.map((name) => [name, (number) => lines[number][at[name]]]));
  return {
    ...of,
    length: lines.length,
    details,
    next,
    rank: (number) => first + number,
    last_seen: (number) => newest - of.seconds_ago(number),
    anchor: (number) => `group-${[...atob(of.anchor(number).replaceAll("-", "+").replaceAll("_", "/"))].map((it) => it.charCodeAt(0).toString(16).padStart(2, "0")).join("")}`,
    withAnchor(anchor) {
      const bytes = anchor.slice("group-".length).match(/../g).map((it) => String.fromCharCode(parseInt(it, 16)));
      const packed = btoa(bytes.join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
      return lines.findIndex((line) => line[at.anchor] === packed);
    },
  };
}

/* The table of groups: its lines are data, and the document has only the rows that are shown, so it opens at once. */
function tableOfGroups(table) {
  const body = table.tBodies[0];
  const lines = unpack();
  const byRank = Array.from({ length: lines.length }, (_, number) => number);
  const names = byRank.map((number) => real(lines.group(number)));
  const headings = [...table.querySelectorAll("thead th")];
  const hasClusters = headings.some((heading) => heading.dataset.column === "cluster");
  const sections = new Set([...document.querySelectorAll("section.group")].map((section) => section.id));
  const controls = document.querySelector(".controls");
  const chosen = (id) => byId(id)?.value ?? "";
  let ordered = byRank;
  let matching = byRank;
  let first = 0;
  let sought = -1;
  let spellings; /* made for the first search */

  function row(number) {
    const it = document.createElement("tr");
    const anchor = lines.anchor(number);
    const add = (tag, text, style) => {
      const cell = document.createElement(tag);
      if (style) cell.className = style;
      cell.textContent = text;
      it.append(cell);
      return cell;
    };
    const addName = (tag, name, style) => {
      const cell = add(tag, cut(name), style);
      if (cut(name) !== name) cell.title = name;
      return cell;
    };
    const addSum = (sum, unknown) => {
      const cell = add("td", sum === null ? DASH : NUMBERS.format(sum));
      if (sum !== null && unknown) cell.dataset.known = NUMBERS.format(lines.generations(number) - unknown);
    };

    if (!sections.has(anchor)) it.id = anchor;
    if (number === sought) it.className = "sought";
    add("td", String(lines.rank(number)));
    const name = addName("th", lines.group(number), "id");
    name.scope = "row";
    const href = sections.has(anchor) ? `#${anchor}` : lines.details && lines.generations(number) > 0 && `${lines.details}/${anchor}.html`;
    if (href) {
      const link = document.createElement("a");
      link.href = href;
      link.append(...name.childNodes);
      name.append(link);
    }
    if (hasClusters) addName("td", lines.cluster(number), "id");
    addName("td", lines.strategy(number), "word");
    add("td", NUMBERS.format(lines.critical(number)), lines.critical(number) ? "critical" : "");
    add("td", NUMBERS.format(lines.warning(number)), lines.warning(number) ? "warning" : "");
    add("td", NUMBERS.format(lines.current(number)));
    addSum(lines.avoidable(number), lines.avoidable_unknown(number));
    addSum(lines.movements(number), lines.movements_unknown(number));
    add("td", lines.imbalance(number)?.toFixed(2) ?? DASH);
    const members = lines.members(number);
    add("td", members === null ? DASH : NUMBERS.format(members));
    add("td", NUMBERS.format(lines.generations(number)));
    add("td", new Date(1000 * lines.last_seen(number)).toISOString().slice(0, 19).replace("T", " "));
    return it;
  }

  function fill(numbers) {
    const rows = document.createDocumentFragment();
    for (const number of numbers) rows.append(row(number));
    body.replaceChildren(rows);
  }

  function show() {
    const shown = matching.slice(first, first + ROWS_SHOWN);
    fill(shown);
    const range = shown.length ? `${NUMBERS.format(first + 1)}\u2013${NUMBERS.format(first + shown.length)} of ` : "";
    const all = matching.length < lines.length ? ` (${NUMBERS.format(lines.length)} in all)` : "";
    byId("shown").textContent = `${range}${NUMBERS.format(matching.length)} groups${all}`;
    byId("previous").disabled = first === 0;
    byId("next").disabled = first + ROWS_SHOWN >= matching.length;
  }

  const found = {
    critical: (number) => lines.critical(number) > 0,
    warning: (number) => lines.critical(number) + lines.warning(number) > 0,
    now: (number) => lines.current(number) > 0,
    none: (number) => lines.critical(number) + lines.warning(number) === 0,
  };

  function select() {
    const wanted = byId("search").value.trim();
    const part = wanted.toLowerCase();
    const [severity, strategy, cluster] = [chosen("with-findings"), chosen("with-strategy"), chosen("in-cluster")];
    if (part) spellings ??= byRank.map((number) => [...new Set([lines.group(number), names[number]])].map((name) => name.toLowerCase()));
    matching = ordered.filter(
      (number) =>
        (!part || spellings[number].some((name) => name.includes(part))) &&
        (!severity || found[severity](number)) &&
        (!strategy || lines.strategy(number) === strategy) &&
        (!cluster || lines.cluster(number) === cluster),
    );
    for (const link of document.querySelectorAll("#files a")) link.hash = wanted && `q=${encodeURIComponent(wanted)}`;
    first = 0;
    show();
  }

  function sortBy(heading) {
    const value = lines[heading.dataset.column];
    const isNumber = heading.classList.contains("number");
    const before = heading.getAttribute("aria-sort");
    const isAscending = before ? before === "descending" : !isNumber;
    for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", isAscending ? "ascending" : "descending");
    const sign = isAscending ? 1 : -1;
    const keys = byRank.map((number) => value(number) ?? -Infinity); /* not known */
    const compare = isNumber ? (a, b) => (a < b ? -1 : a > b ? 1 : 0) : LETTERS.compare;
    ordered = [...byRank].sort((a, b) => sign * compare(keys[a], keys[b]));
    select();
  }

  function reveal(number) {
    for (const id of ["search", "with-findings", "with-strategy", "in-cluster"]) if (byId(id)) byId(id).value = "";
    sought = number;
    select();
    first = Math.floor(matching.indexOf(number) / ROWS_SHOWN) * ROWS_SHOWN;
    show();
    const it = body.rows[matching.indexOf(number) - first];
    it.tabIndex = -1;
    it.focus({ preventScroll: true });
    it.scrollIntoView({ block: "center" });
  }

  /* #group-1f0c... is a group's row or part, #group=orders the same by name, #q=ord a search. Groups that are not here are in a further file. */
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
      const named = byRank.filter((number) => names[number] === wanted);
      if (kind === "group" && named.length === 0 && lines.next) {
        location.replace(lines.next + location.hash);
        return;
      }
      if (kind === "group" && named.length === 1) {
        const anchor = lines.anchor(named[0]);
        if (sections.has(anchor)) location.replace(`#${anchor}`);
        else reveal(named[0]);
        return;
      }
      byId("search").value = named.length ? lines.group(named[0]) : wanted;
      select();
      byId("groups").scrollIntoView();
      return;
    }
    const isGroup = /^group-[0-9a-f]{16}$/.test(fragment) && !sections.has(fragment);
    const number = isGroup ? lines.withAnchor(fragment) : -1;
    if (number >= 0) reveal(number);
    else if (isGroup && lines.next) location.replace(lines.next + location.hash);
    else {
      const folded = byId(fragment)?.closest("details");
      if (folded) folded.open = true; /* not every browser unfolds for a fragment */
      byId(fragment)?.scrollIntoView(); /* its place changed when rows were taken out */
    }
  }

  for (const heading of headings) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sortBy(heading));
  }
  for (const [id, value] of [["with-strategy", lines.strategy], ["in-cluster", lines.cluster]])
    byId(id)?.append(...[...new Set(byRank.map(value))].sort().map((name) => new Option(cut(name), name)));
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
    if (event.target.closest('a[href^="#"]')?.hash === location.hash) follow(); /* the same fragment again: there is no hashchange */
  });
  show();
  follow();

  let note;
  printing.push({
    before() {
      fill(matching);
      if (matching.length === lines.length) return;
      const filters = [...controls.querySelectorAll("label")].flatMap((label) => {
        const field = label.lastElementChild;
        return field.value ? [`${label.firstChild.textContent.trim()} "${field.selectedOptions?.[0].text ?? field.value}"`] : [];
      });
      const numbers = `${NUMBERS.format(matching.length)} of ${NUMBERS.format(lines.length)}`;
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
