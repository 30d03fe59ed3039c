"""The page in a real Chromium: it follows a job through backlog, flip and live, at both widths, light and dark."""

import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mixedmode.checkpoint.types import Epoch, Manifest, RunFile, SourceProgress, StagedFile
from mixedmode.driver.events import EpochCommitted, Event
from mixedmode.serve.app import Site
from mixedmode.serve.folders import open_folders
from mixedmode.serve.graph import graph_of_job
from mixedmode.serve.server import Server
from mixedmode.time import MAX_TIME_US, MIN_TIME_US
from tests.serve import story
from tests.serve.chromium import BROWSER, Page, chromium_page
from tests.serve.site import Served, committed, served
from tests.serve.test_folders import ENDPOINT, folder_of_story
from tests.serve.test_graph import branched

pytestmark = pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed: apt-get install chromium")
KINDS = "[...document.querySelectorAll('#timeline .legend li')].map((one) => one.textContent).join()"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium_page(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _nothing_is_open(page: Page) -> None:
    """Leave the page of the test before."""
    page.call("Page.navigate", url="about:blank")
    page.wait("location.href === 'about:blank'")
    page.complaints.clear()
    page.requested.clear()


def tell(site: Served, told: Iterable[tuple[int, Event]]) -> None:
    """Let the job have the events at their times."""
    for second, event in told:
        site.clock.time_ms = story.START_MS + 1000 * second
        site.tell(event)


@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize("width", [400, 1600])
def test_the_page_follows_a_job_from_backlog_over_the_flip_to_live(
    page: Page, width: int, is_dark: bool, tmp_path: Path
) -> None:
    stored: list[Manifest] = []
    with served(tmp_path, spec=story.spec(tmp_path), stored=stored) as site:
        tell(site, story.backlog())
        page.open(site.server.url, width=width, height=1130 if width > 1000 else 3800, is_dark=is_dark)
        page.wait("document.body?.dataset.phase === 'backlog'")
        progress = page.value("document.getElementById('progress').innerText")
        assert "Epoch 0, backlog" in progress
        for figure in ("62 %", "about 38 s", "2.2 GiB of 2.2 GiB", "41M of 41M", "32 of 32", "334 MiB"):
            assert figure in progress, progress
        assert page.value(KINDS) == "starting,catching up,backlog"
        told = list(story.live(40))
        committed_epochs = [event for _, event in told if isinstance(event, EpochCommitted)]
        stored += [event.manifest for event in committed_epochs[-10:] if event.manifest is not None]
        tell(site, told)  # the page reads the checkpoints after the first of the epochs, and again in 5 s
        page.wait("document.body.dataset.epoch === '40' && document.body.dataset.phase === 'live'")
        page.wait("document.querySelectorAll('#checkpoints tbody tr').length === 10")
        page.wait(f"{KINDS} === 'starting,catching up,backlog,live'")  # the page reads the timeline after the events
        page.wait("document.getElementById('progress').hidden")
        for mark in ("flip: live from here on, after epoch 0", "subtasks of orders_by_customer 4 to 6"):
            page.wait(f"document.getElementById('marks').innerText.includes('{mark}')")
        assert page.value("document.querySelectorAll('#charts svg[role=img] rect, #charts path.line').length") > 200
        assert page.value("document.documentElement.scrollWidth") == width, "nothing is wider than the window"
        background = page.value("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(16, 21, 27)") == is_dark
        keep_picture(page, f"serve-{width}-{'dark' if is_dark else 'light'}.png")
        assert page.complaints == []
        assert [url for url in page.requested if not url.startswith(site.server.url)] == []


def keep_picture(page: Page, name: str) -> None:
    """Store the picture in the folder that MIXEDMODE_TEST_PICTURES names; docs/images/serve.png is one of them."""
    folder = os.environ.get("MIXEDMODE_TEST_PICTURES")
    if folder is not None:
        page.picture(Path(folder) / name)


FAIL_ONCE = """(() => {
    const send = window.fetch;
    window.fetch = (url, given) => {
        if (!url.startsWith('/api/v1/timeline')) return send(url, given);
        window.fetch = send;
        return Promise.reject(new TypeError('the connection was reset'));
    };
})()"""


def test_a_mark_is_shown_although_the_first_request_for_it_fails(page: Page, tmp_path: Path) -> None:
    with served(tmp_path) as site:
        page.open(site.server.url, width=1000, height=800, is_dark=False)
        page.wait("document.getElementById('name')?.textContent === 'totals'")
        page.value(FAIL_ONCE)
        site.job.mark("savepoint", "savepoint of epoch 7")
        page.wait("document.getElementById('marks').innerText.includes('savepoint of epoch 7')")
        assert page.value("document.getElementById('marks').innerText.match(/savepoint of epoch 7/g).length") == 1


def test_over_folders_the_page_shows_one_job_at_a_time_without_charts_of_times(page: Page, tmp_path: Path) -> None:
    folders = [folder_of_story(tmp_path / "a"), folder_of_story(tmp_path / "b", epochs=3, name="totals")]
    with Server(Site(open_folders([str(folder) for folder in folders])), ENDPOINT) as server:
        page.open(server.url, width=1000, height=800, is_dark=False)
        page.wait("document.body?.dataset.epoch === '5'")
        shown = "[...document.querySelectorAll('#charts > section:not([hidden])')].map((one) => one.ariaLabel)"
        assert page.value(shown) == [
            *("Lag of event time", "Records", "Late and dropped records"),
            *("Rows read by step", "State by step", "Rows to outputs"),
        ]
        jobs = "document.getElementById('jobs')"
        page.value(f"{jobs}.value = 'totals'; {jobs}.dispatchEvent(new Event('change'))")
        page.wait("document.body.dataset.epoch === '2' && document.getElementById('name').textContent === 'totals'")
        assert page.value("document.getElementById('control').hidden") is True
        assert page.complaints == []


def test_the_times_of_the_page_have_their_date_and_zone(page: Page, tmp_path: Path) -> None:
    """Also of a watermark that is years behind the clock, or beyond the dates of JavaScript."""
    shown = {
        1_704_106_799_999_999: "watermark 2024-01-01 10:59:59 UTC",
        -1: "watermark 1969-12-31 23:59:59 UTC",
        253_402_300_800_000_000: "watermark +010000-01-01 00:00:00 UTC",
        MAX_TIME_US - 1: "watermark 9,223,372,036,854,776 ms since 1970",
        MIN_TIME_US + 1: "watermark -9,223,372,036,854,776 ms since 1970",
    }
    with served(tmp_path) as site:
        page.open(site.server.url, width=1000, height=800, is_dark=False)
        page.wait("document.getElementById('name')?.textContent === 'totals'")
        site.job.mark("savepoint", "savepoint of epoch 7")
        for epoch, (watermark_us, text) in enumerate(shown.items()):
            site.tell(committed(epoch, watermark_us=watermark_us))
            page.wait(f"document.body.dataset.epoch === '{epoch}'")
            page.wait(f"document.getElementById('tiles').innerText.includes('{text}')")
        page.wait("document.getElementById('marks').innerText.includes('savepoint of epoch 7')")
        times = page.value("document.body.textContent.match(/.{0,11}\\d\\d:\\d\\d:\\d\\d.{0,4}/g)")
        assert len(times) > 1
        assert [text for text in times if not re.fullmatch(r".*\d-\d\d-\d\d \d\d:\d\d:\d\d UTC", text)] == []
        assert page.complaints == []


def test_texts_of_a_job_are_never_html(page: Page, tmp_path: Path) -> None:
    attack = "<img src=x onerror=\"document.title='hacked'\"><b>bold</b>"
    with served(tmp_path) as site:
        site.job.mark("savepoint", attack)
        page.open(site.server.url, width=1000, height=800, is_dark=False)
        page.wait("document.getElementById('marks')?.innerText.includes('onerror')")
        assert page.value("document.querySelectorAll('#marks img, #marks b').length") == 0
        assert "hacked" not in page.value("document.title")


def test_a_reader_types_the_token_and_the_page_keeps_it_from_the_url(page: Page, tmp_path: Path) -> None:
    from mixedmode.serve.address import Tokens

    token = f"read-{zlib.crc32(b'token'):020}"
    with served(tmp_path, tokens=Tokens(read=token)) as site:
        tell(site, story.backlog())
        page.open(site.server.url, width=1000, height=800, is_dark=False)
        page.wait("document.getElementById('access') && !document.getElementById('access').hidden")
        assert page.value("document.getElementById('name').textContent") == "mixedmode", "nothing of the job is shown"
        page.requested.clear()
        page.value(
            f"document.getElementById('token').value = '{token}'; document.getElementById('access').requestSubmit()"
        )
        page.wait("document.getElementById('name').textContent === 'totals'")
        assert not [url for url in page.requested if token in url]


@pytest.mark.parametrize("width", [400, 1600])
def test_the_page_draws_an_arrow_for_each_input_of_a_graph(page: Page, width: int, tmp_path: Path) -> None:
    with served(tmp_path, spec=branched(tmp_path)) as site:
        page.open(site.server.url, width=width, height=1000, is_dark=False)
        page.wait("document.querySelectorAll('#flow .node').length === 7")
        edges = page.value(
            "[...document.querySelectorAll('#flow .edge')].map((one) => one.dataset.from + ' ' + one.dataset.to).join()"
        )
        assert edges.split(",") == [" ".join(edge) for edge in graph_of_job(branched(tmp_path))["edges"]]
        before = story.manifest(0, 1000)
        totals = replace(before.operators[0], operator_id="totals", runs=(run_of(1, 500),))
        files = (StagedFile("s", "f", 1, 300, "", "alerts"),)
        changes: dict[str, Any] = {"operators": (totals,), "outputs": files, "output_names": ("totals", "alerts")}
        changes["rows_read"] = {"totals": 800}
        for epoch in (0, 1):
            progress = {name: SourceProgress(4000 + 1000 * epoch, None, None) for name in ("orders", "refunds")}
            manifest = replace(before, epoch=Epoch(epoch), sources=progress, **changes)
            site.tell(committed(epoch, manifest=manifest))
        page.wait("document.body.dataset.epoch === '1'")
        notes = page.value("[...document.querySelectorAll('#flow .node title')].map((one) => one.textContent).join()")
        assert "orders: 500 records/s" in notes, "1000 records in the 2 s of the epoch"
        assert "totals: 400 rows/s, 4 subtasks" in notes
        assert "alerts: 150 rows/s" in notes
        assert "totals: 0 rows/s" in notes
        assert page.value("document.documentElement.scrollWidth") == width, "a wide graph scrolls in its own box"
        assert page.value("document.querySelector('#flow .node rect').getBoundingClientRect().width") >= 188, (
            "it does not become so small that its text cannot be read"
        )
        keep_picture(page, f"graph-{width}.png")
        assert page.complaints == []


def run_of(epoch: int, entries: int) -> RunFile:
    return RunFile(f"runs/totals/{epoch:010}-0000000000-x.sst", 0, 10, entries, 0, 64, "0")
