"""Sets of torchvision.datasets in their real layouts: items, splits, classes and pixels, and what is refused."""

from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import tiny_sets
import torch
import torchvision
from PIL import Image

import benchkit
from benchkit.datasets.torchvision import LAYOUT, Settings, TorchvisionSet
from benchkit.errors import UsageError
from benchkit.store.table import Table

SETS = {  # name in the library -> builder of a small copy, splits (evaluated, train), options
    "CIFAR10": (tiny_sets.cifar10, ("test", "train"), {}),
    "CIFAR100": (tiny_sets.cifar100, ("test", "train"), {}),
    "Flowers102": (tiny_sets.flowers102, ("test", "train"), {}),
    "DTD": (tiny_sets.dtd, ("test", "train"), {}),
    "Food101": (tiny_sets.food101, ("test", "train"), {}),
    "OxfordIIITPet": (tiny_sets.pets, ("test", "trainval"), {}),
    "Places365": (tiny_sets.places365, ("val", "train-standard"), {"small": True}),
    "StanfordCars": (tiny_sets.cars, ("test", "train"), {}),
    "FGVCAircraft": (tiny_sets.aircraft, ("test", "trainval"), {}),
    "GTSRB": (tiny_sets.gtsrb, ("test", "train"), {}),
    "SVHN": (tiny_sets.svhn, ("test", "train"), {}),
    "STL10": (tiny_sets.stl10, ("test", "train"), {}),
    "MNIST": (tiny_sets.mnist, ("test", "train"), {}),
    "PCAM": (tiny_sets.pcam, ("test", "train"), {}),
    "EuroSAT": (tiny_sets.eurosat, (), {}),
    "Caltech101": (tiny_sets.caltech101, (), {}),
    "SUN397": (tiny_sets.sun397, (), {}),
}
ARRAYS = ("CIFAR10", "CIFAR100", "SVHN", "STL10", "MNIST", "PCAM")


def open_set(root: Path, name: str, **settings: object) -> TorchvisionSet:
    return TorchvisionSet(Settings(root=str(root), dataset=name, **settings))


