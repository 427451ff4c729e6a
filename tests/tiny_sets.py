"""A dozen images in the layout of each public set, as its archives unpack; truth is returned beside.

The library knows the real lists by their MD5; the tests put those of the small files in their place.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import pickle
from collections.abc import Iterable
from pathlib import Path

import h5py
import numpy as np
from PIL import Image
from scipy.io import savemat

Truth = dict[str, dict[str, str]]  # class by item name, by split


def picture(seed: int, side: int = 24) -> np.ndarray:
    """Like no other of another seed: uint8 (side, side + 8, 3)."""
    return np.random.default_rng(seed).integers(0, 256, (side, side + 8, 3), dtype=np.uint8)


def encoded(seed: int, kind: str = "JPEG") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture(seed)).save(buffer, kind)
    return buffer.getvalue()


def put(root: Path, name: str, data: bytes | str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def put_images(root: Path, names: Iterable[str]) -> None:
    for name in names:
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])
        put(root, name, encoded(seed, "PPM" if name.endswith(".ppm") else "PNG" if name.endswith(".png") else "JPEG"))


def put_mat(root: Path, name: str, **values: object) -> None:
    buffer = io.BytesIO()
    savemat(buffer, values)
    put(root, name, buffer.getvalue())


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def array_truth(labels: dict[str, list[str]]) -> Truth:
    return {split: {f"{split}/{i:06d}": name for i, name in enumerate(found)} for split, found in labels.items()}


def _cifar_rows(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def cifar10(root: Path, monkeypatch) -> Truth:
    """Five train batches of four rows and a test batch of five: pickles of protocol 2, as published."""
    from torchvision.datasets import CIFAR10 as known

    folder, labels = root / "cifar-10-batches-py", {"train": [], "test": []}
    for number in range(6):
        name = f"data_batch_{number + 1}" if number < 5 else "test_batch"
        numbers = [(3 * number + i) % 10 for i in range(4 if number < 5 else 5)]
        batch = {"data": _cifar_rows(len(numbers), number), "labels": numbers, "batch_label": name, "filenames": []}
        put(folder, name, pickle.dumps(batch, protocol=2))
        labels["train" if number < 5 else "test"] += [CIFAR10[n] for n in numbers]
    put(folder, "batches.meta", pickle.dumps({"label_names": CIFAR10, "num_vis": 3072}, protocol=2))
    for listed in ("train_list", "test_list"):
        monkeypatch.setattr(known, listed, [[name, md5(folder / name)] for name, _ in getattr(known, listed)])
    monkeypatch.setattr(known, "meta", {**known.meta, "md5": md5(folder / "batches.meta")})
    return array_truth(labels)


def cifar100(root: Path, monkeypatch) -> Truth:
    from torchvision.datasets import CIFAR100 as known

    folder, names = root / "cifar-100-python", [f"fine_{i:02d}" for i in range(100)]
    numbers = {"train": [7, 99, 0, 7, 42, 1], "test": [42, 99, 3]}
    for split, fine in numbers.items():
        rows = {"data": _cifar_rows(len(fine), len(fine)), "fine_labels": fine, "coarse_labels": [0] * len(fine)}
        put(folder, split, pickle.dumps(rows, protocol=2))
    put(folder, "meta", pickle.dumps({"fine_label_names": names, "coarse_label_names": ["x"]}, protocol=2))
    for listed in ("train_list", "test_list"):
        monkeypatch.setattr(known, listed, [[name, md5(folder / name)] for name, _ in getattr(known, listed)])
    monkeypatch.setattr(known, "meta", {**known.meta, "md5": md5(folder / "meta")})
    return array_truth({split: [names[n] for n in fine] for split, fine in numbers.items()})


def flowers102(root: Path, monkeypatch) -> Truth:
    """Twelve images of classes 1, 2, 77 and 102; labels count from 1, images too, and test is called tstid."""
    from torchvision.datasets import Flowers102 as known

    labels = [77, 77, 77, 1, 1, 1, 102, 102, 102, 2, 2, 2]
    ids = {"trnid": [1, 4, 7, 10], "valid": [2, 5, 8, 11], "tstid": [12, 3, 6, 9]}
    folder = root / "flowers-102"
    put_mat(folder, "imagelabels.mat", labels=np.array([labels], dtype=np.uint8))
    put_mat(folder, "setid.mat", **{key: np.array([numbers], dtype=np.uint16) for key, numbers in ids.items()})
    put_images(folder, (f"jpg/image_{i:05d}.jpg" for i in range(1, 13)))
    fresh = {key: (name, old) for key, (name, old) in known._file_dict.items()}
    for key in ("label", "setid"):
        fresh[key] = (fresh[key][0], md5(folder / fresh[key][0]))
    monkeypatch.setattr(known, "_file_dict", fresh)
    names = {1: "pink primrose", 2: "hard-leaved pocket orchid", 77: "passion flower", 102: "blackberry lily"}
    splits = {"train": "trnid", "val": "valid", "test": "tstid"}
    return {
        split: {f"flowers-102/jpg/image_{i:05d}.jpg": names[labels[i - 1]] for i in ids[key]}
        for split, key in splits.items()
    }


def dtd(root: Path, monkeypatch=None) -> Truth:
    listed = {
        "train": ["banded/banded_0001.jpg", "dotted/dotted_0001.jpg", "zigzagged/zigzagged_0001.jpg"],
        "val": ["banded/banded_0002.jpg", "dotted/dotted_0002.jpg", "zigzagged/zigzagged_0002.jpg"],
        "test": ["zigzagged/zigzagged_0003.jpg", "banded/banded_0003.jpg", "dotted/dotted_0003.jpg"],
    }
    for split, names in listed.items():
        put(root, f"dtd/dtd/labels/{split}1.txt", "".join(f"{name}\n" for name in names))
        put_images(root, (f"dtd/dtd/images/{name}" for name in names))
    return {s: {f"dtd/dtd/images/{n}": n.split("/")[0] for n in names} for s, names in listed.items()}


def food101(root: Path, monkeypatch=None) -> Truth:
    listed = {
        "train": {"waffles": ["waffles/2", "waffles/1"], "apple_pie": ["apple_pie/10", "apple_pie/11"]},
        "test": {"waffles": ["waffles/3"], "apple_pie": ["apple_pie/12", "apple_pie/13"]},
    }
    for split, by_class in listed.items():
        put(root, f"food-101/meta/{split}.json", json.dumps(by_class))
        put_images(root, (f"food-101/images/{name}.jpg" for names in by_class.values() for name in names))
    return {
        split: {f"food-101/images/{name}.jpg": dish for dish, names in by_class.items() for name in names}
        for split, by_class in listed.items()
    }


def pets(root: Path, monkeypatch=None) -> Truth:
    """Cats are capitalised, dogs are not, and the order is that of the numbers, not of the names."""
    breeds = {"Abyssinian": (1, 1), "american_bulldog": (2, 2), "Bengal": (3, 1)}
    listed = {"trainval": [1, 20], "test": [5]}
    for split, numbers in listed.items():
        lines = [f"{b}_{i} {n} {kind} 1\n" for i in numbers for b, (n, kind) in breeds.items()]
        put(root, f"oxford-iiit-pet/annotations/{split}.txt", "".join(lines))
        put_images(root, (f"oxford-iiit-pet/images/{b}_{i}.jpg" for i in numbers for b in breeds))
    names = {"Abyssinian": "Abyssinian", "american_bulldog": "American Bulldog", "Bengal": "Bengal"}
    return {
        split: {f"oxford-iiit-pet/images/{b}_{i}.jpg": names[b] for i in numbers for b in breeds}
        for split, numbers in listed.items()
    }


def eurosat(root: Path, monkeypatch=None) -> Truth:
    names = [f"{c}/{c}_{i}.jpg" for c in ("SeaLake", "AnnualCrop", "Forest") for i in range(1, 11)]
    put_images(root, (f"eurosat/2750/{name}" for name in names))
    return {"": {f"eurosat/2750/{name}": name.split("/")[0] for name in names}}


def places365(root: Path, monkeypatch) -> Truth:
    """Small images; the list of categories is not in name order."""
    from torchvision.datasets import Places365 as known

    put(root, "categories_places365.txt", "/b/bow_window/indoor 0\n/a/airfield 1\n")
    train = ["/a/airfield/00000001.jpg 1", "/b/bow_window/indoor/00000001.jpg 0", "/a/airfield/00000002.jpg 1"]
    val = ["Places365_val_00000001.jpg 0", "Places365_val_00000002.jpg 1"]
    put(root, "places365_train_standard.txt", "".join(f"{line}\n" for line in train))
    put(root, "places365_val.txt", "".join(f"{line}\n" for line in val))
    put_images(root, (f"data_256_standard{line.split()[0]}" for line in train))
    put_images(root, (f"val_256/{line.split()[0]}" for line in val))
    categories, lists = known._CATEGORIES_META[0], {split: name for split, (name, _) in known._FILE_LIST_META.items()}
    monkeypatch.setattr(known, "_CATEGORIES_META", (categories, md5(root / categories)))
    present = {s: (name, md5(root / name)) for s, name in lists.items() if (root / name).exists()}
    monkeypatch.setattr(known, "_FILE_LIST_META", {**known._FILE_LIST_META, **present})
    names = ["/b/bow_window/indoor", "/a/airfield"]
    return {
        "train-standard": {f"data_256_standard{n}": names[int(c)] for n, c in map(str.split, train)},
        "val": {f"val_256/{n}": names[int(c)] for n, c in map(str.split, val)},
    }


def cars(root: Path, monkeypatch=None) -> Truth:
    names = ["AM General Hummer SUV 2000", "Acura RL Sedan 2012", "Ram C/V Cargo Van Minivan 2012"]
    numbers = {"train": [3, 1, 2, 3], "test": [2, 1, 3]}
    kind = [(f"bbox_{k}", object) for k in ("x1", "y1", "x2", "y2")] + [("class", object), ("fname", object)]
    for split, classes in numbers.items():
        rows = np.array([(1, 1, 9, 9, np.uint8(c), f"{i:05d}.jpg") for i, c in enumerate(classes, 1)], dtype=kind)
        where = "devkit/cars_train_annos.mat" if split == "train" else "cars_test_annos_withlabels.mat"
        put_mat(root / "stanford_cars", where, annotations=rows.reshape(1, -1))
        put_images(root, (f"stanford_cars/cars_{split}/{i:05d}.jpg" for i in range(1, len(classes) + 1)))
    put_mat(root / "stanford_cars", "devkit/cars_meta.mat", class_names=np.array(names, dtype=object).reshape(1, -1))
    return {
        split: {f"stanford_cars/cars_{split}/{i:05d}.jpg": names[c - 1] for i, c in enumerate(classes, 1)}
        for split, classes in numbers.items()
    }


def aircraft(root: Path, monkeypatch=None) -> Truth:
    variants, folder = ["707-320", "Boeing 717", "F/A-18"], root / "fgvc-aircraft-2013b" / "data"
    put(folder, "variants.txt", "".join(f"{v}\n" for v in variants))
    truth: Truth = {}
    for split, start in (("trainval", 1), ("test", 7)):
        rows = {f"{start + i:07d}": variants[i % 3] for i in range(6)}
        put(folder, f"images_variant_{split}.txt", "".join(f"{name} {v}\n" for name, v in rows.items()))
        truth[split] = {f"fgvc-aircraft-2013b/data/images/{name}.jpg": v for name, v in rows.items()}
        put_images(root, truth[split])
    return truth


def gtsrb(root: Path, monkeypatch=None) -> Truth:
    """Train in class folders, test in a table with semicolons; there are no names, only numbers."""
    train = {f"gtsrb/GTSRB/Training/{c:05d}/00000_{i:05d}.ppm": str(c) for c in range(3) for i in range(2)}
    test = {f"gtsrb/GTSRB/Final_Test/Images/{i:05d}.ppm": str(c) for i, c in enumerate((2, 0, 1))}
    put_images(root, [*train, *test])
    rows = [f"{Path(name).name};53;54;{c}\n" for name, c in test.items()]
    put(root, "gtsrb/GT-final_test.csv", "Filename;Width;Height;ClassId\n" + "".join(rows))
    return {"train": train, "test": test}


def caltech101(root: Path, monkeypatch=None) -> Truth:
    names = {f"{c}/image_{i:04d}.jpg": c for c in ("ant", "accordion", "BACKGROUND_Google") for i in range(1, 9)}
    put_images(root / "caltech101" / "101_ObjectCategories", names)
    kept = {name: c for name, c in names.items() if c != "BACKGROUND_Google"}
    return {"": {f"caltech101/101_ObjectCategories/{name}": c for name, c in kept.items()}}


def sun397(root: Path, monkeypatch=None) -> Truth:
    put(root, "SUN397/ClassName.txt", "/a/abbey\n/b/bow_window/indoor\n")
    shelves = {"a/abbey": "abbey", "b/bow_window/indoor": "bow_window/indoor"}
    names = {f"{shelf}/sun_{i}.jpg": c for shelf, c in shelves.items() for i in "abcd"}
    put_images(root / "SUN397", names)
    return {"": {f"SUN397/{name}": c for name, c in names.items()}}


def svhn(root: Path, monkeypatch) -> Truth:
    """The digit 0 is stored as 10."""
    from torchvision.datasets import SVHN as known

    numbers = {"train": [1, 10, 9, 10], "test": [10, 2, 9]}
    fresh = dict(known.split_list)
    for split, digits in numbers.items():
        pixels = np.random.default_rng(len(digits)).integers(0, 256, (32, 32, 3, len(digits)), dtype=np.uint8)
        put_mat(root, f"{split}_32x32.mat", X=pixels, y=np.array(digits, dtype=np.uint8)[:, None])
        fresh[split] = [*known.split_list[split][:2], md5(root / f"{split}_32x32.mat")]
    monkeypatch.setattr(known, "split_list", fresh)
    return array_truth({split: [str(d % 10) for d in digits] for split, digits in numbers.items()})


def stl10(root: Path, monkeypatch) -> Truth:
    from torchvision.datasets import STL10 as known

    names = ["airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"]
    folder, numbers = root / "stl10_binary", {"train": [10, 1, 3], "test": [2, 10]}
    for split, classes in numbers.items():
        pixels = np.random.default_rng(len(classes)).integers(0, 256, (len(classes), 3, 96, 96), dtype=np.uint8)
        put(folder, f"{split}_X.bin", pixels.tobytes())
        put(folder, f"{split}_y.bin", bytes(classes))
    put(folder, "unlabeled_X.bin", bytes(3 * 96 * 96))
    put(folder, "class_names.txt", "\n".join(names))
    for listed in ("train_list", "test_list"):
        monkeypatch.setattr(known, listed, [[name, md5(folder / name)] for name, _ in getattr(known, listed)])
    return array_truth({split: [names[c - 1] for c in classes] for split, classes in numbers.items()})


def mnist(root: Path, monkeypatch=None) -> Truth:
    numbers = {"train": [5, 0, 9, 9], "test": [7, 0]}
    for split, digits in numbers.items():
        start = f"MNIST/raw/{'train' if split == 'train' else 't10k'}"
        pixels = np.random.default_rng(len(digits)).integers(0, 256, (len(digits), 28, 28), dtype=np.uint8)
        size = len(digits).to_bytes(4, "big")
        put(root, f"{start}-images-idx3-ubyte", b"\0\0\x08\x03" + size + (b"\0\0\0\x1c" * 2) + pixels.tobytes())
        put(root, f"{start}-labels-idx1-ubyte", b"\0\0\x08\x01" + size + bytes(digits))
    put(root, "MNIST/raw/train-images-idx3-ubyte.gz", gzip.compress(b""))
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    return array_truth({split: [f"{d} - {words[d]}" for d in digits] for split, digits in numbers.items()})


def pcam(root: Path, monkeypatch=None) -> Truth:
    numbers = {"train": [0, 1, 1], "test": [1, 0]}
    for split, labels in numbers.items():
        start = root / "pcam" / f"camelyonpatch_level_2_split_{split}"
        start.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(f"{start}_x.h5", "w") as file:
            file["x"] = np.random.default_rng(len(labels)).integers(0, 256, (len(labels), 96, 96, 3), dtype=np.uint8)
        with h5py.File(f"{start}_y.h5", "w") as file:
            file["y"] = np.array(labels, dtype=np.uint8).reshape(-1, 1, 1, 1)
    return array_truth({split: [str(label) for label in labels] for split, labels in numbers.items()})


def cub200(root: Path, monkeypatch=None) -> Truth:
    classes = ["001.Black_footed_Albatross", "002.Laysan_Albatross", "010.Red_winged_Blackbird"]
    rows = [(c, i, number % 2) for number, (c, i) in enumerate((c, i) for c in range(3) for i in range(4))]
    names = [f"{classes[c]}/{classes[c][4:]}_{i:04d}.jpg" for c, i, _ in rows]
    folder = root / "CUB_200_2011"
    put(folder, "classes.txt", "".join(f"{n} {name}\n" for n, name in enumerate(classes, 1)))
    put(folder, "images.txt", "".join(f"{n} {name}\n" for n, name in enumerate(names, 1)))
    put(folder, "image_class_labels.txt", "".join(f"{n} {c + 1}\n" for n, (c, _, _) in enumerate(rows, 1)))
    put(folder, "train_test_split.txt", "".join(f"{n} {train}\n" for n, (_, _, train) in enumerate(rows, 1)))
    put_images(folder, (f"images/{name}" for name in names))
    return {
        split: {f"images/{name}": classes[c] for name, (c, _, t) in zip(names, rows, strict=True) if t == flag}
        for split, flag in (("train", 1), ("test", 0))
    }


def imagenet(root: Path, monkeypatch=None, folder: str = "imagenet") -> Truth:
    names = {
        s: {f"{s}/{w}/{s}_{w}_{i}.JPEG": w for w in ("n01440764", "n03425413") for i in range(3)}
        for s in ("train", "val")
    }
    for by_name in names.values():
        put_images(root / folder, by_name)
    return names


def imagenette(root: Path, monkeypatch=None) -> Truth:
    return imagenet(root, folder="imagenette2-320")
