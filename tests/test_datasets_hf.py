"""Hugging Face data sets from folders: what save_to_disk, parquet files and class folders hold, and what is refused."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_sets
import torch

import benchkit
from benchkit.datasets.hf import LAYOUT, HuggingFaceSet, Settings
from benchkit.datasets.image_folder import ImageFolder
from benchkit.datasets.image_folder import Settings as FolderSettings
from benchkit.errors import UsageError

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FEATURES = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["dog", "cat"])})
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Nothing of the library's lands in anybody's home, and no hub is asked."""
    folder = tmp_path_factory.getbasetemp() / "hf_cache"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(folder))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()


def rows(seeds: range, kind: str = "JPEG", path: str | None = None, **more: list[object]) -> datasets.Dataset:
    """Photos of dogs and cats in turn; ClassLabel has dog first."""
    columns: dict[str, list[object]] = {
        "image": [{"bytes": tiny_sets.encoded(s, kind), "path": path and path.format(s)} for s in seeds],
        "label": [s % 2 for s in seeds],
        **more,
    }
    known = {k: datasets.Value("string") for k in more}
    return datasets.Dataset.from_dict(columns, features=datasets.Features({**FEATURES, **known}))


def open_set(root: Path, **settings: object) -> HuggingFaceSet:
    return HuggingFaceSet(Settings(root=str(root), **settings))


def refusal(**settings: object) -> str:
    with pytest.raises(UsageError) as caught:
        HuggingFaceSet(Settings(**settings)).items(str(settings.get("split", "test")))
    message = str(caught.value)
    assert "\n" not in message
    return message


def saved(root: Path) -> Path:
    datasets.DatasetDict(train=rows(range(6)), test=rows(range(6, 10))).save_to_disk(root)
    return root


def raw_parquet(root: Path, images: list[dict[str, object]]) -> Path:
    """A parquet file as a stranger may write it: the rows hold what is given, the library checks nothing."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array(images, kind), "label": [i % 2 for i in range(len(images))]})
    root.mkdir(parents=True)
    pq.write_table(table.replace_schema_metadata(FEATURES.arrow_schema.metadata), root / "a.parquet")
    return root


def parquet(root: Path) -> Path:
    (root / "data").mkdir(parents=True)
    rows(range(6)).to_parquet(root / "data/train-00000-of-00001.parquet")
    rows(range(6, 10)).to_parquet(root / "data/test-00000-of-00001.parquet")
    return root


@pytest.mark.parametrize("write", [saved, parquet])
class TestBothForms:
    def test_items_classes_and_bytes(self, write, tmp_path):
        data = open_set(write(tmp_path / "set"), train_split="train")
        assert data.items("test") == [f"test/{i:06d}" for i in range(4)]
        assert data.items("train") == [f"train/{i:06d}" for i in range(6)]
        assert data.classes == ["dog", "cat"]  # the order of the labels, not of the names
        assert [data.label(item) for item in data.items("test")] == ["dog", "cat", "dog", "cat"]
        assert [int(data.target(item)["label"]) for item in data.items("test")] == [0, 1, 0, 1]
        assert data.meta() == {"classes": ["dog", "cat"]}
        assert data.read("test/000001") == tiny_sets.encoded(7)
        assert data.image("test/000001").shape == (24, 32, 3)
        assert data.path("test/000001") is None
        assert all(path.is_file() for path in data.archives("test/000001"))
        assert not data.generated

    def test_the_whole_way(self, write, tmp_path):
        made = export(write(tmp_path / "set"), "data.train_split=train")
        assert list(made.items["names"]) == [f"test/{i:06d}" for i in range(4)]
        assert (made.record["data"]["n_train"], made.record["data"]["generated"]) == (6, False)

    def test_an_image_is_the_same_in_a_folder(self, write, tmp_path):
        """Half of the way again: the same photos as files are in the bank already."""
        export(write(tmp_path / "set"), "data.train_split=train")
        for split, seeds in (("train", range(6)), ("test", range(6, 10))):
            for seed in seeds:
                name = f"{split}/{('dog', 'cat')[seed % 2]}/{seed}.jpg"
                tiny_sets.put(tmp_path / "folder", name, tiny_sets.encoded(seed))
        files = sorted((tmp_path / "outputs").glob("features/*/part-*.h5"))
        export(tmp_path / "folder", kind="image_folder", tag="folder")
        assert sorted((tmp_path / "outputs").glob("features/*/part-*.h5")) == files


class Pool(torch.nn.Module):
    """Mean colours of four cells."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(image, 2).flatten(1)