def made(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[TorchvisionSet, tiny_sets.Truth]:
    """A small copy, opened with its own splits."""
    build, splits, options = SETS[name]
    truth = build(root, monkeypatch)
    named = dict(zip(("split", "train_split"), splits, strict=False))
    return open_set(root, name, options=options, **(named or {"train_split": "none"})), truth


def refusal(root: Path, name: str, split: str = "test", **settings: object) -> str:
    with pytest.raises(UsageError) as caught:
        open_set(root, name, **{"split": split, **settings}).items(split)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", SETS)
class TestEverySet:
    def test_items_and_classes_are_those_on_disk(self, name, tmp_path, monkeypatch):
        data, truth = made(name, tmp_path, monkeypatch)
        for split, by_name in truth.items():
            items = data.items(split or "test")
            assert items == sorted(by_name)
            assert {item: data.label(item) for item in items} == by_name
            for item in items:
                assert data.classes[int(data.target(item)["label"])] == by_name[item]
                assert data.category(item) == {"class": by_name[item]}
        assert not data.generated

    def test_pixels_and_labels_are_the_library_s(self, name, tmp_path, monkeypatch):
        """Read again by the library itself, item by item."""
        data, truth = made(name, tmp_path, monkeypatch)
        options = SETS[name][2]
        for split, by_name in truth.items():
            how = (
                {"train": split == "train"}
                if name in ("CIFAR10", "CIFAR100", "MNIST")
                else {"split": split}
                if split
                else {}
            )
            library = getattr(torchvision.datasets, name)(tmp_path, **how, **options)
            data.items(split or "test")
            theirs = [(np.asarray(image.convert("RGB")), int(label)) for image, label in library]
            assert len(theirs) == len(by_name)
            for position, (pixels, label) in enumerate(theirs):
                item = f"{split}/{position:06d}"
                if name not in ARRAYS:
                    item = next(i for i in by_name if np.array_equal(data.image(i), pixels))
                assert np.array_equal(data.image(item), pixels)
                assert int(data.target(item)["label"]) == label

    def test_nothing_there(self, name, tmp_path):
        splits = SETS[name][1] or ("test",)
        message = refusal(tmp_path, name, split=splits[0], options=SETS[name][2])
        assert name in message
        assert str(tmp_path) in message
        assert LAYOUT in message
        assert "download=True to download it" not in message


def test_names_of_classes_for_people(tmp_path, monkeypatch):
    data, _ = made("Places365", tmp_path, monkeypatch)
    assert data.meta() == {
        "classes": ["/b/bow_window/indoor", "/a/airfield"],
        "class_names": ["bow window indoor", "airfield"],
    }
    data, _ = made("EuroSAT", tmp_path, monkeypatch)
    assert data.meta() == {
        "classes": ["AnnualCrop", "Forest", "SeaLake"],
        "class_names": ["Annual Crop", "Forest", "Sea Lake"],
    }
    data, _ = made("Food101", tmp_path, monkeypatch)
    assert data.meta() == {"classes": ["apple_pie", "waffles"]}  # underscores are everybody's to read
    data, _ = made("StanfordCars", tmp_path, monkeypatch)
    assert "class_names" not in data.meta()


def test_wordnet_ids_come_with_the_library_s_names(tmp_path):
    tiny_sets.put_images(tmp_path, (f"imagenette2/{s}/{w}/{i}.JPEG" for s in ("train", "val") for w in
                                    ("n01440764", "n03425413") for i in range(2)))  # fmt: skip
    data = open_set(tmp_path, "Imagenette", split="val", train_split="train")
    assert data.items("val")[0] == "imagenette2/val/n01440764/0.JPEG"
    assert data.meta() == {"classes": ["n01440764", "n03425413"], "class_names": ["tench", "gas pump"]}


def test_flowers_are_numbered_from_one_and_split_by_number(tmp_path, monkeypatch):
    """By hand: image 12 is of class 2, the second flower of the list, and is a test image."""
    data, _ = made("Flowers102", tmp_path, monkeypatch)
    assert "flowers-102/jpg/image_00012.jpg" in data.items("test")
    assert data.label("flowers-102/jpg/image_00012.jpg") == "hard-leaved pocket orchid"
    assert int(data.target("flowers-102/jpg/image_00012.jpg")["label"]) == 1
    assert len(data.classes) == 102


def test_two_splits_as_one(tmp_path, monkeypatch):
    tiny_sets.dtd(tmp_path)
    data = open_set(tmp_path, "DTD", train_split="train+val")
    assert data.items("train+val") == sorted([*data.items("train"), *data.items("val")])
    assert len(data.items("train+val")) == 6
    tiny_sets.stl10(tmp_path, monkeypatch)
    assert "has no labels" in refusal(tmp_path, "STL10", split="train+unlabeled")  # the library's own name


def test_options_go_to_the_class(tmp_path, monkeypatch):
    truth = tiny_sets.aircraft(tmp_path)
    folder = tmp_path / "fgvc-aircraft-2013b/data"
    (folder / "manufacturers.txt").write_text("Boeing\nMcDonnell\n", encoding="utf-8")
    names = [Path(item).stem for item in truth["test"]]
    (folder / "images_manufacturer_test.txt").write_text("".join(f"{n} Boeing\n" for n in names), encoding="utf-8")
    data = open_set(tmp_path, "FGVCAircraft", train_split="none", options={"annotation_level": "manufacturer"})
    assert {data.label(item) for item in data.items("test")} == {"Boeing"}
    assert data.classes == ["Boeing", "McDonnell"]
    message = refusal(tmp_path, "FGVCAircraft", options={"level": "family"})
    assert "data.options.level" in message
    assert "annotation_level" in message
    assert "data.options.download" in refusal(tmp_path, "FGVCAircraft", options={"download": True})


def test_splits_that_differ_in_their_classes_are_joined_by_name(tmp_path):
    """DTD numbers the classes of each list by themselves: dotted is 1 in train, and 0 in a test list without banded."""
    tiny_sets.dtd(tmp_path)
    tiny_sets.put(tmp_path, "dtd/dtd/labels/test1.txt", "dotted/dotted_0003.jpg\nzigzagged/zigzagged_0003.jpg\n")
    data = open_set(tmp_path, "DTD", train_split="train")
    data.items("train")
    (dotted, _) = data.items("test")
    assert data.classes == ["banded", "dotted", "zigzagged"]
    assert int(data.target(dotted)["label"]) == 1


def test_a_set_without_splits_is_divided_by_the_rule_of_folders(tmp_path):
    truth = tiny_sets.eurosat(tmp_path)[""]
    data = open_set(tmp_path, "EuroSAT", train_split="train", test_fraction=0.2)
    test, train = data.items("test"), data.items("train")
    assert sorted([*test, *train]) == sorted(truth)
    assert {c: sum(data.label(i) == c for i in test) for c in data.classes} == dict.fromkeys(data.classes, 2)
    draws = {item: hashlib.sha256(f"0\0{item}".encode()).digest() for item in truth}
    forest = sorted((i for i in truth if truth[i] == "Forest"), key=draws.__getitem__)
    assert sorted(forest[:2]) == [item for item in test if truth[item] == "Forest"]
    assert open_set(tmp_path, "EuroSAT", train_split="train", test_fraction=0.2, split_seed=1).items("test") != test
    tiny_sets.dtd(tmp_path)
    assert "data.test_fraction" in refusal(tmp_path, "DTD", test_fraction=0.2)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cifar10", "did you mean CIFAR10?"),
        ("NoSuchSet", "no such set"),
        ("VisionDataset", "no such set"),
        ("FakeData", "random noise"),
        ("ImageNet", "data.name=image_folder"),
        ("ImageFolder", "data.name=image_folder"),
        ("LSUN", "unpickles"),
        ("VOCDetection", "year"),
    ],
)
def test_names_that_are_no_classification_sets(name, expected, tmp_path):
    message = refusal(tmp_path, name, options={"years": 2012} if name == "VOCDetection" else {})
    assert expected in message


