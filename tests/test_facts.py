"""What is known of many files, by name and as columns; distinct pictures and their batches as one by one."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from benchkit.datasets.image_folder import ImageFolder, Settings
from benchkit.export.batches import Picture, Pictures, batches, lacking_by_columns
from benchkit.export.facts import Facts, ManyFacts
from benchkit.export.manifest import NO_STAMP, stamps_below
from benchkit.preprocess import Preprocess
from benchkit.provenance.identity import dataset_id


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


FACTS = {
    "b": Facts(sha("b"), 3, 4, "", 10, 11, 12),
    "a": Facts(sha("a"), 5, 6, "it is empty", 0, 1, 2),
    "c": Facts(sha("c"), 7, 8, "", 20, 21, 22),
}


def test_facts_come_back_as_they_were_given():
    many = ManyFacts.of(FACTS)
    assert dict(many) == FACTS
    assert many.hashes(["c", "a"]) == [sha("c"), sha("a")]
    some = many.taken(["c", "a"])
    assert dict(some) == {name: FACTS[name] for name in ("c", "a")}
    assert list(some) == ["c", "a"]
    with pytest.raises(KeyError):
        many.taken(["d"])
    assert len(ManyFacts.of({}).taken([])) == 0


def test_stamps_are_those_of_the_files_and_none_of_what_is_no_file(tmp_path: Path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "1.jpg").write_bytes(b"123")
    (tmp_path / "x" / "link.jpg").symlink_to("1.jpg")
    (tmp_path / "x" / "lost.jpg").symlink_to("2.jpg")
    found = stamps_below(tmp_path, ["x/1.jpg", "x", "x/link.jpg", "x/lost.jpg", "y/1.jpg"])
    status = (tmp_path / "x" / "1.jpg").stat()
    file = [3, status.st_mtime_ns, status.st_ctime_ns]
    assert found.tolist() == [file, [*NO_STAMP], file, [*NO_STAMP], [*NO_STAMP]]


def test_where_a_data_set_says_otherwise_its_own_paths_count(tmp_path: Path):
    """A subclass whose files have other names than its views: the stamps must be theirs."""
    from benchkit.export.manifest import read_manifest
    from benchkit.store.outputs import Outputs

    class Renamed(ImageFolder):
        def path(self, view: str) -> Path:
            return self.root / f"{view}.moved"

    (tmp_path / "photos" / "x").mkdir(parents=True)
    for name, data in {"1.jpg": b"the view's name", "1.jpg.moved": b"the view's file"}.items():
        (tmp_path / "photos" / "x" / name).write_bytes(data)
    dataset = Renamed(Settings(root=str(tmp_path / "photos")))
    assert read_manifest(dataset, ["x/1.jpg"], Outputs(tmp_path))["x/1.jpg"].sha256 == sha("the view's file")


def test_pictures_as_columns_are_the_same_pictures():
    datasets = [object(), object()]
    listed = [Picture(f"{n}", sha(f"{n}"), 10 + n % 3, 20, datasets[n % 2]) for n in range(7)]  # type: ignore[arg-type]
    columns = Pictures.of(listed)
    assert Pictures.of(columns) is columns
    assert list(columns) == listed
    assert list(columns[2:5]) == listed[2:5]
    preprocess = Preprocess(32, "native", 32, "bilinear", (0.0,) * 3, (1.0,) * 3)
    found = list(batches(columns, preprocess, 2))
    assert [[p.view for p in batch] for batch in found] == [["0", "3"], ["6"], ["1", "4"], ["2", "5"]]
    assert list(batches(columns[:0], preprocess, 2)) == []


def test_pictures_are_gathered_by_what_they_lack():
    columns = Pictures.of([Picture(f"{n}", sha(f"{n}"), 1, 1, None) for n in range(4)])  # type: ignore[arg-type]
    lacks = np.array([[True, True], [False, False], [True, False], [True, True]])
    found = {missing: [p.view for p in group] for missing, group in lacking_by_columns(lacks, ["x", "y"], columns)}
    assert found == {("x",): ["2"], ("x", "y"): ["0", "3"]}
    assert list(lacking_by_columns(lacks[:0], ["x", "y"], columns[:0])) == []


def test_a_data_sets_identity_is_the_hash_of_its_sorted_lines():
    lines = [(f"{n:05d}", "", "test", sha(str(n))) for n in range(20_000)]
    text = "".join("\0".join(line) + "\n" for line in lines)
    assert dataset_id(reversed(lines)) == dataset_id(lines) == sha(text)
