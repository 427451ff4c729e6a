"""features.h5 beside its parts, and what a content hash depends on."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from benchkit.errors import RunError
from benchkit.store.bank import Bank
from benchkit.store.columns import Ragged, Rows
from benchkit.store.content import features_hash, file_hash
from benchkit.store.features import TagFeatures, write_features
from benchkit.store.table import write_table
from benchkit.store.verify import folder_content, verify_tree

IDENTITY = {"backbone": "net", "batch_size": 4}
HERE = {"cpu": "avx2"}
BYTES = np.dtype("u1")
VIEWS = [f"v{i}.png" for i in range(12)]
IMAGES = [f"{i:064x}" for i in range(12)]
RNG = np.random.default_rng(4)
CLS = RNG.normal(size=(12, 5)).astype("f4")
MAPS = RNG.normal(size=(12, 2, 3)).astype("f2")


def banked(folder: Path, groups: list[list[int]], cls: np.ndarray = CLS, ragged: bool = False) -> Bank:
    """A bank of the twelve images in parts that hold these rows."""
    bank = Bank(folder, IDENTITY)
    for rows in groups:
        maps = Ragged(MAPS.dtype, 2, [MAPS[i] for i in rows]) if ragged else MAPS[rows]
        columns = {"features/cls@final": cls[rows], "features/patch@1": maps, "reason": [""] * len(rows)}
        bank.add([IMAGES[i] for i in rows], columns, HERE)
    bank.scan()
    return bank


GROUPS = [
    [list(range(12))],
    [list(range(6)), list(range(6, 12))],
    [list(range(0, 12, 2))[::-1], list(range(1, 12, 2))],
    [[i] for i in (7, 3, 11, 0, 1, 2, 10, 9, 8, 4, 5, 6)],
]


def tag(folder: Path, bank: Bank, limit: int = 1 << 30) -> Path:
    write_features(folder, bank, VIEWS, IMAGES, ["cls@final", "patch@1"], limit)
    shutil.rmtree(bank.folder)  # a tag lives without its bank
    return folder


def values_hash(folder: Path) -> str:
    with TagFeatures(folder) as features:
        return features_hash(features)


@pytest.mark.parametrize("limit", [0, 1 << 30])
@pytest.mark.parametrize("groups", GROUPS)
def test_features_of_a_tag_alone(tmp_path, groups, limit):
    folder = tag(tmp_path / "tag", banked(tmp_path / "bank", groups), limit)
    with TagFeatures(folder) as features:
        assert np.array_equal(features.read("cls@final"), CLS)
        assert np.array_equal(features.read("patch@1"), MAPS)
        assert "cls@final" in features
        assert "mean@final" not in features
        assert "index/cls@final" in features.table or limit
    with TagFeatures(folder, [VIEWS[i] for i in (9, 2, 5)]) as features:
        assert np.array_equal(features.read("cls@final"), CLS[[9, 2, 5]])
        assert np.array_equal(features.read("patch@1"), MAPS[[9, 2, 5]])
        assert np.array_equal(features.item("patch@1", 1), MAPS[2])
        assert np.array_equal(features.item("cls@final", 0), CLS[9])
    with pytest.raises(RunError, match=r"features\.h5 has no view 'v99'"):
        TagFeatures(folder, ["v99"])


def test_the_hash_is_the_same_for_every_division_into_parts_inline_or_by_index(tmp_path):
    found = set()
    for number, groups in enumerate(GROUPS):
        for limit in (0, 1 << 30):
            for ragged in (False, True):
                home = tmp_path / f"{number}-{limit}-{ragged}"
                folder = tag(home / "tag", banked(home / "bank", groups, ragged=ragged), limit)
                found.add(values_hash(folder))
                assert verify_tree(folder)["damaged"] == 0
                assert verify_tree(folder)["content"] == folder_content(folder)
    assert len(found) == 1


def test_the_features_hash_sees_a_value_a_name_and_an_image(tmp_path):
    def made(name: str, views: list[str] = VIEWS, images: list[str] = IMAGES, cls: np.ndarray = CLS) -> str:
        bank = banked(tmp_path / name / "bank", GROUPS[2], cls)
        write_features(tmp_path / name, bank, views, images, ["cls@final"], 0)
        return values_hash(tmp_path / name)

    other = CLS.copy()
    other[3, 2] = np.nextafter(other[3, 2], 9)
    hashes = [
        made("same"),
        made("value", cls=other),
        made("dtype", cls=CLS.astype("f8")),
        made("shape", cls=CLS[:, :, None]),
        made("name", views=[*VIEWS[:-1], "w.png"]),
        made("image", images=[IMAGES[1], IMAGES[0], *IMAGES[2:]]),
    ]
    assert len(set(hashes)) == len(hashes)
    assert made("again") == hashes[0]


def test_another_part_under_a_parts_name_is_refused(tmp_path):
    folder = tag(tmp_path / "tag", banked(tmp_path / "bank", GROUPS[1]), 0)
    first, second = sorted((folder / "features").iterdir())
    original = first.read_bytes()
    first.unlink()
    shutil.copy(second, first)
    with TagFeatures(folder) as features, pytest.raises(RunError, match=f"{first.name} does not hold view"):
        features.read("patch@1")
    with Bank(tmp_path / "foreign", {"backbone": "other"}) as other:
        part = other.add(IMAGES, {"features/patch@1": MAPS, "reason": [""] * 12}, HERE)
    part.replace(first)
    with TagFeatures(folder) as features, pytest.raises(RunError, match=f"{first.name} belongs to another model"):
        features.read("patch@1")
    first.unlink()
    with TagFeatures(folder) as features, pytest.raises(RunError, match=f"{first.name} is missing"):
        features.read("patch@1")
    first.write_bytes(original)
    with TagFeatures(folder) as features:
        assert np.array_equal(features.read("patch@1"), MAPS)


def hashed(tmp_path: Path, name: str = "t.h5", **changes: object) -> str:
    order = list(changes.pop("order", range(3)))  # type: ignore[call-overload]
    names = changes.pop("names", ["a", "b", "c"])
    scores = np.arange(6, dtype="f4").reshape(3, 2)
    ragged = [np.ones((2, 1), "u1"), np.ones((0, 3), "u1"), np.ones((1, 4), "u1")]
    given = {"scores": scores, "map": ragged, "group": ["x", "yy", "z"], "meta": {"k": 1}, "whole": {"w": np.ones(2)}}
    given |= changes
    columns = {
        "scores": np.asarray(given["scores"])[order],
        "map": Ragged(BYTES, 2, [given["map"][i] for i in order]),  # type: ignore[index]
        "group": [given["group"][i] for i in order],  # type: ignore[index]
    }
    write_table(tmp_path / name, "predictions", [names[i] for i in order], columns, given["whole"], given["meta"])  # type: ignore[index,arg-type]
    return file_hash(tmp_path / name)


def test_the_content_hash_of_a_table(tmp_path):
    """Outside: row order, block size, the file's name, the length of the longest text. Inside: everything else."""
    base = hashed(tmp_path)
    assert hashed(tmp_path, "u.h5", order=[2, 0, 1]) == base
    blocks = Rows(np.dtype("f4"), (2,), (np.arange(6, dtype="f4").reshape(3, 2)[i : i + 1] for i in range(3)))
    ragged = [np.ones((2, 1), "u1"), np.ones((0, 3), "u1"), np.ones((1, 4), "u1")]
    columns = {"scores": blocks, "map": Ragged(BYTES, 2, ragged), "group": ["x", "yy", "z"]}
    write_table(tmp_path / "b.h5", "predictions", ["a", "b", "c"], columns, {"w": np.ones(2)}, {"k": 1})
    assert file_hash(tmp_path / "b.h5") == base
    scores = np.arange(6, dtype="f4").reshape(3, 2)
    value = scores.copy()
    value[1, 1] = np.nextafter(value[1, 1], 9)
    changes = [
        {"scores": value},
        {"scores": scores.astype("f8")},
        {"scores": scores.astype("i4")},
        {"scores": scores[:, :, None]},
        {"names": ["a", "b", "d"]},
        {"group": ["x", "yy", "w"]},
        {"group": ["x", "y", "yz"]},
        {"map": [ragged[0].reshape(1, 2), *ragged[1:]]},
        {"map": [ragged[0], np.ones((0, 4), "u1"), ragged[2]]},
        {"map": [ragged[0] * 2, *ragged[1:]]},
        {"meta": {"k": 2}},
        {"whole": {"w": np.zeros(2)}},
        {"whole": {"w": np.ones((2, 1))}},
        {"whole": {"v": np.ones(2)}},
    ]
    hashes = [hashed(tmp_path, "c.h5", **change) for change in changes]
    assert len({base, *hashes}) == len(changes) + 1
