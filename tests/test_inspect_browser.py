"""The inspector in a real browser: mouse, keys, toolbar, frames that open by themselves, several pages, and hostile names."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import chromium, need_chromium
from PIL import Image
from tiny_experiments import another, exported, noisy
from tiny_server import Served, until

from benchkit.experiments.experiment import Experiment

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "<img src=x onerror=window.hurt=1>"
Window = Any


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> list[Experiment]:
    need_chromium()
    first = exported(tmp_path_factory.mktemp("outputs"))
    return [first, another(first, "second", noisy(0.5)), another(first, HOSTILE, noisy(1.0, seed=1))]


@pytest.fixture(scope="module")
def served(experiments: list[Experiment]) -> Iterator[Served]:
    from benchkit.inspect.viewer import Viewer

    with Served(lambda window, state: Viewer(experiments, window, state)) as found:
        yield found


@pytest.fixture(scope="module")
def driver(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def page(driver: Any, served: Served) -> Iterator[Page]:
    """A page with a scatter of scores against each other; afterwards nothing may have been complained of."""
    found = Page(driver, served)
    found.load("&x=nll&y=top1")
    yield found
    assert [each for each in driver.get_log("browser") if each["level"] == "SEVERE"] == []
    driver.get("about:blank")
    until(lambda: not served.windows)


class Page:
    """What the tests do to a page, and what they see of it and of its viewer."""

    def __init__(self, driver: Any, served: Served) -> None:
        self.driver, self.served = driver, served

    def load(self, query: str) -> None:
        """A page of its own, in the tab that the driver is at."""
        before = set(self.served.windows)
        self.driver.get(self.served.url + query)
        self.arrived(before)

    def arrived(self, before: set[str]) -> None:
        """Wait for the page and its scatter."""
        (name,) = until(lambda: set(self.served.windows) - before)
        self.window: Window = self.served.windows[name]
        until(lambda: self.window.viewer and self.script("return document.title").startswith("classification"))
        self.drawn(0)
        self.script("window.marker = 1")

    @property
    def viewer(self) -> Any:
        return self.window.viewer

    def script(self, source: str, *given: Any) -> Any:
        return self.driver.execute_script(source, *given)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> Any:
        (found,) = self.all(selector)
        return found

    def picture(self, key: int = 0) -> str:
        """The canvas of a figure, as text."""
        return self.script(f"return document.querySelector('[data-key=\"{key}\"] .mpl-canvas').toDataURL()")

    def drawn(self, key: int) -> str:
        """The picture of a figure when all is drawn that there is to draw."""
        seen = "const c = document.querySelector(`[data-key='${arguments[0]}'] .mpl-canvas`); return Boolean(c) && " \
            "c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v > 0 && v < 255)"  # fmt: skip
        until(lambda: self.script(seen, key))
        until(lambda: self.served.do(lambda: self._idle(self.window.managers[key])))
        return self.picture(key)

    def is_whole(self, key: int) -> bool:
        """Whether the page shows what the server drew, pixel by pixel: pictures on their way are differences."""
        data = base64.b64decode(self.drawn(key).split(",")[1])
        shown = np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))
        drawn = self.served.do(lambda: np.array(self.window.managers[key].canvas.buffer_rgba()))
        return shown.shape == drawn.shape and bool((shown == drawn).all())

    def _idle(self, manager: Any) -> bool:
        busy = manager._on_its_way or manager._due or manager._drawing_due or manager._sending_due or manager._newest
        return not busy

    def changed(self, before: str, key: int = 0) -> str:
        """The picture of a figure when it is another one."""
        until(lambda: self.picture(key) != before)
        return self.drawn(key)

    def place(self, row: int, item: int) -> tuple[int, int]:
        """Where a point of the scatter is in the window, in pixels."""

        def pixels() -> Any:
            scatter = self.viewer.scatter
            return [float(v) for v in scatter.axes.transData.transform(scatter.points[row, item])]

        x, y = self.served.do(pixels)
        left, top, _, height = self.box()
        return round(left + x), round(top + height - y)

    def box(self) -> list[float]:
        """Left, top, width and height of the scatter's canvas in the window, in pixels."""
        return self.script(
            "const r = document.querySelector('#scatter .canvas').getBoundingClientRect(); return [r.x, r.y, r.width, r.height]"
        )

    def mouse(self, *places: tuple[int, int], press: str = "") -> None:
        """Go to places one after the other; `press` clicks at the last, or drags from the first to the last."""
        from selenium.webdriver import ActionChains

        chain = ActionChains(self.driver, duration=0)
        pointer = chain.w3c_actions.pointer_action
        for place in places:
            pointer.move_to_location(*place)
            if press == "drag" and place is places[0]:
                pointer.pointer_down()
        if press == "click":
            pointer.click()
        if press == "drag":
            pointer.pointer_up()
        chain.perform()

    def keys(self, *keys: str, shift: bool = False) -> None:
        """Press keys, wherever the focus is."""
        from selenium.webdriver import ActionChains
        from selenium.webdriver.common.keys import Keys

        chain = ActionChains(self.driver, duration=0)
        for key in keys:
            chain = chain.key_down(Keys.SHIFT) if shift else chain
            chain = chain.send_keys(getattr(Keys, key, key))
            chain = chain.key_up(Keys.SHIFT) if shift else chain
        chain.perform()

    def choose(self, what: str, value: str) -> None:
        """An entry of a list of the toolbar."""
        from selenium.webdriver.support.select import Select

        Select(self.one(f"[data-choice={what}]")).select_by_value(value)

    def frames(self, count: int) -> list[str]:
        """The titles of the item frames, when there are `count`."""
        until(lambda: len(self.all("#frames .frame")) == count)
        until(lambda: all(each.text.startswith("test/") for each in self.all("#frames h2")))
        return [each.text for each in self.all("#frames h2")]

    def said(self, text: str) -> str:
        """What is said, when `text` is in it."""
        until(lambda: text in self.one("#said").text)
        return self.one("#said").text

    def address(self) -> str:
        return self.script("return decodeURIComponent(location.search)")

    def reloaded(self) -> bool:
        return self.script("return window.marker !== 1")