def export(root: Path, *arguments: str, kind: str = "hf", tag: str = "pool", **options: object):
    return benchkit.run(
        Pool(),
        "classification",
        data=root,
        tag=tag,
        preprocess={"size": 16, "mean": [0.5] * 3, "std": [0.5] * 3},
        arguments=[f"data.name={kind}", "model.batch_size=4", *arguments],
        outputs=root.parent / "outputs",
        say=lambda _: None,
        **options,
    )


def test_a_folder_of_class_folders(tmp_path):
    names = [f"{s}/{c}/{i}.png" for s in ("train", "test") for c in ("cat", "dog") for i in range(3)]
    tiny_sets.put_images(tmp_path, names)
    data = open_set(tmp_path, train_split="train")
    assert data.items("test") == sorted(n for n in names if n.startswith("test"))
    assert data.path("test/dog/1.png") == tmp_path / "test/dog/1.png"
    plain = ImageFolder(FolderSettings(root=str(tmp_path), train_split="train"))
    for name in names:
        assert data.label(name) == plain.label(name)
        assert np.array_equal(data.image(name), plain.image(name))


def test_paths_in_the_rows_are_names_where_they_tell_them_apart(tmp_path):
    paths = {"train": rows(range(4), path="n{}.jpg"), "test": rows(range(4, 8), path="same.jpg")}
    datasets.DatasetDict(paths).save_to_disk(tmp_path)
    data = open_set(tmp_path, train_split="train")
    assert data.items("train") == [f"train/n{i}.jpg" for i in range(4)]
    assert data.items("test") == [f"test/{i:06d}" for i in range(4)]
    assert data.read("train/n2.jpg") == tiny_sets.encoded(2)


@pytest.mark.parametrize("path", ["../{}.jpg", "/elsewhere/{}.jpg", "a\n{}.jpg", "https://example.org/{}.jpg"])
def test_paths_that_cannot_be_names(path, tmp_path):
    images = [{"bytes": tiny_sets.encoded(i), "path": path.format(i)} for i in range(4)]
    data = open_set(raw_parquet(tmp_path / "set", images), train_split="none")
    assert data.items("test") == [f"{i:06d}" for i in range(4)]
    assert data.read("000003") == tiny_sets.encoded(3)


def test_data_without_splits_are_divided_by_the_rule_of_folders(tmp_path):
    rows(range(16)).save_to_disk(tmp_path)
    data = open_set(tmp_path, train_split="train")
    test, train = data.items("test"), data.items("train")
    assert sorted([*test, *train]) == [f"{i:06d}" for i in range(16)]
    draw = {name: hashlib.sha256(f"0\0{name}".encode()).digest() for name in (*test, *train)}
    dogs = sorted((name for name in draw if int(name) % 2 == 0), key=draw.__getitem__)
    assert [name for name in test if data.label(name) == "dog"] == sorted(dogs[:2])
    assert "no splits" in data.notes()[0]
    assert len(open_set(tmp_path, train_split="none").items("test")) == 16
    assert len(open_set(tmp_path, train_split="train", test_fraction=0.5).items("test")) == 8


