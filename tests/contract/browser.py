"""Debian's chromium for tests: installed where it is missing and may be, driven through its WebDriver."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from tests.needs import need_programs

PACKAGES = ("chromium", "chromium-driver")
PROGRAMS = ("chromium", "chromedriver")


def require_chromium() -> None:
    """Make sure that there is a chromium; without one skip, and fail where CI counts on it."""
    need_programs(PROGRAMS, PACKAGES, "NO BROWSER, so nothing shows that the report works in one")


@contextmanager
def browsing(profile: Path) -> Iterator[Chrome]:
    """Yield a browser without a window, which logs the requests of pages and what they write to its console."""
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in (
        "--headless=new",
        "--no-sandbox",  # root has none
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-background-networking",
        "--hide-scrollbars",
        "--window-size=1280,1000",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        browser.set_page_load_timeout(30)
        yield browser
    finally:
        browser.quit()


def requests_of(browser: Chrome) -> list[str]:
    """Return the addresses that pages asked for since the last call; asking empties the log."""
    messages: Iterator[dict[str, Any]] = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    return [message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"]