class TestMouse:
    def test_hovering_shows_the_name_and_leaves_no_trace(self, page: Page):
        before = page.drawn(0)
        page.mouse(page.place(0, 3))
        over = page.changed(before)
        text = page.served.do(lambda: page.viewer.hover.text.get_text())
        assert text.split("\n")[0] in page.viewer.joined.names
        page.mouse(page.place(1, 8), page.place(0, 11))
        page.changed(over)
        until(lambda: page.is_whole(0))
        page.mouse((5, 5))
        until(lambda: page.picture() == before)

    def test_a_click_opens_a_frame_beside_the_scatter_without_a_reload(self, page: Page):
        page.mouse(page.place(0, 5), press="click")
        (title,) = page.frames(1)
        assert title in page.viewer.joined.names
        until(lambda: page.is_whole(0) and page.is_whole(1))
        scatter, frame = (page.one(f"{each} .frame").rect for each in ("#scatter", "#frames"))
        assert frame["x"] >= scatter["x"] + scatter["width"]
        assert frame["x"] + frame["width"] <= 1280
        assert not page.reloaded()

    def test_a_rectangle_selects_items_whose_names_can_be_saved(self, page: Page, tmp_path: Path):
        from selenium.webdriver.common.by import By

        page.load("&x=item&y=nll")
        page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
        button = page.one("[data-mode=range]")
        button.click()
        until(lambda: button.get_attribute("aria-pressed") == "true")
        x, y, width, height = page.box()
        corners = [(round(x + width * f), round(y + height * f)) for f in (0.15, 0.4, 0.68)]
        page.mouse(*corners, press="drag")
        until(lambda: page.viewer.view.selected)
        chosen = page.viewer.view.selected
        save = page.driver.find_element(By.ID, "save")
        until(lambda: save.text.startswith(f"save {len(chosen)} name"))
        assert button.get_attribute("aria-pressed") == "false"
        save.click()
        file = tmp_path / "names.txt"
        until(lambda: file.exists() and file.read_text().split() == chosen)