def test_a_lone_train_split_can_be_evaluated_whole(tmp_path):
    (tmp_path / "set").mkdir()
    rows(range(6)).to_parquet(tmp_path / "set/photos.parquet")
    data = open_set(tmp_path / "set", split="train", train_split="none")
    assert data.items("train") == [f"train/{i:06d}" for i in range(6)]
    assert data.notes() == []


class TestColumns:
    def write(self, root: Path) -> Path:
        names = [["Birch", "Ash"][s % 2] for s in range(6)]
        photos = rows(range(6), kind_of_tree=names)
        photos.add_column("age", [10, 9, 100, 9, 10, 9]).save_to_disk(root)
        return root

    def test_a_label_column_of_text_or_numbers(self, tmp_path):
        root = self.write(tmp_path)
        data = open_set(root, train_split="none", label_column="kind_of_tree")
        assert data.classes == ["Ash", "Birch"]
        assert data.label(data.items("test")[0]) == "Birch"
        data = open_set(root, train_split="none", label_column="age")
        assert data.classes == ["9", "10", "100"]  # by number
        assert [data.label(item) for item in data.items("test")] == ["10", "9", "100", "9", "10", "9"]

    def test_columns_that_are_not_there_or_not_clear(self, tmp_path):
        root = self.write(tmp_path / "one")
        assert "data.label_column=breed" in refusal(root=str(root), label_column="breed")
        rows(range(4)).add_column("other", [0, 1, 0, 1]).cast_column(
            "other", datasets.ClassLabel(names=["x", "y"])
        ).save_to_disk(tmp_path / "two")
        message = refusal(root=str(tmp_path / "two"))
        assert "label, other" in message
        assert "data.label_column=NAME" in message
        rows(range(4)).remove_columns("label").save_to_disk(tmp_path / "none")
        assert "no column of type ClassLabel" in refusal(root=str(tmp_path / "none"))
        rows(range(4)).remove_columns("image").save_to_disk(tmp_path / "blind")
        assert "no column of type Image" in refusal(root=str(tmp_path / "blind"))

    def test_rows_without_a_class(self, tmp_path):
        datasets.Dataset.from_dict(
            {"image": [{"bytes": tiny_sets.encoded(1), "path": None}] * 2, "label": [0, -1]},
            features=FEATURES,
        ).save_to_disk(tmp_path)
        assert "row 1 has no class" in refusal(root=str(tmp_path))

    def test_numbers_that_are_no_classes(self, tmp_path):
        rows(range(4)).add_column("share", [0.1, 0.2, 0.3, 0.4]).save_to_disk(tmp_path)
        assert "holds float" in refusal(root=str(tmp_path), label_column="share")


@pytest.mark.parametrize("path", ["https://example.org/1.jpg", None])
def test_rows_that_only_point_elsewhere(path, tmp_path):
    images = [{"bytes": tiny_sets.encoded(0), "path": None}, {"bytes": None, "path": path}]
    assert "row 1 holds no image" in refusal(root=str(raw_parquet(tmp_path / "set", images)))


def test_a_row_that_points_at_a_device_is_never_read(tmp_path):
    images = [{"bytes": tiny_sets.encoded(i), "path": None} for i in range(3)] + [{"bytes": None, "path": "/dev/zero"}]
    with pytest.raises(UsageError, match="lies outside"):
        export(raw_parquet(tmp_path / "set", images), "data.split=train", "data.train_split=train")


def test_damaged_photos_are_named_before_any_forward(tmp_path):
    table = rows(range(4)).to_dict()
    table["image"][2] = {"bytes": tiny_sets.encoded(2)[:-90], "path": None}
    datasets.Dataset.from_dict(table, features=FEATURES).save_to_disk(tmp_path / "set")
    with pytest.raises(UsageError, match="000002: it does not decode to a whole image"):
        export(tmp_path / "set", "data.test_fraction=0.5")


