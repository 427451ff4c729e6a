"""Lays out published data whose archives benchkit cannot read as they are, and writes the lists of their splits.

examples:
  python scripts/fetch_parts/convert.py nyuv2 nyu_depth_v2_labeled.mat splits.mat data/nyuv2 --classes classMapping40.mat
  python scripts/fetch_parts/convert.py navi data/navi_v1.5
  python scripts/fetch_parts/convert.py taskonomy train_val_test_tiny.csv data/taskonomy
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import h5py
import numpy as np
from PIL import Image


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="convert", description=__doc__, formatter_class=how)
    kinds = parser.add_subparsers(dest="kind", required=True)
    nyu = kinds.add_parser("nyuv2")
    nyu.add_argument("labeled", type=Path, help="nyu_depth_v2_labeled.mat")
    nyu.add_argument("splits", type=Path, help="splits.mat: trainNdxs and testNdxs")
    nyu.add_argument("--classes", type=Path, help="classMapping40.mat: mapClass, the 40 classes of NYU's 894")
    navi = kinds.add_parser("navi")
    taskonomy = kinds.add_parser("taskonomy")
    taskonomy.add_argument("splits", type=Path, help="train_val_test_tiny.csv: id,train,val,test")
    for each in (nyu, navi, taskonomy):
        each.add_argument("root", type=Path, help="where the data lie, or shall lie")
    given = parser.parse_args(argv)
    given.root.mkdir(parents=True, exist_ok=True)
    if given.kind == "nyuv2":
        nyuv2(given.labeled, given.splits, given.classes, given.root)
    elif given.kind == "navi":
        navi_lists(given.root)
    else:
        taskonomy_lists(given.splits, given.root)
    return 0


def nyuv2(labeled: Path, splits: Path, classes: Path | None, root: Path) -> None:
    """images/0001.png, depths/0001.png (16 bits, millimetres), labels40/0001.png where `classes` is given; lists.

    MATLAB's first axis is the last of HDF5's: images (N, 3, width, height), depths and labels (N, width, height).
    """
    from scipy.io import loadmat

    mapped = None if classes is None else np.append(0, loadmat(classes)["mapClass"].ravel()).astype(np.uint8)
    for name in ("images", "depths", *(["labels40"] if mapped is not None else [])):
        (root / name).mkdir(exist_ok=True)
    with h5py.File(labeled, "r") as file:
        for number in range(len(file["images"])):
            stem = f"{number + 1:04d}.png"
            Image.fromarray(file["images"][number].transpose(2, 1, 0)).save(root / "images" / stem)
            millimetres = np.rint(file["depths"][number].T * 1000.0).astype(np.uint16)
            Image.fromarray(millimetres).save(root / "depths" / stem)
            if mapped is not None:
                Image.fromarray(mapped[file["labels"][number].T]).save(root / "labels40" / stem)
    known = loadmat(splits)
    for split in ("train", "test"):
        write_list(root / f"{split}.txt", [f"{number:04d}" for number in known[f"{split}Ndxs"].ravel()])


def navi_lists(root: Path) -> None:
    """train.txt and val.txt of the photos of multi-view scenes and those in the wild, from their annotations.json."""
    found = defaultdict(set)
    for pattern in ("*/multiview*/annotations.json", "*/wild_set/annotations.json"):
        for path in root.glob(pattern):
            for each in json.loads(path.read_text(encoding="utf-8")):
                image = path.parent / "images" / each["filename"]
                found[each["split"]].add(image.relative_to(root).as_posix())
    for split in ("train", "val"):
        write_list(root / f"{split}.txt", found[split])


def taskonomy_lists(splits: Path, root: Path) -> None:
    """train.txt, val.txt and test.txt of the buildings that are there."""
    there = {path.name for path in (root / "rgb" / "taskonomy").iterdir() if path.is_dir()}
    with open(splits, newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    for split in ("train", "val", "test"):
        write_list(root / f"{split}.txt", [r["id"] for r in rows if r[split].strip() == "1" and r["id"] in there])


def write_list(path: Path, names: Iterable[str]) -> None:
    """A name a line, in name order."""
    listed = sorted(names)
    path.write_text("".join(f"{name}\n" for name in listed), encoding="utf-8")
    print(f"{path}: {len(listed):,} lines", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
