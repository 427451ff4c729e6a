"""The report in a real browser, opened from disk with the network off."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import chromium, need_chromium
from tiny_report import CLASS, HOSTILE, ITEM, TAGS, TEX, reported

from benchkit.report.making import Wishes, write_report

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PLACE = """
const figure = Bokeh.documents.map(d => d.get_model_by_name('plot')).find(p => p.document.get_model_by_name('points-2') &&
    p.document.get_model_by_name('points-0').data.x.length === arguments[1]);
const data = figure.document.get_model_by_name('points-0').data;
const view = Bokeh.index.get_by_id(figure.id);
return [view.frame.x_scale.compute(data.x[arguments[0]]), view.frame.y_scale.compute(data.y[arguments[0]])];
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two benchmarks, with pictures of some items."""
    need_chromium()
    root = tmp_path_factory.mktemp("report")
    write_report(root / "report.html", reported(root), wishes=Wishes(flips=("plain", HOSTILE), pictures=6))
    return root / "report.html"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    need_chromium()
    with chromium(tmp_path_factory.mktemp("profile"), flags=["--host-resolver-rules=MAP * ~NOTFOUND"]) as found:
        yield found


@pytest.fixture
def page(driver: Any, report: Path) -> Iterator[Any]:
    """The report when its plots are there; ends with a look at what the browser complained about."""
    driver.get(f"file://{report}")
    waits(driver, lambda: count(driver, ".legend button") == len(TAGS) + 1)
    yield driver
    assert [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    assert driver.execute_script("return typeof hacked") == "undefined"


def waits(page: Any, true: Callable[[], Any]) -> None:
    """Until something holds."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(page, 30, 0.05).until(lambda _: true())


def texts(page: Any, selector: str) -> list[str]:
    found = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
    return list(page.execute_script(found, selector))


def count(page: Any, selector: str) -> int:
    return int(page.execute_script("return document.querySelectorAll(arguments[0]).length", selector))


def choose(page: Any, selector: str, label: str) -> None:
    """Take the choice of the first such <select> that is called so."""
    page.execute_script(
        "const s = document.querySelector(arguments[0]);"
        "s.value = [...s.options].find(o => o.textContent === arguments[1]).value;"
        "s.dispatchEvent(new Event('change', {bubbles: true}));",
        selector,
        label,
    )


def data(page: Any, name: str) -> Any:
    """A block of data of the page."""
    return json.loads(page.execute_script("return document.getElementById(arguments[0]).textContent", f"data-{name}"))