def test_changed_bytes_and_changed_labels_are_another_data_set(tmp_path):
    root = tmp_path / "set"
    saved(root)
    export(root, "data.train_split=train")
    for change in ("image", "label"):
        for path in root.rglob("*"):
            if path.is_file():
                path.unlink()
        test = rows(range(6, 10)).to_dict()
        test[change][0] = {"image": {"bytes": tiny_sets.encoded(99), "path": None}, "label": 1}[change]
        other = datasets.Dataset.from_dict(test, features=FEATURES)
        datasets.DatasetDict(train=rows(range(6)), test=other).save_to_disk(root)
        with pytest.raises(UsageError, match="dataset_id"):
            export(root, "data.train_split=train")


def test_images_are_read_once_and_remembered(tmp_path, monkeypatch):
    saved(tmp_path / "set")
    export(tmp_path / "set", "data.train_split=train")
    monkeypatch.setattr(HuggingFaceSet, "read", lambda *_: pytest.fail("an image was read again"))
    export(tmp_path / "set", "data.train_split=train")


def test_the_same_photo_in_train_and_test(tmp_path):
    datasets.DatasetDict(train=rows(range(6)), test=rows(range(4, 8))).save_to_disk(tmp_path / "set")
    with pytest.raises(UsageError, match="in train and test"):
        export(tmp_path / "set", "data.train_split=train")


class TestRefused:
    def test_nothing_or_two_things_named(self, tmp_path):
        for settings in ({}, {"root": str(tmp_path), "dataset": "owner/name"}):
            message = refusal(**settings)
            assert "data.root=DIR" in message
            assert "data.dataset=NAME" in message

    def test_a_name_on_the_hub_is_pinned(self):
        assert "data.revision=COMMIT" in refusal(dataset="owner/name")
        with pytest.raises(ValueError, match="branches move"):
            Settings(dataset="owner/name", revision="main")

    def test_a_hub_that_cannot_be_reached(self):
        message = refusal(dataset="owner/name", revision=COMMIT)
        assert f"datasets cannot load owner/name at {COMMIT}" in message

    def test_a_folder_as_dataset(self, tmp_path):
        data = HuggingFaceSet(Settings(dataset=str(saved(tmp_path)), train_split="train"))
        assert len(data.items("train")) == 6

    def test_no_folder_no_data(self, tmp_path):
        assert "is no folder" in refusal(root=str(tmp_path / "none"))
        assert LAYOUT in refusal(root=str(tmp_path))

    def test_half_of_what_was_saved(self, tmp_path):
        saved(tmp_path)
        next(tmp_path.glob("test/*.arrow")).unlink()
        assert LAYOUT in refusal(root=str(tmp_path))

    def test_a_split_that_is_not_there(self, tmp_path):
        message = refusal(root=str(saved(tmp_path)), split="val")
        assert "'val'" in message
        assert "train, test" in message

    def test_a_lone_test_split_is_not_divided(self, tmp_path):
        datasets.DatasetDict(test=rows(range(6))).save_to_disk(tmp_path)
        assert "no split 'train'" in refusal(root=str(tmp_path), train_split="train")

    def test_a_fraction_has_no_use_where_there_are_splits(self, tmp_path):
        assert "data.test_fraction" in refusal(root=str(saved(tmp_path)), test_fraction=0.5, train_split="train")

    def test_code_beside_the_data_never_runs(self, tmp_path):
        root = tmp_path / "set"
        root.mkdir()
        for name in ("set.py", "__init__.py", "dataset.py"):
            (root / name).write_text(f"import os\nos.mkdir({str(tmp_path / 'ran')!r})\n", encoding="utf-8")
        assert LAYOUT in refusal(root=str(root))
        parquet(root)
        with contextlib.suppress(UsageError):  # whether the library reads the tables or not is its own matter
            HuggingFaceSet(Settings(root=str(root), train_split="train")).items("test")
        assert not (tmp_path / "ran").exists()

    def test_the_library_is_missing(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "datasets", None)
        assert "pip install 'benchkit[hf]'" in refusal(root=str(tmp_path))
