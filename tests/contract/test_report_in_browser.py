"""The report in a real browser: what its script does, that it is quick with 5,000 groups, logs no error and requests nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from jobs.pages.figures import visible
from jobs.report.anchors import anchor, generation_anchor
from jobs.report.page import MOST_BYTES, Document, build_page, render
from jobs.report.ranking import Ranking
from jobs.report.rows import ReportRows
from jobs.report.view import Page
from tests.builders.report_rows import AS_OF, finding_row, group_row, large_fleet, needing_row, sample
from tests.contract.browser import browsing, requests_of, require_chromium
from tests.faults.hostile_names import NAMES

ARTEFACTS = Path(__file__).resolve().parents[2] / ".evenkeel" / "artefacts"
GROUPS, DETAILED = 1_000, 8


@pytest.fixture(scope="module")
def page() -> Page:
    return build_page(large_fleet(GROUPS, DETAILED), AS_OF)


@pytest.fixture(scope="module")
def document(page: Page) -> Document:
    return render(page)


@pytest.fixture(scope="module")
def address(document: Document, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(document.html, encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    require_chromium()
    with browsing(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(chromium: Chrome, address: str) -> Iterator[Chrome]:
    """The page, newly opened; at the end nothing was wrong with it and nothing but the file was read."""
    chromium.get("about:blank")
    requests_of(chromium), chromium.get_log("browser")
    chromium.get(address)
    yield chromium
    assert chromium.get_log("browser") == []
    assert {url.partition("#")[0] for url in requests_of(chromium)} == {address}


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_missing_browser_skips_with_advice_and_fails_in_ci(ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr("tests.needs.shutil.which", lambda name: None)
    with pytest.raises(outcome, match=r"NO BROWSER.*apt-get install chromium chromium-driver \(no apt-get here, or not root\)"):
        require_chromium()


def names(browser: Chrome) -> list[str]:
    return browser.execute_script("return [...document.querySelectorAll('#group-table tbody tr')].map((row) => row.cells[1].textContent)")


def column(browser: Chrome, heading: str) -> list[str]:
    return browser.execute_script(
        """
        const place = [...document.querySelectorAll("#group-table thead th")].find((it) => it.textContent === arguments[0]).cellIndex;
        return [...document.querySelectorAll("#group-table tbody tr")].map((row) => row.cells[place].textContent);
        """,
        heading,
    )


def shown(browser: Chrome) -> str:
    return browser.find_element(By.ID, "shown").text


def press(browser: Chrome, heading: str) -> None:
    browser.find_element(By.XPATH, f"//table[@id='group-table']//th/button[text()='{heading}']").click()


def test_a_full_page_opens_at_once_and_shows_the_worst(chromium: Chrome, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(render(build_page(large_fleet(5_000, detailed=50), AS_OF)).html, encoding="utf-8")
    assert path.stat().st_size > 0.9 * MOST_BYTES
    started = time.monotonic()
    chromium.get(path.as_uri())
    assert names(chromium)[0].endswith("service-00000")
    took = time.monotonic() - started
    assert took < 30, "about two seconds on two cores that nobody else has"
    assert len(names(chromium)) == 100
    assert shown(chromium) == "1\N{EN DASH}100 of 5,000 groups"
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    chromium.save_screenshot(str(ARTEFACTS / "report.png"))


def test_script_makes_the_same_rows_as_the_page_without_script(chromium: Chrome, tmp_path: Path) -> None:
    """Of every kind: with and without details, sums of a part, what is not known, names that are cut or mean something in HTML."""
    kinds = [
        needing_row("a", critical_count=1_200, warning_count=3, current_warning_count=2, generation_count=5_000, member_count=1_000),
        needing_row("e", "partitions_left_out", "critical", better_gain=0.25),
        group_row("b", warning_count=1, movement_count=7_000, movement_count_known=1_400, generation_count=1_500, imbalance_ratio=1.115),
        group_row("c", strategy=None, movement_count=None, imbalance_ratio=None, last_at_ms=1_500_000_000_999),
        *(group_row(name, cluster_id=name, strategy=name) for name in NAMES),
    ]
    rows = ReportRows(ranked=Ranking(kinds), detailed=kinds[:1])
    path = tmp_path / "report.html"
    for details in ("", "one%20by%20one"):
        html = render(build_page(rows, AS_OF), details).html
        path.write_text(html, encoding="utf-8")
        chromium.get("about:blank")
        chromium.get(path.as_uri())
        differing = chromium.execute_script(
            """
            const before = new DOMParser().parseFromString(arguments[0], "text/html").querySelectorAll("#group-table tbody tr");
            const rows = [...document.querySelectorAll("#group-table tbody tr")];
            return [before.length, rows.filter((row, index) => !row.isEqualNode(before[index])).map((row) => row.outerHTML)];
            """,
            html,
        )
        assert differing == [len(kinds), []]


@pytest.fixture
def files(chromium: Chrome, tmp_path: Path, page: Page) -> list[Path]:
    """The same fleet in three files."""
    document = render(page, name="weekly report.html", most_bytes=120_000)
    paths = [tmp_path / f"weekly report{end}.html" for end in ("", "-groups-2", "-groups-3")]
    for path, html in zip(paths, (document.html, *document.further), strict=True):
        path.write_text(html, encoding="utf-8")
    chromium.get("about:blank")
    return paths


def wait_for_file(browser: Chrome, path: Path) -> None:
    WebDriverWait(browser, 60).until(lambda _: browser.current_url.partition("#")[0] == path.as_uri(), f"not in {path.name}")


def test_a_link_to_a_group_leads_to_the_file_that_has_it(chromium: Chrome, files: list[Path], page: Page) -> None:
    last = page.groups[GROUPS - 1]
    for fragment in (f"group={last.group_id}", last.anchor):
        chromium.get("about:blank")
        chromium.get(f"{files[0].as_uri()}#{fragment}")
        wait_for_file(chromium, files[2])
        wait_for_focus(chromium, last.anchor)
    chromium.get("about:blank")
    chromium.get(f"{files[0].as_uri()}#group=no such group")
    wait_for_file(chromium, files[2])
    assert names(chromium) == []
    chromium.get(f"{files[0].as_uri()}#group={page.groups[0].group_id}")
    assert names(chromium)[0] == page.groups[0].group_id and chromium.current_url.startswith(files[0].as_uri())


def test_files_together_show_all_groups_and_a_search_goes_along(chromium: Chrome, files: list[Path], page: Page) -> None:
    totals = []
    for path in reversed(files):
        chromium.get(path.as_uri())
        totals.append(int(shown(chromium).split(" of ")[1].split()[0]))
    assert sum(totals) == GROUPS and min(totals) > 0
    wanted = page.groups[GROUPS - 1].group_id
    chromium.find_element(By.ID, "search").send_keys(wanted.upper())
    assert names(chromium) == []
    chromium.find_elements(By.CSS_SELECTOR, "#files a")[-1].click()
    wait_for_file(chromium, files[2])
    assert chromium.find_element(By.ID, "search").get_attribute("value") == wanted.upper()
    assert names(chromium) == [wanted]


def test_a_group_is_found_by_a_part_of_its_name(browser: Chrome) -> None:
    search = browser.find_element(By.ID, "search")
    search.send_keys("SERVICE-0043")
    assert sorted(name.partition(".")[2] for name in names(browser)) == [f"service-{number:05}" for number in range(430, 440)]
    assert shown(browser) == "1\N{EN DASH}10 of 10 groups (1,000 in all)"
    search.clear()
    search.send_keys("no such group")
    assert (names(browser), shown(browser)) == ([], "0 groups (1,000 in all)")
    lost = browser.find_element(By.ID, "no-match")
    assert lost.text.startswith("No group here matches \u201cno such group\u201d.")
    lost.find_element(By.TAG_NAME, "button").click()
    assert len(names(browser)) == 100 and not lost.is_displayed()


def test_filters_narrow_each_other(browser: Chrome) -> None:
    Select(browser.find_element(By.ID, "with-needs")).select_by_visible_text("nothing now, past findings")
    assert shown(browser).endswith("of 8 groups (1,000 in all)")
    Select(browser.find_element(By.ID, "with-strategy")).select_by_visible_text("sticky")
    assert set(column(browser, "strategy")) == {"sticky"} and "0" not in column(browser, "critical")
    assert shown(browser) == "1\N{EN DASH}4 of 4 groups (1,000 in all)"


def test_headings_sort_numbers_as_numbers_with_mouse_and_keyboard(browser: Chrome) -> None:
    press(browser, "movements")
    assert column(browser, "movements") == ["16"] * 58 + ["15"] * 42
    press(browser, "movements")
    assert column(browser, "movements") == ["0"] * 59 + ["1"] * 41
    heading = browser.find_element(By.XPATH, "//table[@id='group-table']//th/button[text()='group']")
    heading.send_keys(Keys.ENTER)
    assert names(browser) == sorted(names(browser)) and names(browser)[0] == "team-0.service-00000"
    sorted_by = browser.find_elements(By.CSS_SELECTOR, "#group-table th[aria-sort]")
    assert [(heading.text.split()[0], heading.get_attribute("aria-sort")) for heading in sorted_by] == [("group", "ascending")]


def test_pages_lead_on_to_the_last_group(browser: Chrome, page: Page) -> None:
    previous, following = browser.find_element(By.ID, "previous"), browser.find_element(By.ID, "next")
    assert not previous.is_enabled()
    browser.execute_script("for (let page = 1; page < 10; page += 1) arguments[0].click()", following)
    assert names(browser) == [group.group_id for group in page.groups[-100:]]
    assert not following.is_enabled() and previous.is_enabled()


def test_a_name_leads_to_the_groups_details_and_back(browser: Chrome, document: Document) -> None:
    link = browser.find_element(By.LINK_TEXT, "team-0.service-00000")
    link.click()
    anchor = browser.current_url.partition("#")[2]
    assert anchor in document.detailed
    section = browser.find_element(By.ID, anchor)
    assert abs(browser.execute_script("return arguments[0].getBoundingClientRect().top", section)) < 100
    section.find_element(By.LINK_TEXT, "Back to the groups").click()
    assert browser.current_url.endswith("#groups")


def test_a_prediction_leads_to_its_generation_and_unfolds_it(chromium: Chrome, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(render(build_page(sample(("orders",)), AS_OF)).html, encoding="utf-8")
    chromium.get(path.as_uri())
    row = chromium.find_element(By.ID, generation_anchor(anchor("prod", "orders"), 12))
    assert not row.is_displayed()
    chromium.find_element(By.CSS_SELECTOR, "#predictions a[href$='-12']").click()
    WebDriverWait(chromium, 60).until(lambda _: row.is_displayed(), "still folded")
    top, height = chromium.execute_script("return [arguments[0].getBoundingClientRect().top, innerHeight]", row)
    assert 0 <= top < height
    chromium.find_element(By.CSS_SELECTOR, "#predictions th a").click()
    assert chromium.current_url.endswith(f"#{anchor('prod', 'orders')}")
    assert chromium.get_log("browser") == []


@pytest.mark.parametrize("number", [GROUPS - 1, DETAILED], ids=["of a later page", "without details"])
def test_a_link_shows_a_groups_row_wherever_it_is(browser: Chrome, address: str, number: int) -> None:
    name = f"team-{number % 40}.service-{number:05}"
    browser.execute_script("location.hash = arguments[0]", f"group={name}")
    row = browser.switch_to.active_element
    assert name in row.text and row.is_displayed()
    anchor = row.get_attribute("id")
    browser.get("about:blank")
    browser.get(f"{address}#{anchor}")
    assert name in browser.switch_to.active_element.text
    assert "sought" in browser.find_element(By.ID, anchor).get_attribute("class")


def test_a_link_by_name_opens_details_and_one_with_a_search_searches(browser: Chrome, document: Document) -> None:
    browser.execute_script("location.hash = '#group=team-1.service-00001'")
    assert browser.execute_async_script("setTimeout(() => arguments[0](location.hash.slice(1)), 50)") in document.detailed
    browser.execute_script("location.hash = '#q=service-0009'")
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert sorted(name.partition(".")[2] for name in names(browser)) == [f"service-{number:05}" for number in range(90, 100)]


BLANKS = "two  blanks"


@pytest.fixture
def odd_names(chromium: Chrome, tmp_path: Path) -> tuple[str, list[str]]:
    """The address of a page without details, and its groups: names that are escaped or cut, then as many others as make a second page."""
    long = "team." * 40
    names = [
        "C:\\temp\\orders",
        f"{long}first{long}",
        f"{long}other{long}",
        "a\u00a0b\u202ec\nd\U000e0001",
        *(f"g{n:03}" for n in range(150)),
    ]
    strategies = [BLANKS, f"{long}first{long}", f"{long}other{long}", "Range"]
    ranked = [group_row(name, strategy=strategies[n] if n < 4 else "range") for n, name in enumerate(names)]
    rows = ReportRows(ranked=Ranking(ranked), findings=[finding_row(names[-1])])
    path = tmp_path / "odd.html"
    path.write_text(render(build_page(rows, AS_OF)).html, encoding="utf-8")
    return path.as_uri(), names


def test_a_link_by_the_real_name_leads_to_one_that_is_escaped_or_cut(chromium: Chrome, odd_names: tuple[str, list[str]]) -> None:
    address, groups = odd_names
    for name in groups[:4]:
        chromium.get("about:blank")
        chromium.get(f"{address}#group={quote(name, safe='')}")
        wait_for_focus(chromium, anchor("prod", visible(name)))


def test_search_takes_what_is_shown_what_is_real_and_what_is_cut_away(chromium: Chrome, odd_names: tuple[str, list[str]]) -> None:
    chromium.get("about:blank")
    chromium.get(odd_names[0])
    search = chromium.find_element(By.ID, "search")
    for part, found in (("TEMP\\ord", 1), ("temp\\\\ord", 1), ("other", 1), ("team.", 2), ("b\\u202ec", 1)):
        search.clear()
        search.send_keys(part)
        assert len(names(chromium)) == found, part


def test_filters_distinguish_names_that_differ_in_case_only(chromium: Chrome, odd_names: tuple[str, list[str]]) -> None:
    chromium.get("about:blank")
    chromium.get(odd_names[0])
    choice = Select(chromium.find_element(By.ID, "with-strategy"))
    assert len(choice.options) == 1 + 5, "as many as strategies, whatever their case"
    found = []
    for number in range(1, 6):
        choice.select_by_index(number)
        found.append(int(shown(chromium).split(" of ")[1].split()[0]))
    assert sorted(found) == [1, 1, 1, 1, 150]


def test_link_works_a_second_time_when_its_anchor_is_in_the_address_bar(chromium: Chrome, odd_names: tuple[str, list[str]]) -> None:
    chromium.get("about:blank")
    chromium.get(odd_names[0])
    link = chromium.find_element(By.CSS_SELECTOR, "#finding-list a")
    for _ in range(2):
        link.click()
        wait_for_focus(chromium, anchor("prod", odd_names[1][-1]))
        chromium.find_element(By.ID, "previous").click()
        assert odd_names[1][-1] not in names(chromium)


def wait_for_focus(browser: Chrome, name: str) -> None:
    """Return when an element has the focus; the page learns of a new place in the address bar after the click."""
    WebDriverWait(browser, 60).until(lambda _: browser.switch_to.active_element.get_attribute("id") == name, f"the focus is not on {name}")


def printed(browser: Chrome) -> list[str]:
    """Names of the groups that are in the table while the page is printed."""
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    return names(browser)


def end_print(browser: Chrome) -> None:
    browser.execute_script("dispatchEvent(new Event('afterprint'))")


def notes(browser: Chrome) -> list[str]:
    return [note.text for note in browser.find_elements(By.CSS_SELECTOR, "p.note") if note.text.startswith("Filtered:")]


def test_print_of_everything_shows_all_groups_and_afterwards_the_same_hundred_return(browser: Chrome, page: Page) -> None:
    browser.find_element(By.ID, "next").click()
    seen = names(browser)
    every = [group.group_id for group in page.groups]
    assert printed(browser) == every[:45] and notes(browser) == []
    end_print(browser)
    browser.execute_script("document.body.classList.add('everything')")
    assert printed(browser) == every and notes(browser) == []
    end_print(browser)
    assert "everything" not in browser.find_element(By.TAG_NAME, "body").get_attribute("class")
    assert names(browser) == seen and len(seen) == 100


def test_paper_says_what_a_filter_leaves_out(browser: Chrome) -> None:
    browser.find_element(By.ID, "search").send_keys("service-00")
    Select(browser.find_element(By.ID, "with-strategy")).select_by_visible_text("sticky")
    browser.find_element(By.CSS_SELECTOR, "#findings input").send_keys("SERVICE-00000")
    browser.execute_script("document.body.classList.add('everything')")
    shown_names = printed(browser)
    assert len(shown_names) == 500 and all(name.endswith(tuple("13579")) for name in shown_names)
    assert notes(browser) == [
        'Filtered: 500 of 1,000 groups are listed here, by Search "service-00", Strategy "sticky".',
        'Filtered: 1 of 8 findings are listed here, by "SERVICE-00000".',
    ]
    end_print(browser)
    assert notes(browser) == [] and len(names(browser)) == 100
