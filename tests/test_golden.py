"""Files that format version 1 wrote are read for ever: `golden/v1` is never regenerated, and neither are these values.

golden/make.py says how they came about. Each must still be the same bytes, give the numbers below, and have the content
hash below; and what is written today must have the same content hash.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchkit.store.bank import Bank
from benchkit.store.content import file_hash
from benchkit.store.features import TagFeatures
from benchkit.store.table import Table
from benchkit.store.verify import verify_tree

GOLDEN = Path(__file__).parent / "golden"
V1 = GOLDEN / "v1"
PART = "features/part-00000000000000000000000000000001.h5"
ITEMS = ["test/cat/a.png", "test/dög/b.png", "test/日本/c.png"]

# file: first eight digits of the sha256 of its bytes, and of its content hash
FILES = {
    "features.h5": ("a50079e1", "ce20a952"),
    PART: ("74924660", "5cb7d840"),
    "manifest.h5": ("b9f69c05", "63d28a19"),
    "predictions.h5": ("909e602a", "a63c6ae1"),
    "results.h5": ("1418aa6e", "b1473c69"),
    "targets.h5": ("8646c31a", "900f4c5d"),
    "thumbs.h5": ("3ea87fd2", "fe632a50"),
}
FEATURES_CONTENT = "1625fd5a"  # of the values, wherever they lie


def test_the_files_are_those_of_version_1():
    assert sorted(p.relative_to(V1).as_posix() for p in V1.rglob("*.h5")) == sorted(FILES)
    assert sum((V1 / name).stat().st_size for name in FILES) < 150_000


@pytest.mark.parametrize("name", FILES)
def test_bytes_and_content_hash(name):
    assert hashlib.sha256((V1 / name).read_bytes()).hexdigest()[:8] == FILES[name][0]
    assert file_hash(V1 / name)[:8] == FILES[name][1]


def test_todays_files_have_the_same_content(tmp_path):
    subprocess.run([sys.executable, str(GOLDEN / "make.py"), str(tmp_path)], check=True)
    assert {name: file_hash(tmp_path / name)[:8] for name in FILES} == {name: f[1] for name, f in FILES.items()}


def test_doctor_finds_nothing():
    report = verify_tree(V1)
    assert report["damaged"] == 0
    assert report["files"]["features.h5"]["content"][:8] == FEATURES_CONTENT


def same(array: object, values: object, dtype: str) -> bool:
    given, expected = np.asarray(array), np.array(values, dtype)
    return given.dtype == expected.dtype and given.shape == expected.shape and given.tobytes() == expected.tobytes()


def test_predictions():
    with Table(V1 / "predictions.h5", "predictions") as table:
        assert table.names == ITEMS
        assert table.columns == ["mask", "scores"]
        assert same(table.read("scores"), [[0.5, -1.25], [3.0, 65504.0], [-0.0, 1e-8]], "<f4")
        first, second, third = table.read("mask")
        assert same(first, [[1, 2, 3]], "u1")
        assert same(second, np.zeros((0, 2)), "u1")
        assert same(third, [[255], [0]], "u1")
        assert table.whole == ["fit/accuracy", "floor/scores"]
        assert same(table.read_whole("floor/scores"), [0.25, 0.75], "<f4")
        assert same(table.read_whole("fit/accuracy"), 0.875, "<f8")
        assert table.meta == {"scores_are": "logits"}


def test_targets():
    with Table(V1 / "targets.h5", "targets") as table:
        assert table.names == ITEMS
        assert table.columns == ["category/class", "group", "label", "valid", "views"]
        assert same(table.read("label"), [0, 1, 2], "<i8")
        assert same(table.read("valid"), [True, False, True], "?")
        assert table.read("group") == ["cat", "dög", ""]
        assert table.read("category/class") == ["cat", "dög", "日本"]
        assert table.read("views") == ["l.png\nr.png", "b.png", "c.png"]
        assert table.meta == {"classes": ["cat", "dög", "日本"], "ignore": 255}


def test_results():
    with Table(V1 / "results.h5", "results") as table:
        assert table.names == ITEMS
        assert table.columns == ["stats/tp", "top1"]
        assert same(table.read("top1"), [1.0, 0.0, np.nan], "<f8")
        assert same(table.read("stats/tp"), [3, 0, 1099511627776], "<i8")
        assert table.meta == {"eval": {"k": [1, 5]}}


def test_thumbs():
    with Table(V1 / "thumbs.h5", "thumbs") as table:
        assert table.names == ITEMS
        assert [t.tolist() for t in table.read("thumb")] == [[255, 216, 255], [], [0, 1, 2, 3, 4]]
        assert table.dtype("thumb") == np.uint8
        assert table.meta == {}


def test_manifest():
    with Table(V1 / "manifest.h5", "manifest") as table:
        assert table.names == ITEMS
        assert table.read("sha256") == ["00" * 32, "7f" * 32, "ff" * 32]
        assert same(table.read("height"), [48, 1, 4000], "<i8")
        assert same(table.read("width"), [64, 1, 6000], "<i8")
        assert table.read("problem") == ["", "it is truncated", ""]
        assert same(table.read("bytes"), [1234, 0, 5000000000], "<i8")
        assert same(table.read("mtime_ns"), [1700000000123456789, 0, -1], "<i8")


def test_a_bank(tmp_path):
    (tmp_path / Path(PART).name).write_bytes((V1 / PART).read_bytes())
    with Bank(tmp_path, {"backbone": "golden", "batch_size": 4, "precision": "fp32"}) as bank:
        images = ["ff" * 32, "00" * 32]
        assert same(bank.read("features/cls@final", images), [[-3.5, 4.25], [1.0, 2.0]], "<f4")
        assert same(bank.read("features/patch@11", images), [[[8, 9], [10, 11]], [[0, 1], [2, 3]]], "<f2")
        assert same(bank.read("size", images), [[4000, 6000], [48, 64]], "<i4")
        assert [t.tolist() for t in bank.read("thumb", images)] == [[1], [0, 1]]
        assert bank.reasons == {"7f" * 32: "the model gave NaN or infinity"}
        assert bank.platforms == {Path(PART).name: {"cpu": "avx2"}}


def test_features():
    with TagFeatures(V1) as features:
        assert features.names == ["a.png", "b.png"]
        assert features.meta["keys"] == ["cls@final", "patch@11"]
        assert features.table.read("image") == ["ff" * 32, "00" * 32]
        assert same(features.read("cls@final"), [[-3.5, 4.25], [1.0, 2.0]], "<f4")
        assert same(features.read("patch@11"), [[[8, 9], [10, 11]], [[0, 1], [2, 3]]], "<f2")
