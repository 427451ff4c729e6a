"""One flipped bit in any byte of any kind of file: an error that names the file or the item, never another number."""

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchkit.errors import BenchkitError
from benchkit.store.bank import Bank
from benchkit.store.columns import Ragged
from benchkit.store.features import TagFeatures, write_features
from benchkit.store.files import write_json
from benchkit.store.table import Table, write_table
from benchkit.store.verify import verify_tree

NAMES = ["a/ä.png", "b.png", "c.png"]
BYTES = np.dtype("u1")


def read_table(path: Path, kind: str) -> str:
    with Table(path, kind) as table:
        columns = {column: table.read(column) for column in table.columns}
        whole = {name: table.read_whole(name) for name in table.whole}
        return repr((table.names, columns, whole, table.meta))


def read_features(folder: Path) -> str:
    with TagFeatures(folder) as features:
        images = features.table.read("image")
        return repr((features.names, images, features.meta, [features.read(key) for key in features.meta["keys"]]))


def read_bank(folder: Path) -> str:
    with Bank(folder, {"model": "m"}) as bank:
        columns = ("features/cls@final", "thumb")
        return repr([bank.read(column, ["i0", "i1", "i2"]) for column in columns] + [bank.reasons])


def predictions(folder: Path) -> tuple[Path, Callable[[], str]]:
    maps = [np.ones((2, 3), "u1"), np.ones((0, 3), "u1"), np.ones((4, 1), "u1")]
    columns: dict[str, Any] = {"scores": np.arange(6, dtype="f4").reshape(3, 2), "map": Ragged(BYTES, 2, maps)}
    path = folder / "predictions.h5"
    write_table(path, "predictions", NAMES, columns, {"floor/scores": np.arange(2.0)}, {"scores_are": "logits"})
    return path, lambda: read_table(path, "predictions")


def targets(folder: Path) -> tuple[Path, Callable[[], str]]:
    path = folder / "targets.h5"
    columns = {"label": np.arange(3), "group": ["x", "ü", "z"], "flag": np.array([True, False, True])}
    write_table(path, "targets", NAMES, columns, meta={"classes": ["p", "q"]})
    return path, lambda: read_table(path, "targets")


def results(folder: Path) -> tuple[Path, Callable[[], str]]:
    path = folder / "results.h5"
    write_table(path, "results", NAMES, {"top1": np.array([1.0, np.nan, 0.0]), "stats/tp": np.arange(3)})
    return path, lambda: read_table(path, "results")


def bank_part(folder: Path) -> tuple[Path, Callable[[], str]]:
    with Bank(folder, {"model": "m"}) as bank:
        rows = {"features/cls@final": np.arange(6, dtype="f4").reshape(3, 2), "reason": ["", "", "not finite"]}
        path = bank.add(
            ["i0", "i1", "i2"], {**rows, "thumb": Ragged(BYTES, 1, [np.ones(n, "u1") for n in (2, 0, 3)])}, {}
        )
    return path, lambda: read_bank(folder)


def _features(folder: Path, limit: int) -> Path:
    bank_part(folder / "bank")
    with Bank(folder / "bank", {"model": "m"}) as bank:
        write_features(folder, bank, NAMES[:2], ["i0", "i1"], ["cls@final"], limit)
    return folder / "features.h5"


def features(folder: Path) -> tuple[Path, Callable[[], str]]:
    return _features(folder, 1 << 20), lambda: read_features(folder)


def indexed_features(folder: Path) -> tuple[Path, Callable[[], str]]:
    return _features(folder, 0), lambda: read_features(folder)


def indexed_part(folder: Path) -> tuple[Path, Callable[[], str]]:
    _features(folder, 0)
    return next((folder / "features").glob("part-*.h5")), lambda: read_features(folder)


KINDS = [predictions, targets, results, bank_part, features, indexed_features, indexed_part]


def flips(path: Path, read: Callable[[], str], bits: list[int], step: int = 1) -> Counter:
    """Read the file with one bit flipped at a time; what came of it, and every silent change or crash as an entry."""
    data, want, found = path.read_bytes(), read(), Counter()
    path.chmod(0o644)
    handle = os.open(path, os.O_WRONLY)
    for position in range(0, len(data), step):
        for bit in bits:
            os.pwrite(handle, bytes([data[position] ^ (1 << (bit + position) % 8)]), position)
            found[_outcome(path, read, want, position)] += 1
        os.pwrite(handle, data[position : position + 1], position)
    os.close(handle)
    assert read() == want
    return found


def _outcome(path: Path, read: Callable[[], str], want: str, position: int) -> str:
    try:
        return "same" if read() == want else f"silent at {position}"
    except BenchkitError as error:
        text = str(error)
        return ("item" if " item " in text else "file") if path.name in text else f"unnamed at {position}: {text}"
    except Exception as error:
        return f"{type(error).__name__} at {position}: {error}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.fault("file with a flipped bit")
def test_every_byte(tmp_path, kind, injected):
    path, read = kind(tmp_path)
    found = flips(path, read, [0], 9 if kind is indexed_part else 1)
    injected(sum(found.values()))
    assert set(found) <= {"item", "file", "same"}, found
    assert found["item"] >= (2 if kind is indexed_part else 20)
    assert found["same"] == 0 or kind is indexed_part  # which has columns that nobody reads here


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.fault("file with a flipped bit")
def test_every_bit(tmp_path, kind, injected):
    path, read = kind(tmp_path)
    found = flips(path, read, list(range(1, 8)), 9 if kind is indexed_part else 1)
    injected(sum(found.values()))
    assert set(found) <= {"item", "file", "same"}, found


