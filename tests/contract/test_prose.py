"""Sentences of the README and of the pages are short, and their terms are those of the glossary."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
MOST_WORDS = {"README.md": 22}
"""The largest 90th percentile of words a sentence, of pages with a limit of their own."""
MOST_WORDS_OF_A_PAGE = 24
LEAST_SHARE = 0.5
"""How much of the words of a page has to be in the sentences that are measured."""
WORDS_OF_A_SENTENCE = 6
"""A cell with at least so many words is text, not a name or a figure."""
CELL = re.compile(r"(?<!\\)\|")
ITEM = re.compile(r"([*+-]|\d+\.)\s+")
LEAD_IN = re.compile(r"^\*\*[^*]+[.:]\*\*\s*")
"""Bold text with its own full stop before a paragraph is a heading."""


@dataclass(frozen=True)
class Page:
    """The words of one Markdown page.

    Attributes:
        blocks: paragraphs and list items, without headings, code and tables.
        cells: cells of tables, without their heads.
        other_words: number of words in headings and code.
    """

    blocks: tuple[str, ...]
    cells: tuple[str, ...]
    other_words: int

    def texts(self) -> tuple[str, ...]:
        """Return what is measured: the blocks, and the long cells too where most words are in tables."""
        in_tables = sum(map(count_words, self.cells))
        if in_tables <= sum(map(count_words, self.blocks)):
            return self.blocks
        return (*self.blocks, *(cell for cell in self.cells if count_words(cell) >= WORDS_OF_A_SENTENCE))

    def lengths(self) -> list[int]:
        """Return the number of words of each sentence, in ascending order."""
        found = (re.split(r"(?<=[.?!])[\"')*]*\s+", text) for text in self.texts())
        return sorted(filter(None, (count_words(sentence) for sentences in found for sentence in sentences)))

    def percentile(self) -> int:
        """Return the 90th percentile of words a sentence."""
        lengths = self.lengths()
        return lengths[len(lengths) * 9 // 10]

    def share(self) -> float:
        """Return the share of measured words in all words; names and figures in tables are left out."""
        measured = sum(self.lengths())
        return measured / (measured + self.other_words)


def count_words(text: str) -> int:
    """Return the number of words: what is between spaces and has a letter or a digit."""
    return sum(re.search(r"\w", part) is not None for part in text.split())


def parse(markdown: str) -> Page:
    """Return the words of a page."""
    blocks: list[str] = []
    cells: list[str] = []
    block: list[str] = []
    other_words = 0
    is_code = is_table = False
    for line in [*re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown).splitlines(), ""]:
        text = line.strip()
        is_fence, is_row, item = text.startswith("```"), text.startswith("|"), ITEM.match(text)
        if block and (not text or is_fence or is_row or item or text.startswith("#")):
            blocks.append(LEAD_IN.sub("", " ".join(block)))
            block.clear()
        if is_fence:
            is_code = not is_code
        elif is_code or text.startswith("#"):
            other_words += count_words(text)
        elif is_row and is_table:
            cells += [cell.strip() for cell in CELL.split(text)]
        elif text and not is_row:
            block.append(text[item.end() :] if item else text)
        is_table = is_row and not is_code
    return Page(tuple(blocks), tuple(cells), other_words)


def read(page: str) -> Page:
    return parse((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("markdown", "lengths"),
    [
        ("One two three. Four five.\nSix", [1, 2, 3]),
        ("A line that goes on\nin the next one.", [9]),
        ("Is `a.b` one word? Yes!", [1, 4]),
        ("Version 4.0 (see below.) ends here", [2, 4]),
        ("* first item\n* second item,\n  continued\n\nparagraph", [1, 2, 3]),
        ("1. first\n2. second item", [1, 2]),
        ("# A heading of five words\ntext", [1]),
        ("before\n```bash\nno such words. None\n```\nafter", [1, 1]),
        ("**Lead in.** Three words here. **Bold** counts.", [2, 3]),
        ("A [link with four words](a/b.md#c) here.", [6]),
        ("to be - or not", [4]),
        ("enough words outside of the table here\n\n| head |\n|---|\n| a cell of six words or more |", [7]),
        ("few\n\n| head | b |\n|---|---|\n| this cell has six words. Truly | short |", [1, 1, 5]),
        ("few\n\n| head |\n|---|\n| five words are too few |", [1]),
    ],
)
def test_sentences_end_where_a_reader_sees_their_end(markdown: str, lengths: list[int]) -> None:
    assert parse(markdown).lengths() == lengths


def test_the_percentile_is_that_of_nine_sentences_in_ten() -> None:
    ten = " ".join(" ".join(["word"] * length) + "." for length in (30, 1, 2, 3, 4, 5, 6, 7, 8, 9))
    assert parse(ten).percentile() == 30
    assert parse(f"{ten} One more, which is short.").percentile() == 9


def test_code_and_headings_lower_the_share() -> None:
    assert parse("# Head\n\none two three\n\n```\nfour five\n```\n").share() == 0.5
    assert parse("one two\n\n| a | b |\n|---|---|\n| c | d |\n").share() == 1


@pytest.mark.parametrize("page", PAGES)
def test_sentences_are_short(page: str) -> None:
    measured = read(page)
    print(f"{page}: 90th percentile {measured.percentile()} words a sentence, {measured.share():.0%} of the words measured")
    assert measured.percentile() <= MOST_WORDS.get(page, MOST_WORDS_OF_A_PAGE)
    assert measured.share() >= LEAST_SHARE


def terms() -> list[str]:
    return re.findall(r"^\*\*([^*]+)\*\*: ", GLOSSARY, re.MULTILINE)


def test_the_glossary_defines_each_term_once() -> None:
    assert sorted(re.findall(r"\*\*([^*]+)\*\*", GLOSSARY)) == sorted(terms())
    assert len({term.casefold() for term in terms()}) == len(terms()) > 0


def bold_words(page: str) -> set[str]:
    """Return the bold words in sentences. Those at the beginning of a paragraph or an item are its title, as in ``* **land** ...``."""
    return {words.casefold() for block in read(page).blocks for words in re.findall(r"(?<=\S )\*\*([^*]+)\*\*", block)}


@pytest.mark.parametrize("page", PAGES)
def test_bold_words_in_a_sentence_are_terms_of_the_glossary(page: str) -> None:
    known = {name for term in terms() for name in (term.casefold(), f"{term.casefold()}s")}
    assert bold_words(page) - known == set()


def test_pages_introduce_terms_in_bold() -> None:
    assert {"README.md", "docs/architecture.md"} <= {page for page in PAGES if bold_words(page)}
