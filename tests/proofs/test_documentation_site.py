"""The documentation site: built with warnings as errors, crawled, and searched in a browser."""

import functools
import http.server
import importlib.util
import os
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

import browser
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "docs" / "site" / "mkdocs.yml"
PACKAGES = ("mkdocs", "material", "mkdocstrings_handlers", "ruff")
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy knows no loopback

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(package) is None for package in PACKAGES),
        reason="needs the packages of docs/site/requirements.txt",
    ),
]


class Page(HTMLParser):
    """The places that a page has, what it loads by itself, and where its links lead."""

    def __init__(self, text):
        super().__init__()
        self.places, self.loaded, self.links = {""}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        result = dict(attrs)
        self.places |= {result[name] for name in ("id", "name") if result.get(name)}
        self.loaded += [result["src"]] if "src" in result else []
        if "href" in result:
            (self.loaded if tag == "link" else self.links).append(result["href"])


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files, and prints nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(made_once):
    """The address of the site, built and served."""

    def build(folder):
        mkdocs = sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", CONFIG
        own = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        subprocess.run([*mkdocs, "-d", folder], env=own, check=True, timeout=300)

    folder = made_once("site", build)
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@functools.cache
def fetched(address):
    """A page of the server, or None for a file of another kind."""
    with OPENER.open(address, timeout=60) as answer:
        content = answer.read()
        is_page = answer.headers.get_content_type() == "text/html"
        return Page(content.decode()) if is_page else None


def crawled(site):
    """Every page that can be reached from the first one, by its address."""
    pages, waiting = {}, [site]
    while waiting:
        address = waiting.pop()
        if address in pages:
            continue
        pages[address] = page = fetched(address)
        links = [urllib.parse.urljoin(address, link) for link in page.links] if page else []
        waiting += [urllib.parse.urldefrag(link)[0] for link in links if link.startswith(site)]
    return {address: page for address, page in pages.items() if page}


def test_no_link_is_broken_and_nothing_is_loaded_from_elsewhere(site):
    pages = crawled(site)

    assert len(pages) > 40
    assert f"{site}api/optim/" in pages and f"{site}changelog/" in pages
    for address, page in pages.items():
        for loaded in page.loaded:
            source = urllib.parse.urljoin(address, loaded)
            assert source.startswith(site), (address, loaded)
            fetched(source)
        for link in page.links:
            target, place = urllib.parse.urldefrag(urllib.parse.urljoin(address, link))
            if target in pages:
                assert urllib.parse.unquote(place) in pages[target].places, (address, link)


FOUND = {  # words that a reader types into the search, and the page that answers
    "EXIF": "data.md",
    "gradient accumulation": "concepts.md",
    "learning rate finder": "commands.md",
    "notebook": "python.md",
    "callback": "observers.md",
}


def test_the_words_that_people_search_for_are_on_their_pages():
    for words, page in FOUND.items():
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert words.casefold() in text.casefold(), (words, page)


@browser.NEEDED
def test_a_search_for_param_groups_leads_to_its_page(site, tmp_path):
    with browser.page_of(site) as page:
        page.goto(site, wait_until="networkidle")  # the index of the search is there
        assert page.get_by_role("heading", level=1).inner_text().startswith("Andiron")
        picture = tmp_path / "first_page.png"
        page.screenshot(path=picture)
        with Image.open(picture) as taken:
            assert taken.size == (1280, 800) and len(taken.getcolors(10**6)) > 100

        page.get_by_role("textbox", name="Search").press_sequentially("param_groups")
        results = page.locator("a.md-search-result__link")
        results.first.wait_for()
        assert results.first.get_attribute("href").startswith(f"{site}parameter_groups/")
        results.first.click()
        page.wait_for_url(f"{site}parameter_groups/**")
        assert "Parameter groups" in page.get_by_role("heading", level=1).inner_text()
        page.locator("mark", has_text="param_groups").first.wait_for()  # the page marks it late
