"""Makes the pictures of docs/images anew: python -m tests.contract.images REPORT.html [--group NAME] [--migration PLAN.html]."""

from __future__ import annotations

import argparse
import base64
import tempfile
from pathlib import Path
from urllib.parse import quote

from selenium.webdriver import Chrome

from tests.contract.browser import browsing

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
DESK, PHONE, PAPER = (1400, 900), (390, 844), (794, 1123)
"""Windows in pixels; the last one is A4."""


def take(browser: Chrome, name: str, address: str, size: tuple[int, int]) -> None:
    """Write the picture ``name`` of a page in a window of this size."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print" if size == PAPER else "screen"})
    browser.get("about:blank")
    browser.get(address)
    if size == PAPER:
        browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    picture = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    path = IMAGES / f"{name}.png"
    path.write_bytes(base64.b64decode(picture["data"]))
    print(f"{path}: {path.stat().st_size:,} bytes")


def main() -> None:
    """Take the pictures of the files that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.contract.images", description=__doc__)
    parser.add_argument("report", type=Path, help="a report")
    parser.add_argument("--group", help="a group with details in it, for the picture of a group")
    parser.add_argument("--migration", type=Path, help="a page of what-if --migrate")
    wanted = parser.parse_args()
    report = wanted.report.resolve().as_uri()
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as profile, browsing(Path(profile)) as browser:
        take(browser, "first-screen", report, DESK)
        take(browser, "phone", report, PHONE)
        take(browser, "print", report, PAPER)
        if wanted.group:
            take(browser, "group", f"{report}#group={quote(wanted.group, safe='')}", DESK)
        if wanted.migration:
            take(browser, "migration", wanted.migration.resolve().as_uri(), DESK)


if __name__ == "__main__":
    main()