@pytest.mark.parametrize(
    ("column", "needle", "items"),
    [
        ("scores", np.arange(6, dtype="f4").tobytes(), {NAMES[0]: range(8), NAMES[1]: range(8, 16), NAMES[2]: range(16, 24)}),
        ("map", np.array([2, 3, 0, 3, 4, 1]).tobytes(), {NAMES[0]: range(16), NAMES[1]: range(16, 32), NAMES[2]: range(32, 48)}),
        ("map", np.array([0, 6, 6, 10]).tobytes(), {NAMES[0]: range(16), NAMES[1]: range(16, 24), NAMES[2]: range(24, 32)}),
    ],
)  # fmt: skip
def test_values_shapes_and_offsets_name_the_item(tmp_path, column, needle, items):
    path, read = predictions(tmp_path)
    data = path.read_bytes()
    assert data.count(needle) == 1
    path.chmod(0o644)
    for name, positions in items.items():
        for position in positions:
            flipped = bytearray(data)
            flipped[data.index(needle) + position] ^= 1 << position % 8
            path.write_bytes(flipped)
            with pytest.raises(BenchkitError, match=f"{column} of item '{name}' is damaged"):
                read()


def test_a_damaged_row_does_not_hide_the_others(tmp_path):
    path, _ = predictions(tmp_path)
    data = bytearray(path.read_bytes())
    data[data.index(np.arange(6, dtype="f4").tobytes()) + 9] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    with Table(path) as table:
        assert table.item("scores", 0).tolist() == [0, 1]
        assert table.item("scores", 2).tolist() == [4, 5]
        with pytest.raises(BenchkitError, match=r"b\.png"):
            table.item("scores", 1)


def tag(folder: Path) -> Path:
    """A whole tag's folder, small, as export and eval leave it."""
    import yaml

    from benchkit.provenance.record import describe_file, sealed
    from benchkit.store.content import file_hash

    for make in (predictions, targets, results):
        make(folder)
    _features(folder, 0)
    for stray in (folder / "bank").iterdir():
        stray.unlink()
    (folder / "bank").rmdir()
    write_table(folder / "thumbs.h5", "thumbs", NAMES, {"thumb": Ragged(BYTES, 1, [np.ones(5, "u1")] * 3)})
    write_json(folder / "summaries.json", {"top1": 0.5, "top5": None})
    (folder / "head.safetensors").write_bytes(bytes(range(64)))
    conf = {"data": {"size": 224}, "eval": {"k": [1, 5.0]}}
    (folder / "conf.yaml").write_text(yaml.safe_dump(conf))
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "conf.yaml"]
    facts = {
        p.relative_to(folder).as_posix(): describe_file(p, file_hash(p) if p.suffix == ".h5" else None) for p in files
    }
    write_json(folder / "record.json", sealed({"schema": 1, "conf": conf, "files": facts, "timings": {"eval": 1.5}}))
    return folder


@pytest.mark.fault("file with a flipped bit")
def test_doctor_finds_a_flipped_byte_in_every_file(tmp_path, injected):
    folder = tag(tmp_path / "tag")
    clean = verify_tree(folder)
    assert clean["damaged"] == 0, clean
    assert len(clean["files"]) == 10
    for name in clean["files"]:
        path = folder / name
        data = path.read_bytes()
        path.chmod(0o644)
        for position in range(3, len(data), max(1, len(data) // 40)):
            path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
            injected(1)
            report = verify_tree(folder)
            odd = [n for n, facts in report["files"].items() if facts["problem"]]
            if not odd:  # only white space in JSON and YAML may change nothing
                assert path.suffix in (".json", ".yaml")
                assert data[position : position + 1].isspace()
                assert report["content"] == clean["content"]
            else:
                assert name in odd or path.suffix in (".json", ".yaml")
                assert all(str(folder) in report["files"][n]["problem"] for n in odd)
        path.write_bytes(data)
    assert verify_tree(folder)["content"] == clean["content"]


def test_doctor_names_the_damaged_item(tmp_path):
    path, _ = predictions(tmp_path)
    data = bytearray(path.read_bytes())
    for values in (np.arange(6, dtype="f4"), np.array([2, 3, 0, 3, 4, 1])):  # of rows; the shapes of CSR items
        flipped = data.copy()
        flipped[data.index(values.tobytes())] ^= 1
        path.chmod(0o644)
        path.write_bytes(flipped)
        for given in (path, tmp_path):
            assert "of item 'a/ä.png' is damaged" in verify_tree(given)["files"]["predictions.h5"]["problem"]


def test_doctor_on_a_bank_and_on_one_file(tmp_path):
    from benchkit.provenance.identity import identity_hash

    folder = tmp_path / f"net-{identity_hash({'model': 'm'})[:8]}"
    part, _ = bank_part(folder)
    assert verify_tree(folder)["damaged"] == 0
    assert verify_tree(part)["damaged"] == 0
    identity = folder / "identity.json"
    identity.chmod(0o644)
    identity.write_text(json.dumps({"model": "n"}))
    assert "not the identity" in verify_tree(folder)["files"]["identity.json"]["problem"]


def test_doctor_misses_no_file(tmp_path):
    folder = tag(tmp_path / "tag")
    (folder / "head.safetensors").unlink()
    assert "head.safetensors, which is missing" in verify_tree(folder)["files"]["record.json"]["problem"]
