"""A headless Chromium for tests; they skip, saying so, where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, CHROMEDRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-quic"),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--force-device-scale-factor=1",
    ),
)


def need_chromium() -> None:
    """Skips where there is none."""
    if not CHROMIUM or not CHROMEDRIVER:
        pytest.skip("needs Debian's chromium and chromium-driver: apt-get install chromium chromium-driver")
    pytest.importorskip("selenium", reason="needs selenium: pip install selenium")


@contextmanager
def chromium(profile: Path, size: tuple[int, int] = (1280, 900), flags: Sequence[str] = ()) -> Iterator[Any]:
    """A selenium driver with a window of `size` CSS pixels; nothing is looked up or downloaded. `flags`: further ones."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, *flags, f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=CHROMEDRIVER))
    try:
        yield driver
    finally:
        driver.quit()