def test_detection_is_no_classification(tmp_path):
    tiny_sets.put_images(tmp_path, [f"WIDER_train/images/0--Parade/{i}.jpg" for i in range(2)])
    text = "".join(f"0--Parade/{i}.jpg\n1\n1 2 3 4 0 0 0 0 0 0\n" for i in range(2))
    tiny_sets.put(tmp_path, "widerface/wider_face_split/wider_face_train_bbx_gt.txt", text)
    (tmp_path / "widerface/WIDER_train").parent.mkdir(exist_ok=True)
    (tmp_path / "WIDER_train").rename(tmp_path / "widerface/WIDER_train")
    for folder in ("WIDER_val", "WIDER_test"):
        (tmp_path / "widerface" / folder).mkdir()
    assert "no classification set" in refusal(tmp_path, "WIDERFace", split="train")


def test_splits_that_do_not_exist(tmp_path, monkeypatch):
    tiny_sets.cifar10(tmp_path, monkeypatch)
    assert "splits train and test, not 'val'" in refusal(tmp_path, "CIFAR10", split="val")
    tiny_sets.pets(tmp_path)
    message = refusal(tmp_path, "OxfordIIITPet", split="train")
    assert "trainval" in message
    assert "'train'" in message


def test_what_to_run_is_said(tmp_path):
    message = refusal(tmp_path, "CIFAR10", split="train")
    assert f"CIFAR10('{tmp_path}', train=True, download=True)" in message
    assert not list(tmp_path.iterdir())  # and nothing was begun


