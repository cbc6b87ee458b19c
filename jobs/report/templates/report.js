/* The lines of the file, see PACKED of jobs/report/packed.py: an object of functions, each from a line's number to a value of the line. */
function unpack() {
  const { columns, first, newest, details, next, lines } = JSON.parse(byId("group-lines").textContent);
  const at = Object.fromEntries(columns.map((name, number) => [name, number]));
  for (const name of ["cluster", "strategy", "needs", "severity"]) {
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
  const hasLags = headings.some((heading) => heading.dataset.column === "lag");
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
    add("td", lines.needs(number), `word needs ${lines.severity(number)}`.trim());
    const members = lines.members(number);
    add("td", members === null ? DASH : members < 0 ? "deleted" : NUMBERS.format(members));
    add("td", lines.imbalance(number)?.toFixed(2) ?? DASH);
    add("td", lines.could_be(number)?.toFixed(2) ?? DASH);
    if (hasLags) add("td", lines.lag(number) === null ? DASH : NUMBERS.format(lines.lag(number)));
    addSum(lines.avoidable(number), lines.avoidable_unknown(number));
    addSum(lines.movements(number), lines.movements_unknown(number));
    add("td", NUMBERS.format(lines.critical(number)));
    add("td", NUMBERS.format(lines.warning(number)));
    addName("td", lines.strategy(number), "word");
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
    byId("shown").textContent = `${range}${NUMBERS.format(matching.length)} ${matching.length === 1 ? "group" : "groups"}${all}`;
    byId("previous").disabled = first === 0;
    byId("next").disabled = first + ROWS_SHOWN >= matching.length;
  }

  const hasPast = (number) => lines.critical(number) + lines.warning(number) > 0;
  const gains = (number) => lines.could_be(number) !== null && lines.could_be(number) < lines.imbalance(number);
  const tests = {
    needs: {
      someone: (number) => lines.needs(number) !== "",
      critical: (number) => lines.severity(number) === "critical",
      warning: (number) => lines.severity(number) === "warning",
      better: (number) => lines.needs(number).startsWith("better assignor"),
      past: (number) => lines.needs(number) === "" && hasPast(number),
      none: (number) => lines.needs(number) === "" && !hasPast(number),
    },
    members: { some: (number) => lines.members(number) > 0, none: (number) => lines.members(number) === 0, deleted: (number) => lines.members(number) < 0 },
    lag: { some: (number) => lines.lag(number) > 0, none: (number) => lines.lag(number) === 0 },
    gain: { better: gains, best: (number) => lines.imbalance(number) !== null && !gains(number) },
  };
  /* The fields above the table, each by its name in the address. */
  const fields = { q: "search", needs: "with-needs", members: "with-members", gain: "with-gain", lag: "with-lag", strategy: "with-strategy", cluster: "in-cluster" };

  /* What the fields ask for, as in the address: #q=orders&needs=someone; empty if they ask for nothing. */
  function asked() {
    const values = Object.entries(fields).map(([name, id]) => [name, chosen(id).trim()]);
    return values.filter(([, value]) => value).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  }

  function select() {
    const wanted = byId("search").value.trim();
    const part = wanted.toLowerCase();
    const [strategy, cluster] = [chosen("with-strategy"), chosen("in-cluster")];
    const passes = Object.keys(tests).flatMap((name) => tests[name][chosen(fields[name])] ?? []);
    if (part) spellings ??= byRank.map((number) => [...new Set([lines.group(number), names[number]])].map((name) => name.toLowerCase()));
    matching = ordered.filter(
      (number) =>
        (!part || spellings[number].some((name) => name.includes(part))) &&
        passes.every((test) => test(number)) &&
        (!strategy || lines.strategy(number) === strategy) &&
        (!cluster || lines.cluster(number) === cluster),
    );
    for (const link of document.querySelectorAll("#files a")) link.hash = asked();
    const isLost = matching.length === 0 && lines.length > 0;
    byId("no-match").hidden = !isLost;
    if (isLost) byId("no-match").firstElementChild.textContent = wanted ? `No group here matches \u201c${wanted}\u201d.` : "No group here matches.";
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

  function clear() {
    for (const id of Object.values(fields)) if (byId(id)) byId(id).value = "";
  }

  /* A reload, a link and the button for going back show the same groups again. */
  function remember() {
    select();
    history.replaceState(null, "", `#${asked() || "groups"}`);
  }

  function reveal(number) {
    clear();
    sought = number;
    select();
    first = Math.floor(matching.indexOf(number) / ROWS_SHOWN) * ROWS_SHOWN;
    show();
    const it = body.rows[matching.indexOf(number) - first];
    it.tabIndex = -1;
    it.focus({ preventScroll: true });
    it.scrollIntoView({ block: "center" });
  }

  /* #group-1f0c... is a group's row or part, #group=orders the same by name, #q=ord&needs=someone a search and filters. Groups that are not
     here are in a further file. */
  function follow() {
    const fragment = location.hash.slice(1);
    const [kind, ...rest] = fragment.split("=");
    const decoded = (text) => {
      try {
        return decodeURIComponent(text);
      } catch {
        return undefined; /* no text: a lone per cent sign */
      }
    };
    if (rest.length && Object.hasOwn(fields, kind)) {
      clear();
      for (const [name, ...value] of fragment.split("&").map((it) => it.split("="))) {
        const field = Object.hasOwn(fields, name) && byId(fields[name]);
        if (field) field.value = decoded(value.join("=")) ?? "";
      }
      select();
      byId("groups").scrollIntoView();
      return;
    }
    if (rest.length && kind === "group") {
      const wanted = decoded(rest.join("="));
      if (wanted === undefined) return;
      const named = byRank.filter((number) => names[number] === wanted);
      if (named.length === 0 && lines.next) {
        location.replace(lines.next + location.hash);
        return;
      }
      if (named.length === 1) {
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
      unfold(fragment);
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
  byId("search").addEventListener("input", remember);
  controls.addEventListener("change", (event) => {
    if (event.target.id !== "search") remember();
  });
  byId("no-match").querySelector("button").addEventListener("click", () => {
    clear();
    remember();
    byId("search").focus();
  });
  byId("columns").addEventListener("click", () => {
    const isWhole = table.classList.toggle("whole");
    byId("columns").setAttribute("aria-pressed", isWhole);
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
  let cutNote;
  printing.push({
    before() {
      const isCut = isFirstPart() && matching.length > ROWS_PRINTED;
      fill(isCut ? matching.slice(0, ROWS_PRINTED) : matching);
      if (isCut) cutNote = addNote(table, `The first ${ROWS_PRINTED} of ${NUMBERS.format(matching.length)} groups. "Print everything" at the end of the page has all.`);
      if (matching.length === lines.length) return;
      const filters = [...controls.querySelectorAll("label")].flatMap((label) => {
        const field = label.lastElementChild;
        return field.value ? [`${label.firstChild.textContent.trim()} "${field.selectedOptions?.[0].text ?? field.value}"`] : [];
      });
      const numbers = `${NUMBERS.format(matching.length)} of ${NUMBERS.format(lines.length)}`;
      note = addNote(table, `Filtered: ${numbers} groups are listed here, by ${filters.join(", ")}.`);
    },
    after() {
      note?.remove();
      cutNote?.remove();
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
      if (numbers) note = addNote(line, `Filtered: ${numbers} findings are listed here, by "${input.value.trim()}".`);
    },
    after: () => note?.remove(),
  });
}

/* A print has two pages: what needs someone, and the first groups. The button prints all parts. */
const ROWS_PRINTED = 45;
const isFirstPart = () => byId("now") !== null && !document.body.classList.contains("everything");

function printEverything() {
  document.body.classList.add("everything");
  print();
}

if (byId("print-all")) {
  byId("print-all").hidden = false;
  byId("print-all").addEventListener("click", printEverything);
  printing.push({ before() {}, after: () => document.body.classList.remove("everything") });
}

/* An age in its largest unit, see age_words() of jobs/report/first_screen.py. */
function ageWords(seconds) {
  const age = Math.max(0, seconds);
  const [size, unit] = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]].find(([it]) => age >= it) ?? [1, "second"];
  const number = Math.floor(age / size);
  return `${NUMBERS.format(number)} ${unit}${number === 1 ? "" : "s"}`;
}

/* The data gets older while the page is read. */
function showAge(time) {
  byId("age").textContent = `${ageWords(Date.now() / 1000 - Number(time.dataset.seconds))} old`;
}

/* Not every browser unfolds for a fragment, and none unfolds what a heading is above. */
function unfold(fragment) {
  const it = byId(fragment);
  const folded = it?.closest("details") ?? (fragment === "reading" && it.querySelector("details"));
  if (folded) folded.open = true;
}

unfold(location.hash.slice(1));
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (link) unfold(link.hash.slice(1));
});
if (byId("data-until")) {
  showAge(byId("data-until"));
  setInterval(showAge, 30_000, byId("data-until"));
}
if (byId("group-table")) tableOfGroups(byId("group-table"));
document.querySelectorAll("input[data-filter]").forEach(filterOfFindings);
