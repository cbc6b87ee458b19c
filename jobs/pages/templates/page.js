"use strict";
const byId = (id) => document.getElementById(id);
const ROWS_SHOWN = 100;

/* A print also has folded parts and all pages of a list: what to do before each print, and to undo after it. */
const printing = [];
addEventListener("beforeprint", () => printing.forEach(({ before }) => before()));
addEventListener("afterprint", () => printing.forEach(({ after }) => after()));

/* A filter also limits a print, and a line before the list says so. */
function addNote(list, words) {
  const note = document.createElement("p");
  note.className = "note";
  note.textContent = words;
  list.before(note);
  return note;
}

/* The real name of a shown one: undoes visible() of jobs/pages/figures.py. */
const ESCAPES = { t: "\t", n: "\n", r: "\r", "\\": "\\" };
function real(shown) {
  return shown.replace(/\\(?:x(..)|u(.{4})|U(.{8})|(.))/g, (_, x, u, U, letter) => ESCAPES[letter] ?? String.fromCodePoint(parseInt(x ?? u ?? U, 16)));
}

/* A name as tables show it, see cut() of jobs/pages/figures.py. */
const LONGEST_NAME = 120;
function cut(name) {
  const letters = name.length > LONGEST_NAME ? [...name] : [];
  return letters.length > LONGEST_NAME ? `${letters.slice(0, LONGEST_NAME - 13).join("")}\u2026${letters.slice(-12).join("")}` : name;
}

const DASH = "\u2013"; /* not known */
const NUMBERS = new Intl.NumberFormat("en");
const LETTERS = new Intl.Collator("en");

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