class TestHalfData:
    def test_a_damaged_batch(self, tmp_path, monkeypatch):
        tiny_sets.cifar10(tmp_path, monkeypatch)
        batch = tmp_path / "cifar-10-batches-py/data_batch_3"
        batch.write_bytes(batch.read_bytes()[:-200])
        assert "corrupted" in refusal(tmp_path, "CIFAR10")
        batch.unlink()
        assert "not found" in refusal(tmp_path, "CIFAR10")

    def test_truncated_arrays(self, tmp_path):
        tiny_sets.mnist(tmp_path)
        images = tmp_path / "MNIST/raw/t10k-images-idx3-ubyte"
        images.write_bytes(images.read_bytes()[:-100])
        assert "MNIST" in refusal(tmp_path, "MNIST")

    def test_lists_without_images(self, tmp_path):
        """Listed images that are missing are named before any forward."""
        tiny_sets.dtd(tmp_path)
        (tmp_path / "dtd/dtd/images/dotted/dotted_0003.jpg").unlink()
        with pytest.raises(UsageError, match=r"dtd/dtd/images/dotted/dotted_0003\.jpg: it cannot be read"):
            export(tmp_path, "DTD")

    def test_images_without_lists(self, tmp_path):
        tiny_sets.dtd(tmp_path)
        (tmp_path / "dtd/dtd/labels/test1.txt").unlink()
        assert "test1.txt" in refusal(tmp_path, "DTD")

    def test_classes_without_images(self, tmp_path):
        """A breed is missing from the list: the library would give its number to the next one."""
        tiny_sets.pets(tmp_path)
        path = tmp_path / "oxford-iiit-pet/annotations/test.txt"
        path.write_text("".join(x for x in path.read_text().splitlines(True) if "bulldog" not in x), encoding="utf-8")
        assert "not whole" in refusal(tmp_path, "OxfordIIITPet")


class TestLists:
    """Line ends, byte order marks, blank lines and repeated names in the lists that the library reads."""

    LISTS = {  # noqa: RUF012
        "DTD": (tiny_sets.dtd, "dtd/dtd/labels/test1.txt"),
        "OxfordIIITPet": (tiny_sets.pets, "oxford-iiit-pet/annotations/test.txt"),
        "FGVCAircraft": (tiny_sets.aircraft, "fgvc-aircraft-2013b/data/images_variant_test.txt"),
        "GTSRB": (tiny_sets.gtsrb, "gtsrb/GT-final_test.csv"),
        "Food101": (tiny_sets.food101, "food-101/meta/test.json"),
    }

    @pytest.fixture(params=LISTS)
    def listed(self, request, tmp_path) -> tuple[str, Path, dict[str, str]]:
        build, name = self.LISTS[request.param]
        truth = build(tmp_path)["test"]
        return request.param, tmp_path / name, truth

    def test_windows_line_ends_change_nothing(self, listed, tmp_path):
        name, path, truth = listed
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        data = open_set(tmp_path, name, train_split="none")
        assert {item: data.label(item) for item in data.items("test")} == truth

    def test_a_byte_order_mark_is_refused(self, listed, tmp_path):
        name, path, _ = listed
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert name in refusal(tmp_path, name)

    def test_blank_lines_change_nothing_or_are_refused(self, listed, tmp_path):
        name, path, truth = listed
        path.write_bytes(path.read_bytes() + b"\n\n")
        if name in ("GTSRB", "Food101"):  # the library reads over them
            data = open_set(tmp_path, name, train_split="none")
            assert {item: data.label(item) for item in data.items("test")} == truth
        else:
            assert "not as published" in refusal(tmp_path, name)

    def test_a_name_twice_is_refused(self, listed, tmp_path):
        name, path, _ = listed
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            path.write_text(text.replace('"waffles/3"', '"waffles/3", "waffles/3"'), encoding="utf-8")
        else:
            path.write_text(text + text.splitlines(True)[-1], encoding="utf-8")
        assert "twice" in refusal(tmp_path, name)


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["test_batch", "batches.meta"])
def test_code_in_a_pickle_never_runs(name, tmp_path, monkeypatch):
    tiny_sets.cifar10(tmp_path, monkeypatch)
    (tmp_path / "cifar-10-batches-py" / name).write_bytes(pickle.dumps(Evil(tmp_path / "ran"), protocol=2))
    assert "corrupted" in refusal(tmp_path, "CIFAR10")
    assert not (tmp_path / "ran").exists()


