"""Threads are pinned before anything loads BLAS; real data are found, or their tests skipped, in one place."""

import os
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "2")

os.environ.setdefault(
    "BENCHKIT_TRUST", "1"
)  # tests write confs outside the working directory; test_hostile.py takes it away

import pytest  # noqa: E402  after the threads are pinned

SHARED = Path(os.environ.get("BENCHKIT_SHARED", Path(__file__).parents[2] / "shared")).resolve()


@pytest.fixture
def shared() -> Path:
    """The folder of real images and weights."""
    return SHARED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("BENCHKIT_HUB"):
        offline = pytest.mark.skip(reason="needs a public hub; set BENCHKIT_HUB=1 where it can be reached")
        for item in items:
            if item.get_closest_marker("hub"):
                item.add_marker(offline)
    if not (SHARED / "data").is_dir():
        absent = pytest.mark.skip(reason=f"no real data at {SHARED}; set BENCHKIT_SHARED")
        for item in items:
            if item.get_closest_marker("data"):
                item.add_marker(absent)
