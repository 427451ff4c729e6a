"""The bank by name, duplicates, foreign and damaged parts."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from benchkit.errors import RunError
from benchkit.store import parts
from benchkit.store.bank import TOLERANCE, Bank
from benchkit.store.columns import Ragged

IDENTITY = {"backbone": "net", "batch_size": 4}
HERE, THERE = {"cpu": "avx2"}, {"cpu": "avx512"}
BYTES = np.dtype("u1")


def row(name: str, width: int = 4) -> np.ndarray:
    """A feature that says which image it is of."""
    return np.frombuffer(name.encode().ljust(4 * width)[: 4 * width], np.uint8)[:width].astype(np.float32) + width


def add(bank: Bank, names: list[str], platform: dict | None = None, scale: float = 1.0, **more: object) -> Path:
    columns = {"features/cls@final": np.stack([row(n) for n in names]) * np.float32(scale), "reason": [""] * len(names)}
    return bank.add(names, {**columns, **more}, platform or HERE)


def rename(part: Path, name: str) -> Path:
    """Parts are named by chance; tests choose which is the smaller."""
    return part.rename(part.with_name(f"part-{name}.h5"))


@pytest.fixture
def bank(tmp_path):
    with Bank(tmp_path / "net-01234567", IDENTITY) as made:
        yield made


def reopened(bank: Bank) -> Bank:
    return Bank(bank.folder, bank.identity)


def test_rows_come_by_name_in_the_order_asked_for(bank):
    add(bank, ["b", "a"], size=np.array([[1, 2], [3, 4]]))
    add(bank, ["c"], size=np.array([[5, 6]]))
    bank.scan()
    assert bank.read("size", ["c", "a", "b", "a"]).tolist() == [[5, 6], [3, 4], [1, 2], [3, 4]]
    assert np.array_equal(bank.read("features/cls@final", ["c", "b"]), [row("c"), row("b")])
    assert bank.read("size", []) == []
    assert len(list(bank.folder.glob("part-*.h5"))) == 2
    with pytest.raises(RunError, match=r"net-01234567 has no size of image d"):
        bank.read("size", ["a", "d"])
    with pytest.raises(RunError, match=r"no features/mean@final of image a"):
        bank.read("features/mean@final", ["a"])


def test_missing_says_which_columns_and_a_new_column_gets_its_own_part(bank):
    columns = ["features/cls@final", "features/mean@final"]
    assert bank.missing(["a"], columns) == {"a": tuple(columns)}
    add(bank, ["a", "b"])
    bank.scan()
    assert bank.missing(["c", "b", "a"], columns) == {"c": tuple(columns), "b": (columns[1],), "a": (columns[1],)}
    assert list(bank.missing(["c", "b", "a"], columns)) == ["c", "b", "a"]
    bank.add(["b", "a"], {columns[1]: np.array([[2.0], [1.0]]), "reason": ["", ""]}, HERE)
    bank.scan()
    assert bank.missing(["a", "b"], columns) == {}
    assert bank.read(columns[1], ["a", "b"]).tolist() == [[1], [2]]
    assert np.array_equal(bank.read(columns[0], ["a", "b"]), [row("a"), row("b")])
    assert bank.duplicates == 0


def test_a_skipped_row_is_known_and_not_missing(bank):
    add(bank, ["a", "b"], reason=["", "the model gave NaN"])
    for each in (reopened(bank), bank):
        each.scan()
        assert each.reasons == {"b": "the model gave NaN"}
        assert each.missing(["a", "b"], ["features/cls@final"]) == {}


def test_equal_duplicates_are_counted(bank):
    add(bank, ["a", "b"])
    add(bank, ["b", "c"])
    found = reopened(bank)
    assert found.duplicates == 1
    assert np.array_equal(found.read("features/cls@final", ["c", "b"]), [row("c"), row("b")])
    bank.scan()
    assert bank.duplicates == 1


def test_other_bits_from_one_platform_are_refused_with_both_parts(bank):
    first, second = add(bank, ["a", "b"]), add(bank, ["b"], scale=1 + 1e-6)
    with pytest.raises(RunError) as caught:
        reopened(bank)
    assert all(name in str(caught.value) for name in (first.name, second.name, "image b", "features/cls@final"))


@pytest.mark.parametrize("late", [False, True])
def test_another_platform_within_the_tolerance_the_smaller_name_wins(bank, late):
    """Also where the smaller name appears after the other was indexed."""
    rename(add(bank, ["b", "a"], HERE, size=np.array([[1, 1], [2, 2]])), "8")
    if late:
        bank.scan()
    rename(add(bank, ["x", "a"], THERE, 1 + TOLERANCE / 2, size=np.array([[3, 3], [4, 4]])), "3")
    bank.scan()
    assert bank.duplicates == 1
    assert bank.places("features/cls@final", ["a"]) == [("part-3.h5", 1)]
    assert bank.places("size", ["a"]) == [("part-3.h5", 1)]
    assert np.array_equal(bank.read("features/cls@final", ["a"])[0], row("a") * np.float32(1 + TOLERANCE / 2))
    assert {p: bank.platforms[p] for p in bank.platforms} == {"part-3.h5": THERE, "part-8.h5": HERE}


def test_another_platform_beyond_the_tolerance_is_refused(bank):
    first, second = add(bank, ["a"], HERE), add(bank, ["a"], THERE, 1 + 2 * TOLERANCE)
    with pytest.raises(RunError, match="only the machine differs") as caught:
        reopened(bank)
    assert first.name in str(caught.value)
    assert second.name in str(caught.value)


def test_one_platform_in_rows_and_in_csr_is_equal(bank):
    """A part whose images all have one shape holds rows; beside an image of another shape the same bits are CSR."""
    maps = {"a": np.arange(6, dtype="f2").reshape(2, 3), "b": np.ones((1, 3), "f2")}
    bank.add(["a"], {"features/patch@1": maps["a"][None], "reason": [""]}, HERE)
    both = Ragged(np.dtype("f2"), 2, [maps["b"], maps["a"]])
    bank.add(["b", "a"], {"features/patch@1": both, "reason": ["", ""]}, HERE)
    bank.scan()
    assert bank.duplicates == 1
    assert np.array_equal(bank.read("features/patch@1", ["a"])[0], maps["a"])
    bank.add(["a"], {"features/patch@1": maps["a"][None].astype("f4"), "reason": [""]}, HERE)
    with pytest.raises(RunError, match="hold different"):
        bank.scan()


def test_a_foreign_part_is_refused_by_name(bank, tmp_path):
    add(bank, ["a"])
    with Bank(tmp_path / "other", {"backbone": "other"}) as other:
        part = add(other, ["a"])
    shutil.copy(part, bank.folder / part.name)
    with pytest.raises(RunError, match="belongs to another model") as caught:
        bank.scan()
    assert part.name in str(caught.value)


def test_a_damaged_part_is_named(bank):
    part = add(bank, ["a", "b"])
    data = bytearray(part.read_bytes())
    data[data.index(row("b").tobytes()) + 1] ^= 4
    part.chmod(0o644)
    part.write_bytes(data)
    found = reopened(bank)
    assert np.array_equal(found.read("features/cls@final", ["a"])[0], row("a"))
    with pytest.raises(RunError, match=r"features/cls@final of item 'b' is damaged") as caught:
        found.read("features/cls@final", ["a", "b"])
    assert part.name in str(caught.value)
    data[60] ^= 4
    part.write_bytes(data)
    with pytest.raises(RunError, match=part.name):
        reopened(bank)


def test_a_part_deleted_while_it_is_open_still_reads_and_afterwards_is_named(bank):
    part = add(bank, ["a"])
    bank.scan()
    part.unlink()
    assert np.array_equal(bank.read("features/cls@final", ["a"])[0], row("a"))
    bank.close()
    with pytest.raises(RunError, match=part.name):
        bank.read("features/cls@final", ["a"])
    assert reopened(bank).missing(["a"], ["features/cls@final"]) == {"a": ("features/cls@final",)}


def test_ragged_columns(bank):
    thumbs = [np.arange(n, dtype=np.uint8) for n in (3, 0, 2)]
    add(bank, ["a", "b", "c"], thumb=Ragged(BYTES, 1, thumbs))
    bank.scan()
    assert [t.tolist() for t in bank.read("thumb", ["c", "b", "a"])] == [[0, 1], [], [0, 1, 2]]
    assert bank.read("thumb", ["a", "a"]).shape == (2, 3)


def test_the_dead_writers_rest_is_cleared_and_unfinished_parts_are_not_seen(bank):
    from benchkit.store.files import boot, host

    rest = bank.folder / f"part-0.h5.tmp-{host()}-{boot()}x-1-0123abcd"
    rest.touch()
    assert list(reopened(bank).folder.glob("part-*.h5")) == []
    assert not rest.exists()


def test_many_rows_from_more_parts_than_are_kept_open(bank, monkeypatch):
    monkeypatch.setattr(parts, "OPEN", 3)
    rng = np.random.default_rng(3)
    names = [f"{i:05d}" for i in range(5000)]
    owner = rng.integers(0, 40, size=5000)
    values = rng.normal(size=(5000, 6)).astype("f4")
    for number in range(40):
        rows = rng.permutation(np.flatnonzero(owner == number))
        bank.add([names[i] for i in rows], {"features/x": values[rows], "reason": [""] * len(rows)}, HERE)
    bank.scan()
    order = rng.permutation(5000)
    assert np.array_equal(bank.read("features/x", [names[i] for i in order]), values[order])
    assert len(list(bank.folder.glob("part-*.h5"))) == 40


def test_parts_that_disagree_are_refused_whenever_they_are_looked_for(bank):
    """What was refused once must not be taken the next time."""
    add(bank, ["a", "b"])
    bank.scan()
    add(bank, ["b"], scale=2)
    for _ in range(2):
        with pytest.raises(RunError, match="hold different"):
            bank.scan()
    assert bank.duplicates == 0
    assert np.array_equal(bank.read("features/cls@final", ["b"]), [row("b")])


def test_a_part_that_was_replaced_serves_no_other_images_row(bank):
    part = add(bank, ["a", "b"])
    bank.scan()
    other = add(bank, ["b", "a"])
    bank.close()
    other.replace(part)
    with pytest.raises(RunError, match=r"does not hold the image a in its row 0 any more") as caught:
        bank.read("features/cls@final", ["a"])
    assert part.name in str(caught.value)


def test_one_image_in_three_parts_and_two_kinds_of_them(bank):
    """Each later one is compared with the smallest so far, column by column."""
    size = np.ones((1, 2), np.int32)
    rename(add(bank, ["a"], size=size), "5")
    rename(add(bank, ["a"]), "7")
    bank.scan()
    assert bank.duplicates == 1
    rename(add(bank, ["a"]), "3")
    bank.scan()
    assert bank.duplicates == 2
    assert bank.places("features/cls@final", ["a"]) == [("part-3.h5", 0)]
    assert bank.places("size", ["a"]) == [("part-5.h5", 0)]
    assert reopened(bank).duplicates == 2