def test_no_other_set_of_the_library_reads_pickles():
    """CIFAR's files are known by their MD5, and LSUN is refused; a later version that unpickles more shows here."""
    sources = Path(torchvision.datasets.__file__).parent.glob("*.py")
    assert sorted(p.stem for p in sources if "pickle.load" in p.read_text(encoding="utf-8")) == ["cifar", "lsun"]
    loads = [line for p in Path(torchvision.datasets.__file__).parent.glob("*.py")
             for line in p.read_text(encoding="utf-8").splitlines() if "torch.load(" in line]  # fmt: skip
    assert loads
    assert all("weights_only=True" in line for line in loads)


def test_old_mnist_files_run_no_code_either(tmp_path):
    folder = tmp_path / "MNIST/processed"
    folder.mkdir(parents=True)
    for name in ("training.pt", "test.pt"):
        torch.save(Evil(tmp_path / "ran"), folder / name)
    assert "MNIST" in refusal(tmp_path, "MNIST")
    assert not (tmp_path / "ran").exists()


def test_missing_scipy_is_said_with_the_extra(tmp_path, monkeypatch):
    import builtins

    tiny_sets.flowers102(tmp_path, monkeypatch)
    tiny_sets.cars(tmp_path)
    plain = builtins.__import__

    def without_scipy(name, *rest, **more):
        if name.split(".")[0] == "scipy":
            raise ModuleNotFoundError("No module named 'scipy'", name="scipy")
        return plain(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_scipy)
    for name in ("Flowers102", "StanfordCars"):
        assert "pip install 'benchkit[mat]'" in refusal(tmp_path, name)


