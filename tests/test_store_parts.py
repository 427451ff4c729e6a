"""Parts in random order, more of them than are kept open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_maps import Tag

from benchkit.errors import RunError
from benchkit.store import parts
from benchkit.store.columns import Ragged
from benchkit.store.features import TagFeatures
from benchkit.store.table import Table, write_table

COUNT = 12


def tag(folder: Path, *, vary: bool = False) -> Tag:
    generator = np.random.default_rng(0)
    sides = [3 + row % 2 if vary else 3 for row in range(COUNT)]
    maps = {
        key: [generator.normal(size=(2, side, 4)).astype(np.float16) for side in sides]
        for key in ("patch@1", "patch@2")
    }
    made = Tag(folder, maps, {"map": [np.zeros((8, 8))] * COUNT}, parts=2)
    made.maps = maps  # type: ignore[attr-defined]
    return made


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two parts are kept open; what is opened is listed."""
    opened: list[Path] = []

    class Listed(Table):
        def __init__(self, path: Path, kind: str | None = None) -> None:
            opened.append(path)
            super().__init__(path, kind)

    monkeypatch.setattr(parts, "OPEN", 2)
    monkeypatch.setattr(parts, "Table", Listed)
    return opened


@pytest.mark.parametrize("vary", [False, True])
def test_every_part_is_opened_once(few: list[Path], tmp_path: Path, vary: bool):
    made = tag(tmp_path, vary=vary)
    few.clear()
    with TagFeatures(made.folder / "tag") as features:
        for _ in range(3):
            for row in np.random.default_rng(1).permutation(COUNT):
                for key, maps in made.maps.items():
                    assert np.array_equal(features.item(key, row), maps[row])
        assert len(few) == COUNT // 2
        assert len(features._parts._open) == 2


def test_a_column_not_read_before_opens_the_part_again(few: list[Path], tmp_path: Path):
    made = tag(tmp_path)
    with TagFeatures(made.folder / "tag") as features:
        for key in made.maps:
            assert np.array_equal(features.read(key), np.stack(made.maps[key]))


def test_damage_and_loss_are_still_named(few: list[Path], tmp_path: Path):
    made = tag(tmp_path)
    with TagFeatures(made.folder / "tag") as features:
        features.read("patch@1")
        path = features._parts._light[features.meta["parts"][0]].path
        rows = [row for row in range(COUNT) if features._column("index/patch@1")[row, 0] == 0]
        data = bytearray(path.read_bytes())
        place = data.find(made.maps["patch@1"][rows[0]].tobytes())
        data[place] ^= 1
        path.chmod(0o644)
        path.write_bytes(data)
        with pytest.raises(RunError, match="damaged"):
            features.item("patch@1", rows[0])
        path.unlink()
        with pytest.raises(RunError, match="cannot be read"):
            features.item("patch@1", rows[1])


def test_ragged_columns_of_known_shapes_are_made_once(tmp_path: Path):
    arrays, made = [np.full((1 + row, 2), row, np.uint8) for row in range(5)], []

    def each():
        made.append(1)
        return iter(arrays)

    for name, shapes, times in (("a", [a.shape for a in arrays], 1), ("b", None, 2)):
        made.clear()
        write_table(tmp_path / name, "results", list("vwxyz"), {"x": Ragged(np.dtype(np.uint8), 2, each, shapes)})
        assert len(made) == times
        with Table(tmp_path / name) as table:
            assert all(np.array_equal(table.item("x", row), array) for row, array in enumerate(arrays))
    wrong = [(9, 2), *(a.shape for a in arrays[1:])]
    with pytest.raises(ValueError, match="row 0 is of shape"):
        write_table(tmp_path / "c", "results", list("vwxyz"), {"x": Ragged(np.dtype(np.uint8), 2, each, wrong)})
