"""The page of a migration plan in a real browser: quick with 20,000 groups, readable on a telephone, without errors or requests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from jobs.pages.figures import visible
from jobs.reading.stored import GroupKey, PartitionWeights
from jobs.what_if.migration import FleetPlan, Plan, in_order, plan_migration
from jobs.what_if.migration_page import render_plan
from tests.builders.stored_groups import stored_group
from tests.contract.browser import browsing, requests_of, require_chromium
from tests.faults.hostile_names import NAMES

GROUPS = 20_000


def fleet() -> list[Plan]:
    """Return plans for groups of each verdict; some have hostile names."""
    held = {"a": {"t": (0, 1), "u": (0, 1)}, "b": {"t": (2,), "u": (2,)}}
    kinds = [stored_group(held, {"t": 3, "u": 3}, strategy=strategy) for strategy in ("sticky", "range", "stream")]
    plans = [plan_migration(one, PartitionWeights()) for one in kinds]
    names = [*(f"service-{number:05}" for number in range(GROUPS - len(NAMES))), *NAMES]
    return in_order(
        replace(plans[number % 3], stored=replace(plans[number % 3].stored, key=GroupKey("c", name))) for number, name in enumerate(names)
    )


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    pages = render_plan(FleetPlan(tuple(fleet()), 3), "run-1", "migration.html")
    path = tmp_path_factory.mktemp("page") / "migration.html"
    path.write_text(pages["migration.html"], encoding="utf-8")
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
    assert set(requests_of(chromium)) == {address}


def shown(browser: Chrome) -> str:
    return browser.find_element(By.ID, "shown").text


def names(browser: Chrome) -> list[str]:
    return browser.execute_script("return [...document.querySelectorAll('#group-table tbody tr')].map((row) => row.cells[1].textContent)")


def test_opens_at_once_and_turns_pages(browser: Chrome) -> None:
    started = time.monotonic()
    browser.refresh()
    assert time.monotonic() - started < 5
    assert shown(browser) == f"1\u2013100 of {GROUPS:,} groups"
    browser.find_element(By.ID, "next").click()
    assert shown(browser) == f"101\u2013200 of {GROUPS:,} groups"


def test_finds_a_group_and_its_reasons(browser: Chrome) -> None:
    browser.find_element(By.ID, "search").send_keys("SERVICE-00001")
    assert names(browser) == ["service-00001"]
    browser.find_element(By.CSS_SELECTOR, "#group-table summary").click()
    assert "set group.remote.assignor=range" in browser.find_element(By.CSS_SELECTOR, "#group-table .why").text


def test_shows_one_verdict(browser: Chrome) -> None:
    Select(browser.find_element(By.ID, "with-verdict")).select_by_visible_text("blocked")
    assert "in all" in shown(browser)
    badges = browser.execute_script("return [...document.querySelectorAll('#group-table tbody .badge')].map((it) => it.textContent)")
    assert set(badges) == {"blocked"} and len(badges) == 100


def test_sorts_by_moves_and_back(browser: Chrome) -> None:
    first = names(browser)
    heading = browser.find_element(By.CSS_SELECTOR, "th[data-column=moves] button")
    heading.click()
    assert {row.text for row in browser.find_elements(By.CSS_SELECTOR, "#group-table tbody td:nth-child(5)")} == {"1"}
    browser.find_element(By.CSS_SELECTOR, "th[data-column=order] button").click()
    browser.find_element(By.CSS_SELECTOR, "th[data-column=order] button").click()
    assert names(browser) == first


@pytest.mark.parametrize("name", [name for name in NAMES if 0 < len(name) < 100 and name.strip()][:20])
def test_hostile_name_is_found_and_shown_as_text(browser: Chrome, name: str) -> None:
    browser.execute_script(
        "const it = document.getElementById('search'); it.value = arguments[0]; it.dispatchEvent(new Event('input'))", visible(name)
    )
    assert visible(name) in names(browser)


def test_fits_a_telephone(browser: Chrome) -> None:
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True})
    try:
        assert browser.execute_script("return document.documentElement.scrollWidth") == 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_first_rows_are_those_that_the_script_draws(browser: Chrome, address: str) -> None:
    drawn = browser.execute_script("return document.querySelector('#group-table tbody').innerHTML.replaceAll('\\n', '')")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.refresh()
        rows = browser.find_elements(By.CSS_SELECTOR, "#group-table tbody tr")[:100]
        assert "".join(row.get_attribute("outerHTML") or "" for row in rows) == drawn
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