class Pool(torch.nn.Module):
    """Mean colours of four cells."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(image, 2).flatten(1)


def export(root: Path, name: str, *arguments: str, tag: str = "pool", **options: object):
    return benchkit.run(
        Pool(),
        "classification",
        data=root,
        tag=tag,
        preprocess={"size": 16, "mean": [0.5] * 3, "std": [0.5] * 3},
        arguments=["data.name=torchvision", f"data.dataset={name}", "model.batch_size=4", *arguments],
        outputs=root.parent / "outputs",
        say=lambda _: None,
        **options,
    )


def rows_of(outputs: Path) -> int:
    """Rows in all parts of all banks."""
    count = 0
    for path in outputs.glob("features/*/part-*.h5"):
        with Table(path, "bank") as table:
            count += len(table.names)
    return count


class TestArrays:
    def test_the_whole_way(self, tmp_path, monkeypatch):
        root = tmp_path / "data"
        truth = tiny_sets.cifar10(root, monkeypatch)
        made = export(root, "CIFAR10")
        assert list(made.items["names"]) == sorted(truth["test"])
        data = made.record["data"]
        assert (data["n_items"], data["n_train"], data["generated"]) == (5, 20, False)
        with Table(made.folder / "targets.h5", "targets") as table:
            labels = [tiny_sets.CIFAR10[int(i)] for i in table.read("label")]
            assert dict(zip(table.names, labels, strict=True)) == truth["test"]
            assert table.meta["classes"] == tiny_sets.CIFAR10
        with Table(made.folder / "thumbs.h5", "thumbs") as table:
            assert len(table.names) == 25

    def test_keys_are_those_of_the_pixels(self, tmp_path, monkeypatch):
        """A hash of size and pixels: equal for equal images, by whatever name; and that of a PPM file in a folder."""
        tiny_sets.cifar10(tmp_path, monkeypatch)
        data = open_set(tmp_path, "CIFAR10")
        name = data.items("test")[1]
        stored = data.read(name)
        pixels = data.image(name)
        assert stored == b"P6\n32 32\n255\n" + pixels.tobytes()
        Image.fromarray(pixels).save(tmp_path / "x.ppm")
        assert stored == (tmp_path / "x.ppm").read_bytes()
        assert data.path(name) is None

    def test_changed_pixels_are_another_data_set(self, tmp_path, monkeypatch):
        root = tmp_path / "data"
        tiny_sets.svhn(root, monkeypatch)
        first = export(root, "SVHN").record["data"]["dataset_id"]
        from scipy.io import loadmat

        mat = loadmat(root / "test_32x32.mat")
        mat["X"][0, 0, 0, 0] ^= 1
        tiny_sets.put_mat(root, "test_32x32.mat", X=mat["X"], y=mat["y"])
        lists = dict(torchvision.datasets.SVHN.split_list)
        lists["test"] = [*lists["test"][:2], tiny_sets.md5(root / "test_32x32.mat")]
        monkeypatch.setattr(torchvision.datasets.SVHN, "split_list", lists)
        with pytest.raises(UsageError, match="dataset_id"):
            export(root, "SVHN")
        assert export(root, "SVHN", overwrite=True).record["data"]["dataset_id"] != first

    def test_changed_labels_are_another_data_set(self, tmp_path, monkeypatch):
        root = tmp_path / "data"
        tiny_sets.mnist(root)
        export(root, "MNIST")
        labels = root / "MNIST/raw/t10k-labels-idx1-ubyte"
        labels.write_bytes(labels.read_bytes()[:-1] + b"\x05")
        with pytest.raises(UsageError, match="dataset_id"):
            export(root, "MNIST")

    def test_they_are_read_once_and_remembered(self, tmp_path, monkeypatch):
        root = tmp_path / "data"
        tiny_sets.mnist(root)
        export(root, "MNIST")
        monkeypatch.setattr(TorchvisionSet, "read", lambda *_: pytest.fail("an image was read again"))
        export(root, "MNIST")

    def test_two_sets_below_one_root_are_two_memories(self, tmp_path, monkeypatch):
        root = tmp_path / "data"
        tiny_sets.mnist(root)
        tiny_sets.cifar10(root, monkeypatch)
        for name in ("MNIST", "CIFAR10", "MNIST"):
            export(root, name, tag=name)
        assert len(list((tmp_path / "outputs").glob("manifests/*.h5"))) == 2

    def test_the_same_image_in_train_and_test(self, tmp_path, monkeypatch):
        root = tmp_path / "data"
        tiny_sets.mnist(root)
        train, test = (root / f"MNIST/raw/{s}-images-idx3-ubyte" for s in ("train", "t10k"))
        test.write_bytes(test.read_bytes()[: 16 + 28 * 28] + train.read_bytes()[16 : 16 + 28 * 28])
        with pytest.raises(UsageError, match=r"(train/000000 = test/000001|test/000001 = train/000000)"):
            export(root, "MNIST")
        record = export(root, "MNIST", "data.on_duplicate=keep").record
        assert record["data"]["duplicates"]["across_splits"] == 1
        assert rows_of(tmp_path / "outputs") == 5  # six images, one of them twice

    def test_a_limit_is_stratified(self, tmp_path, monkeypatch):
        root = tmp_path / "data"
        tiny_sets.mnist(root)
        made = export(root, "MNIST", "data.limit=3")
        assert made.record["data"]["n_train"] == 3
        assert made.record["data"]["n_items"] == 2


def test_files_go_the_whole_way(tmp_path):
    root = tmp_path / "data"
    truth = tiny_sets.pets(root)
    made = export(root, "OxfordIIITPet", "data.train_split=trainval")
    assert list(made.items["names"]) == sorted(truth["test"])
    assert made.record["data"]["n_train"] == 6


def test_settings_are_asked_for(tmp_path):
    for settings in ({}, {"root": str(tmp_path)}, {"dataset": "DTD"}):
        with pytest.raises(UsageError, match=r"data\.root=DIR and data\.dataset=NAME"):
            TorchvisionSet(Settings(**settings))