def point_at(page: Any, item: int, click: bool = False) -> None:
    """Move the pointer to the first tag's point of an item in the first plot of items."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    box = page.find_element(By.CSS_SELECTOR, ".explorer .plot")
    page.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", box)
    x, y = page.execute_script(PLACE, item, len(data(page, "items-0")["items"]))
    left, top = box.size["width"] / 2, box.size["height"] / 2
    moved = ActionChains(page).move_to_element_with_offset(box, round(x - left), round(y - top))
    (moved.click() if click else moved).perform()


class TestFromDisk:
    def test_it_opens_without_a_network_or_a_complaint(self, page: Any):
        loaded = page.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
        assert [name for name in loaded if not name.startswith(("data:", "blob:"))] == []
        assert texts(page, "h2") == ["Boards", "All benchmarks by tag", "Score against cost", "Benchmarks"]
        assert page.execute_script("return Bokeh.documents.length") == 3  # of costs, and of two benchmarks

    def test_hostile_names_are_text(self, page: Any):
        for selector in (".board th", ".heat .upright", ".legend button", ".flip-a option", ".record > summary"):
            assert {HOSTILE, TEX} <= set(texts(page, selector)), selector
        assert count(page, "img[src='x'], b[onclick]") == 0

    def test_tables_are_sorted_by_a_click(self, page: Any):
        values = ".board tbody td:nth-child(3)"
        first = texts(page, values)[: len(TAGS)]
        for _ in range(2):
            page.execute_script("document.querySelector('.board thead th:nth-child(3) button').click()")
        assert texts(page, values)[: len(TAGS)] == sorted(first)
        assert page.execute_script("return document.querySelector('.board th:nth-child(3)').ariaSort") == "ascending"


class TestThePlot:
    def test_hover_shows_name_thumbnail_and_the_scores_of_all(self, page: Any):
        point_at(page, 3)
        waits(page, lambda: texts(page, ".panel h4") == [data(page, "items-0")["items"][3]])
        assert set(texts(page, ".panel tbody th")) == set(TAGS)
        waits(page, lambda: page.execute_script("return document.querySelector('.panel img').naturalWidth > 0"))
        assert page.execute_script("return document.querySelector('.panel img').src").startswith("data:image/")

    def test_a_click_pins_pictures_of_every_experiment(self, page: Any):
        row = int(next(iter(data(page, "pictures-0"))))
        point_at(page, row, click=True)
        waits(page, lambda: texts(page, ".pin h4") == [data(page, "items-0")["items"][row]])
        assert set(texts(page, ".pin figcaption")) == set(TAGS)
        drawn = "return [...document.querySelectorAll('.pin img')].every(i => i.naturalWidth > 0)"
        waits(page, lambda: page.execute_script(drawn))
        page.execute_script("document.querySelector('.pin .close').click()")
        assert count(page, ".pin") == 0

    def test_an_item_without_pictures_is_pinned_with_its_scores(self, page: Any):
        items, pictured = data(page, "items-0")["items"], data(page, "pictures-0")
        row = next(row for row in range(len(items)) if str(row) not in pictured)
        point_at(page, row, click=True)
        waits(page, lambda: texts(page, ".pin h4") == [items[row]])
        assert count(page, ".pin figure") == 0
        assert count(page, ".pin tbody tr") == len(TAGS)

    def test_the_legend_hides_and_shows(self, page: Any):
        shown = (
            "return Bokeh.documents.map(d => d.get_model_by_name('points-2-shown')).filter(m => m && !m.visible).length"
        )
        for pressed, hidden in (("false", 1), ("true", 0)):
            page.execute_script("document.querySelectorAll('.legend button')[2].click()")
            assert page.execute_script("return document.querySelectorAll('.legend button')[2].ariaPressed") == pressed
            assert page.execute_script(shown) == hidden

    def test_axes_can_be_any_score_or_category(self, page: Any):
        axes = "return Bokeh.documents.map(d => d.get_model_by_name('x-axis'))"
        choose(page, ".axis-x", "class")
        labels = page.execute_script(f"{axes}.flatMap(a => [...a.major_label_overrides.values()].map(t => t.text))")
        assert CLASS in labels
        choose(page, ".axis-x", texts(page, ".axis-y option")[1])
        point_at(page, 2)
        waits(page, lambda: count(page, ".panel thead th") == 3)  # tag and two scores

    def test_scores_are_drawn_where_they_are(self, page: Any):
        drawn = "return Bokeh.documents.flatMap(d => [d.get_model_by_name('points-2')]).filter(m => m).map(m => [...m.data.y])"
        top1 = {0.0, 1.0}
        assert any(set(y) and set(y) <= top1 for y in page.execute_script(drawn))
        choose(page, ".axis-x", "class")  # equal values are spread sideways
        assert any(set(y) and set(y) <= top1 for y in page.execute_script(drawn))

    def test_a_drag_zooms_and_a_button_shows_the_whole_again(self, page: Any):
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.by import By

        ends = "return Bokeh.documents.map(d => d.get_model_by_name('plot').x_range).map(r => [r.start, r.end])"
        before = page.execute_script(ends)
        box = page.find_element(By.CSS_SELECTOR, ".explorer .plot")
        page.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", box)
        ActionChains(page).move_to_element(box).click_and_hold().move_by_offset(120, 80).release().perform()
        waits(page, lambda: page.execute_script(ends) != before)
        page.execute_script("document.querySelector('.explorer .whole').click()")
        assert page.execute_script(ends) == before

    def test_an_item_is_found_by_its_name(self, page: Any):
        search = "const f = document.querySelector('.search'); f.value = 'SCRIPT'; f.dispatchEvent(new Event('input'))"
        page.execute_script(search)
        assert texts(page, ".found button") == [f"test/{CLASS}/{ITEM}.png"]
        page.execute_script("document.querySelector('.found button').click()")
        assert ITEM in texts(page, ".pin h4")[0]


class TestFlips:
    def test_they_follow_the_two_tags_that_are_chosen(self, page: Any):
        assert page.execute_script("return document.querySelector('.flip-b').selectedOptions[0].textContent") == HOSTILE
        better, worse, equal = self.counts(page)
        assert worse > 0
        page.execute_script("document.querySelector('.swap').click()")
        assert self.counts(page) == [worse, better, equal]
        choose(page, ".flip-a", "plain")
        choose(page, ".flip-b", "plain")
        assert self.counts(page) == [0, 0, better + worse + equal]

    def counts(self, page: Any) -> list[int]:
        return list(map(int, re.findall(r" on ([0-9]+)", texts(page, ".flip-count")[0])))

    def test_one_tag_has_none(self, page: Any):
        shown = "return [...document.querySelectorAll('.flipping')].map(e => e.checkVisibility())"
        assert page.execute_script(shown) == [True, False]

    def test_a_click_pins_the_item(self, page: Any):
        clicked = "const f = document.querySelector('.flip'); f.click(); return f.children[1].textContent"
        name = page.execute_script(clicked)
        assert texts(page, ".pin h4") == [name]


class TestScreens:
    @pytest.fixture(autouse=True)
    def _as_before(self, driver: Any) -> Iterator[None]:
        yield
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})

    def test_a_narrow_one_never_scrolls_sideways(self, page: Any):
        phone = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        page.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
        page.execute_script("document.querySelector('.flip').click()")
        waits(page, lambda: page.execute_script("return innerWidth") == 360)
        assert page.execute_script("return document.documentElement.scrollWidth") == 360
        assert page.execute_script("return document.querySelector('.board').offsetWidth") > 360  # in a box of its own

    def test_plots_follow_the_colours_of_the_page(self, page: Any):
        fill = "return Bokeh.documents.map(d => d.get_model_by_name('plot').background_fill_color)[0]"
        light = page.execute_script(fill)
        dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
        waits(page, lambda: page.execute_script(fill) != light)
        card = "return getComputedStyle(document.documentElement).getPropertyValue('--card').trim()"
        assert page.execute_script(fill) == page.execute_script(card)

    def test_print_shows_all_and_sticks_nothing(self, page: Any):
        page.execute_script("document.querySelectorAll('details').forEach(d => d.open = false)")
        page.execute_script("dispatchEvent(new Event('beforeprint'))")
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert page.execute_script("return [...document.querySelectorAll('details.benchmark')].every(d => d.open)")
        sticky = (
            "return [...document.querySelectorAll('*')].filter(e => getComputedStyle(e).position === 'sticky').length"
        )
        assert page.execute_script(sticky) == 0
        assert page.execute_script("return getComputedStyle(document.querySelector('nav')).display") == "none"