class TestKeys:
    def test_arrows_go_on_in_the_frame_or_in_an_extra_one_and_delete_closes(self, page: Page):
        names = page.viewer.joined.names
        page.keys("ARROW_RIGHT")  # nothing was clicked yet
        assert page.frames(1) == [names[0]]
        before = page.drawn(1)
        page.keys("ARROW_RIGHT")
        until(lambda: page.frames(1) == [names[1]])
        page.changed(before, 1)
        page.keys("ARROW_RIGHT", shift=True)
        assert page.frames(2) == [names[1], names[2]]
        page.drawn(2)
        page.keys("DELETE")
        assert page.frames(1) == [names[1]]
        page.keys("ARROW_LEFT")
        until(lambda: page.frames(1) == [names[0]])
        assert not page.reloaded()

    def test_they_change_axes_kinds_and_texts(self, page: Page):
        before = page.drawn(0)
        page.keys("y")
        until(lambda: "y=top5" in page.address())
        page.changed(before)
        page.keys("y", shift=True)
        until(lambda: "y=top1" in page.address())
        page.keys("ARROW_RIGHT")
        page.frames(1)
        before = page.drawn(1)
        page.keys("t")
        until(lambda: page.one("[data-flag=text]").is_selected())
        before = page.changed(before, 1)
        page.keys("r", shift=True)
        until(lambda: "kind=" in page.address())
        page.changed(before, 1)

    def test_what_is_typed_into_the_search_is_no_shortcut(self, page: Page):
        before = page.address()
        page.keys("/")
        page.keys("d", "x", "t")
        assert page.one("#search").get_attribute("value") == "dxt"
        page.keys("ENTER")
        page.said("0 of 24 names hold 'dxt'")
        assert page.address().replace("&search=dxt", "") == before
        page.script("document.querySelector('#search').value = ''")
        page.keys("7", "ENTER")
        assert page.frames(1) == ["test/000007"]
        page.said("2 of 24 names hold '7'")
        assert page.script("return document.activeElement.id") == "search"  # the frame did not take the focus

    def test_they_are_explained(self, page: Page):
        page.one("#keys-button").click()
        assert "search for a part" in page.one("#keys").text


class TestToolbar:
    def test_lists_and_switches_change_the_scatter_and_the_address(self, page: Page):
        before = page.drawn(0)
        page.choose("x", "class")
        until(lambda: "x=class" in page.address())
        before = page.changed(before)
        page.one("[data-flag=diff_only]").click()
        until(lambda: "diff_only=1" in page.address())
        before = page.changed(before)
        page.choose("order", "difference")
        until(lambda: "order=difference" in page.address())
        page.one("[data-act=next]").click()
        page.frames(1)
        page.keys("d")  # a list that was used does not keep the keys
        until(lambda: "diff_only" not in page.address())
        page.one("input[value=second]").click()
        until(lambda: 'hidden=["second"]' in page.address())
        page.changed(before)

    def test_an_address_that_is_sent_or_loaded_again_shows_the_same(self, page: Page):
        page.choose("x", "class")
        page.choose("y", "nll")
        page.one("[data-flag=diff_only]").click()
        page.one("[data-act=previous]").click()
        (title,) = page.frames(1)
        until(lambda: "item=" in page.address() and "diff_only" in page.address())
        known, state = page.address(), page.viewer.state()
        before = set(page.served.windows)
        page.driver.refresh()
        page.arrived(before)
        assert page.frames(1) == [title]
        page.drawn(1)
        assert (page.viewer.state(), page.address()) == (state, known)
        assert page.one("[data-choice=y]").get_attribute("value") == "nll"
        assert page.one("[data-flag=diff_only]").is_selected()

    def test_a_frame_closes(self, page: Page):
        for count in (1, 2):
            page.one("[data-act=next_extra]").click()
            titles = page.frames(count)
        page.all("#frames .head .close")[0].click()
        assert page.frames(1) == titles[1:]
        until(lambda: list(page.window.managers) == [0, 2])
        assert not page.reloaded()

    @pytest.mark.parametrize("width", [1280, 700])
    def test_it_fits_into_the_window(self, page: Page, width: int):
        page.driver.set_window_size(width, 900)
        try:
            page.one("[data-act=next]").click()
            page.frames(1)
            page.drawn(1)
            wide, inner = page.script("return [document.scrollingElement.scrollWidth, window.innerWidth]")
            assert wide <= inner <= width
            for each in page.all("header select, header button, header input, .canvas"):
                if each.is_displayed():
                    assert 0 <= each.rect["x"] <= each.rect["x"] + each.rect["width"] <= inner
            scatter, frame = page.one("#scatter .frame").rect, page.one("#frames .frame").rect
            below = frame["y"] >= scatter["y"] + scatter["height"]
            assert below == (width == 700)
        finally:
            page.driver.set_window_size(1280, 900)


