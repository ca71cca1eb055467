"""A real browser without a window: Chromium, driven and read by a test."""

import importlib.util
import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
HAS_DRIVER = importlib.util.find_spec("playwright") is not None
NEEDED = pytest.mark.skipif(
    CHROMIUM is None or not HAS_DRIVER, reason="needs Chromium, and playwright to drive it"
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]


@contextmanager
def page_of(address, width=1280, height=800, flags=()):
    """An empty page, for pages below `address`; they may ask for nothing elsewhere, nor log errors.

    `flags` are more of Chromium's.
    """
    from playwright.sync_api import sync_playwright

    asked, errors = [], []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *flags])
        page = browser.new_page(viewport={"width": width, "height": height})
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda line: errors.extend([line.text] * (line.type == "error")))
        yield page
        browser.close()

    assert [value for value in asked if not value.startswith((address, "data:", "blob:"))] == []
    assert errors == []