class TestWhatGoesWrong:
    def test_an_exception_in_draw_is_shown_as_text_and_ends_nothing(self, page: Page, monkeypatch: pytest.MonkeyPatch):
        family = type(page.viewer.joined.experiments[0].family)

        def fail(*args: Any, **kwargs: Any) -> None:
            raise RuntimeError("no <b>picture</b> today")

        with monkeypatch.context() as patched:
            patched.setattr(family, "draw", fail)
            page.keys("ARROW_RIGHT")
            assert "cannot be drawn" in page.said("no <b>picture</b> today")
            assert page.all("#said b") == []
        page.drawn(1)
        (title,) = page.frames(1)
        page.keys("ARROW_RIGHT")
        until(lambda: page.frames(1) != [title])
        page.one("#said .error .close").click()
        assert page.all("#said .error") == []

    def test_names_are_never_elements(self, page: Page):
        (box,) = (each for each in page.all("#experiments label") if HOSTILE in each.text)
        box.click()
        until(lambda: f"hidden={json.dumps([HOSTILE])}" in page.address().replace("+", " "))
        page.script("arguments[0].click()", box)
        page.keys("ARROW_RIGHT")
        page.frames(1)
        page.drawn(1)
        assert page.all("img:not(.mpl-widget img)") == []
        assert page.script("return window.hurt") is None

    def test_a_wrong_token_shows_nothing(self, page: Page):
        page.driver.get(page.served.address + "/?token=wrong")
        until(lambda: not page.served.windows)
        assert "needs the token" in page.one("body").text
        assert page.all("canvas") == []
        page.driver.get_log("browser")  # the browser complains of the 403

    def test_a_server_that_ends_is_noticed(self, driver: Any, experiments: list[Experiment]):
        from benchkit.inspect.viewer import Viewer

        with Served(lambda window, state: Viewer(experiments, window, state)) as served:
            page = Page(driver, served)
            page.load("")
        page.said("does not answer any more")
        driver.get("about:blank")
        driver.get_log("browser")  # the browser complains of the connection


class TestSeveralPages:
    def test_they_do_not_disturb_each_other(self, page: Page):
        first = page.driver.current_window_handle
        page.keys("ARROW_RIGHT")
        (title,) = page.frames(1)
        page.driver.switch_to.new_window("tab")
        other = Page(page.driver, page.served)
        other.load("&x=item&y=nll")
        try:
            assert other.all("#frames .frame") == []
            other.keys("ARROW_LEFT")
            assert other.frames(1) != [title]
            before = other.address()
            page.driver.switch_to.window(first)
            assert page.frames(1) == [title]
            page.keys("x")
            until(lambda: "x=nll" not in page.address())
            page.drawn(0)
            assert other.viewer.view.x == "item"
        finally:
            page.driver.switch_to.window(next(each for each in page.driver.window_handles if each != first))
            assert other.address() == before
            page.driver.close()
            page.driver.switch_to.window(first)
        until(lambda: list(page.served.windows) == [page.window.name])
        page.keys("ARROW_RIGHT")
        until(lambda: page.frames(1) != [title])
