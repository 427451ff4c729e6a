"""Every reader of files from elsewhere: a small good file for it, and what it reads of one.

`closed` formats carry checksums: a changed file is refused, or reads as the good one does. `dress` puts the checksums of such a
format right again after a change, as a stranger would who makes a file on purpose.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.store import seal


@dataclasses.dataclass(frozen=True)
class Reader:
    """A reader.

    Attributes:
        make: writes the good file (and what it needs beside it) into an empty folder; returns its path.
        read: what is read of it, comparable by `repr`.
        closed: whether every byte is covered by a checksum.
        dress: from a changed file to one whose checksums fit, None without any.
        library: a C library parses the file: it is run in a process of its own.
    """

    make: Callable[[Path], Path]
    read: Callable[[Path], Any]
    closed: bool = False
    dress: Callable[[bytes], bytes] | None = None
    library: bool = False


READERS: dict[str, Reader] = {}


def reader(name: str, **about: Any) -> Callable[[Callable[[Path], tuple[Path, Any]]], Any]:
    """Registers a function that makes the file and returns its path and what reads it."""

    def take(make: Callable[[Path], tuple[Path, Callable[[Path], Any]]]) -> Any:
        def read(path: Path) -> Any:
            return make.__globals__[f"read_{make.__name__}"](path)

        READERS[name] = Reader(make, read, **about)  # type: ignore[arg-type]
        return make

    return take


def put(folder: Path, name: str, data: bytes | str) -> Path:
    """A file in a folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def png(side: int = 16, mode: str = "RGB", kind: str = "PNG") -> bytes:
    """A small picture."""
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 255, (side, side + 4, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, kind)
    return buffer.getvalue()


# Files of benchkit's own


def sealed_again(data: bytes) -> bytes:
    """A table with a seal that fits, whatever lies before it."""
    import zlib

    end = data.rfind(b'{"checked"')
    body = data[: end if end > 0 else len(data)]
    text = json.dumps(
        {"checked": [], "crc32": zlib.crc32(body), "kind": "targets", "size": len(body), "version": 1}
    ).encode()
    return body + text + seal.MAGIC + len(text).to_bytes(8, "little") + zlib.crc32(text).to_bytes(4, "little")


@reader("table", closed=True)
@reader("table-sealed", dress=sealed_again, library=True)
def table(folder: Path) -> Path:
    from benchkit.store.columns import Ragged
    from benchkit.store.table import write_table

    maps = [np.ones((2, 3), "u1"), np.ones((0, 3), "u1"), np.ones((4, 1), "u1")]
    columns = {"label": np.arange(3), "group": ["x", "ü", "z"], "map": Ragged(np.dtype("u1"), 2, maps)}
    write_table(
        folder / "targets.h5", "targets", ["a/ä.png", "b", "c"], columns, {"w": np.ones(2)}, {"classes": ["p", "q"]}
    )
    return folder / "targets.h5"


def read_table(path: Path) -> Any:
    from benchkit.store.table import Table

    with Table(path, "targets") as found:
        columns = {column: found.read(column) for column in found.columns}
        return found.names, columns, {name: found.read_whole(name) for name in found.whole}, found.meta, found.position


RECORD = {
    "schema": 1, "benchkit": "0", "benchmark": "classification", "family": "classification", "level": "high", "tag": "t",
    "created": "", "conf": {"data": {"name": "scenes"}, "model": {"backbone": {"name": "b"}, "head": {"name": "h"}},
                            "eval": {"ece_bins": 15}},
    "about": {}, "protocol": {"version": 1}, "inputs": {}, "timings": {"eval": 1.5},
    "data": {"dataset_id": "d", "generated": True, "split": "test", "n_items": 3, "skipped": {}, "overlaps": [],
             "trained_on_evaluated": False, "untrained_classes": [], "duplicates": {"across_splits": 0, "two_labels": 0}},
    "backbone": {"name": "b", "weights": "w", "identity": {"preprocess": {}}, "identity_hash": "i"},
    "head": {"name": "h", "log": {"loss": 0.5}},
    "files": {"summaries.json": {"sha256": "0", "bytes": 2}},
    "scores": {"top1": {"value": 0.5, "interval": [0.25, 0.75], "floor": 0.5, "better": "higher", "undefined": 0}},
}  # fmt: skip


def record_sealed_again(data: bytes) -> bytes:
    """A record whose seal fits, where there is a record at all."""
    from benchkit.provenance.record import sealed

    try:
        return json.dumps(sealed(json.loads(data))).encode()
    except (ValueError, TypeError, RecursionError):
        return data


@reader("record")  # its seal is a hash in the text: a fuzzer that sees comparisons finds the one that fits
@reader("record-sealed", dress=record_sealed_again)
def record(folder: Path) -> Path:
    from benchkit.provenance.record import sealed

    return put(folder, "record.json", json.dumps(sealed(RECORD), indent=1))


def read_record(path: Path) -> Any:
    from benchkit.commands import _tables
    from benchkit.experiments.experiment import family_of
    from benchkit.provenance import record
    from benchkit.provenance.identity import canonical

    found = record.read_record(path.parent)
    if found is None:
        return None
    if found.get("scores"):
        family_of(found)
        _tables.render(*_tables.scores_rows([found]), "latex")
        _tables.notes(found)
    return json.dumps(canonical({key: value for key, value in found.items() if key != "seal"}), sort_keys=True)


@reader("doctor")
def doctor(folder: Path) -> Path:
    from benchkit.provenance.record import sealed

    put(folder, "record.json", json.dumps(sealed({**RECORD, "files": {}})))
    put(folder, "summaries.json", '{"top1": 0.5}\n')
    return put(
        folder, "conf.yaml", "data: {name: scenes, side: 32}\nmodel: {backbone: {name: b}}\neval: {ece_bins: 15}\n"
    )


def read_doctor(path: Path) -> Any:
    from benchkit.store.verify import verify_tree

    return verify_tree(path.parent)["damaged"]


# What users write


@reader("conf")
def conf(folder: Path) -> Path:
    return put(folder, "conf.yaml", """title: "A conf"
pretrained_on: [imagenet-1k]
model:
  backbone: {name: color_histogram, bins: 8}
  features: {layers: final}
benchmarks:
  classification:
    data: {side: 32, n_test: 8}
    eval: &e {ece_bins: 15}
""")  # fmt: skip


def read_conf(path: Path) -> Any:
    from benchkit.conf.build import build

    return build(path, "classification", ["data.n_train=8"]).plain()


@reader("benchmark")
def benchmark(folder: Path) -> Path:
    return put(
        folder,
        "mine.yaml",
        "family: classification\ntitle: Mine\ndata: {name: scenes, side: 32}\neval: {ece_bins: 10}\n",
    )


def read_benchmark(path: Path) -> Any:
    from benchkit.conf.build import build

    return build("color_histogram", str(path)).plain()


ENTRY = {
    "benchmark_version": "1.0", "taxonomy_version": "1.0", "dataset_id": "pv1:" + "0" * 64, "split": "test",
    "checkpoint_sha256": "1" * 64, "inference_size": 512,
    "shared_metrics": {"mIoU": 0.5, "iou": {"other": 0.5, "wall": 0.5, "window": None},
                       "window_precision": 0.5, "window_recall": 1},
    "paint_state_metrics": {"painted_coverage_mae": 0.1, "mIoU_full_10class": 0.25},
    "extra": {"floor": {"mIoU": 0.1}, "tag": "t", "model": "m"},
}  # fmt: skip


@reader("submission")
def submission(folder: Path) -> Path:
    return put(folder, "submission.json", json.dumps(ENTRY, indent=1))


def read_submission(path: Path) -> Any:
    from benchkit.submissions.board import rank, rows
    from benchkit.submissions.entry import read_entry

    return rows(rank([("one", read_entry(path))]))


@reader("manifest")
def manifest(folder: Path) -> Path:
    from benchkit.metrics.painting import TAXONOMY_VERSION
    from benchkit.submissions.manifest import split_ids

    frames = [
        {"file": f"f{k}.png", "mask": f"m{k}.png", "sha256": "0" * 64, "mask_sha256": "1" * 64, "split": split,
         "wall_id": f"w{k}", "size": [4, 5]} for k, split in enumerate(("train", "test"))
    ]  # fmt: skip
    ids = split_ids(frames)
    told = {"dataset_id": ids["test"], "taxonomy_version": TAXONOMY_VERSION, "dataset_ids": ids, "frames": frames}
    return put(folder, "data_manifest.json", json.dumps(told))


def read_manifest(path: Path) -> Any:
    from benchkit.datasets._painting_table import read_frames
    from benchkit.submissions import manifest

    return manifest.read_manifest(path), read_frames(path)


# Weights and predictions


@reader("pt", library=True)
def pt(folder: Path) -> Path:
    import torch

    torch.save({"state_dict": {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.ones(2)}}, folder / "w.pt")
    return folder / "w.pt"


def read_pt(path: Path) -> Any:
    from benchkit.backbones._checkpoint import load_state

    state, notes = load_state(path)
    return {name: value.shape for name, value in state.items()}, notes


@reader("safetensors", library=True)
def safetensors(folder: Path) -> Path:
    import torch
    from safetensors.torch import save_file

    save_file({"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2, dtype=torch.float16)}, folder / "w.safetensors")
    return folder / "w.safetensors"


read_safetensors = read_pt


@reader("predictions", library=True)
def predictions(folder: Path) -> Path:
    import h5py

    with h5py.File(folder / "predictions.h5", "w") as file:
        for name in ("a_b", "c_d"):
            group = file.create_group(name)
            group["keypoints0"], group["keypoints1"] = np.ones((3, 2), "f4"), np.ones((4, 2), "f4")
            group["matches0"], group["matching_scores0"] = np.array([0, -1, 3]), np.ones(3, "f4")
    return folder / "predictions.h5"


def read_predictions(path: Path) -> Any:
    from benchkit.heads.solvers import imported

    groups, notes = imported.find(str(path), {"a--b": ["a_b"], "c--d": ["c_d"]})
    found = imported.read(str(path), list(groups.values()), 0.0)
    return notes, {name: column.arrays for name, column in found.items()}  # type: ignore[union-attr]


# Truth


def _stored(path: Path) -> Any:
    from benchkit.datasets._pair_depth import read_depth

    return read_depth(path, 1.0)


@reader("depth-h5", library=True)
def depth_h5(folder: Path) -> Path:
    import h5py

    with h5py.File(folder / "depth.h5", "w") as file:
        file.create_dataset("depth", data=np.ones((6, 5), "f4"), compression="gzip")
    return folder / "depth.h5"


read_depth_h5 = _stored


@reader("depth-npy")
def depth_npy(folder: Path) -> Path:
    np.save(folder / "depth.npy", np.ones((6, 5), "f4"))
    return folder / "depth.npy"


read_depth_npy = _stored


@reader("depth-mat", library=True)
def depth_mat(folder: Path) -> Path:
    from scipy.io import savemat

    savemat(folder / "depth.mat", {"depth": np.ones((6, 5)), "about": {"x": [1, 2], "y": "text"}}, do_compression=True)
    return folder / "depth.mat"


read_depth_mat = _stored


@reader("depth-pgm")
def depth_pgm(folder: Path) -> Path:
    return put(folder, "depth.pgm", b"P5\n# a note\n5 6\n65535\n" + bytes(range(60)))


read_depth_pgm = _stored


@reader("mask-png")
def mask_png(folder: Path) -> Path:
    return put(folder, "mask.png", png(mode="P"))


def read_mask_png(path: Path) -> Any:
    from benchkit.datasets._dense_labels import Labels
    from benchkit.datasets._dense_readers import read_stored

    return Labels(255, n_classes=256).apply(read_stored(path, labels=True))


def _image(kind: str) -> None:
    suffix = {"JPEG": "jpg", "PPM": "ppm"}.get(kind, kind.lower())

    def make(folder: Path) -> Path:
        return put(folder, f"image.{suffix}", png(kind=kind))

    READERS[f"image-{suffix}"] = Reader(make, read_image, library=True)


def read_image(path: Path) -> Any:
    from benchkit.images import decode_exact, decode_fast, inspect

    data = path.read_bytes()
    size = inspect(data)
    fast, exact = decode_fast(data), decode_exact(data)
    assert fast.dtype == exact.dtype == np.uint8
    assert fast.shape == exact.shape == (*size, 3), f"{size} {fast.shape} {exact.shape}"
    return exact


for _kind in ("JPEG", "PNG", "GIF", "TIFF", "WEBP", "BMP", "PPM"):
    _image(_kind)


# Lists


@reader("listed")
def listed(folder: Path) -> Path:
    return put(folder, "list.csv", 'image,label,split\na.png,cat,train\n"b,c.png",dog,test\nd/e.png,cat,test\n')


def read_listed(path: Path) -> Any:
    from benchkit.datasets.listed import Listed, Settings

    found = Listed(Settings(root=str(path.parent)))
    names = [name for split in found.splits or ["test"] for name in found.items(split)]
    return {name: (found.label(name), _inside(path.parent, found.path(name))) for name in names}, found.classes


def _inside(root: Path, path: Path) -> str:
    """A list names files below its folder alone."""
    import os

    plain = os.path.normpath(path)
    assert plain.startswith(f"{root}/"), f"{path} lies outside {root}"
    return plain.removeprefix(str(root))


@reader("frames")
def frames(folder: Path) -> Path:
    return put(folder, "frames.csv", "file,mask,split,wall_id\nf/a.png,m/a.png,train,w1\nf/b.png,m/b.png,test,w2\n")


def read_frames(path: Path) -> Any:
    from benchkit.datasets._painting_table import read_frames

    found = read_frames(path)
    return [
        (_inside(path.parent, path.parent / f.file), _inside(path.parent, path.parent / f.mask), f.split) for f in found
    ]


@reader("triplets")
def triplets(folder: Path) -> Path:
    head = "id,ref_path,left_path,right_path,left_vote,right_vote,votes,split,is_imagenet\n"
    return put(
        folder,
        "data.csv",
        head + "1,r/1.png,a/1.png,b/1.png,0,7,7,test,true\n2,r/2.png,a/2.png,b/2.png,6,0,6,train,false\n",
    )


def read_triplets(path: Path) -> Any:
    from benchkit.datasets.triplets import Settings, Triplets

    found = Triplets(Settings(root=str(path.parent)))
    return [(name, [_inside(path.parent, found.path(view)) for view in found.views(name)], found.target(name))
            for name in found.items("test")]  # fmt: skip


def _pairs(read: str, root: bool = False) -> Callable[[Path], Any]:
    from benchkit.datasets import _pair_colmap, _pair_lists, _pair_table
    from benchkit.datasets._pair_items import Reading

    class Said:
        min_shared, max_pairs = 1, None

    def run(path: Path) -> Any:
        said = Said()
        said.root = str(path.parent)  # type: ignore[attr-defined]
        function = {
            "table": _pair_table.read,
            "superglue": _pair_lists.read_superglue,
            "colmap": _pair_colmap.read,
            "posed": _pair_colmap.read_posed,
        }[read]
        pairs = function(path.parent if root else path, said, Reading())
        for camera in (camera for pair in pairs for camera in pair.cameras):
            _inside(path.parent, path.parent / camera.image)
        return [(pair.name, pair.pose, [camera.K for camera in pair.cameras]) for pair in pairs]

    return run


@reader("pairs")
def pairs(folder: Path) -> Path:
    put(folder, "cameras.csv", "image,fx,fy,cx,cy,width,height,qw,qx,qy,qz,tx,ty,tz\n"
        "a.png,100,100,50,50,100,100,1,0,0,0,0,0,0\nb.png,100,100,50,50,100,100,1,0,0,0,1,0,0\n")  # fmt: skip
    return put(folder, "pairs.csv", "image0,image1,scene\na.png,b.png,s\nb.png,a.png,s\n")


def read_pairs(path: Path) -> Any:
    return _pairs("table")(path)


@reader("cameras")
def cameras(folder: Path) -> Path:
    return pairs(folder).with_name("cameras.csv")


def read_cameras(path: Path) -> Any:
    return _pairs("table")(path.with_name("pairs.csv"))


@reader("superglue")
def superglue(folder: Path) -> Path:
    camera, pose = "100 0 50 0 100 50 0 0 1", "1 0 0 0 0 1 0 0 0 0 1 1 0 0 0 1"
    return put(folder, "pairs.txt", f"a/1.png a/2.png 0 0 {camera} {camera} {pose}\n")


def read_superglue(path: Path) -> Any:
    return _pairs("superglue")(path)


@reader("colmap")
def colmap(folder: Path) -> Path:
    put(folder, "cameras.txt", "1 PINHOLE 100 100 90 90 50 50\n")
    lines = "1 1 0 0 0 0 0 0 1 a.png\n1 1 7 2 2 8\n2 1 0 0 0 1 0 0 1 b.png\n1 1 7 2 2 9\n"
    return put(folder, "images.txt", f"# images\n{lines}")


def read_colmap(path: Path) -> Any:
    return _pairs("colmap", root=True)(path)


@reader("colmap-cameras")
def colmap_cameras(folder: Path) -> Path:
    return colmap(folder).with_name("cameras.txt")


def read_colmap_cameras(path: Path) -> Any:
    return _pairs("colmap", root=True)(path.with_name("images.txt"))


@reader("posed")
def posed(folder: Path) -> Path:
    put(folder, "pairs.txt", "a.png b.png\n")
    pose, camera = "1 0 0 0 1 0 0 0 1 {} 0 0", "PINHOLE 100 100 90 90 50 50"
    return put(folder, "views.txt", "".join(f"{name}.png {pose.format(k)} {camera}\n" for k, name in enumerate("ab")))


def read_posed(path: Path) -> Any:
    return _pairs("posed")(path.with_name("pairs.txt"))


@reader("hpatches")
def hpatches(folder: Path) -> Path:
    for number in range(1, 7):
        put(folder, f"v_a/{number}.ppm", png(kind="PPM"))
        put(folder, f"v_a/H_1_{number}", "1 0 2\n0 1 3\n0 0 1\n")
    return folder / "v_a" / "H_1_2"


def read_hpatches(path: Path) -> Any:
    from benchkit.datasets.hpatches import Settings, build

    found = build(Settings(root=str(path.parents[1])))
    return [found.target(item) for item in found.items("test")]


@reader("pose")
def pose(folder: Path) -> Path:
    return put(folder, "15.txt", "1 0 0 0\n0 1 0 0\n0 0 1 2\n0 0 0 1\n")


def read_pose(path: Path) -> Any:
    from benchkit.datasets.scannet_pairs import _pose

    return _pose(path)


@reader("raw-depth")
def raw_depth(folder: Path) -> Path:
    return put(folder, "depth", np.ones((4, 6), "<f4").tobytes())


def read_raw_depth(path: Path) -> Any:
    from benchkit.datasets._pair_fisheye import looked_up

    camera = ["THIN_PRISM_FISHEYE", *"6433320"[:6], *"0" * 8]
    return looked_up(path, ("x:1", camera), np.diag([3.0, 3.0, 1.0]), (6, 4))


@reader("names")
def names(folder: Path) -> Path:
    return put(folder, "labels.txt", "cat\ndog\n")


def read_names(path: Path) -> Any:
    from benchkit.backbones._imagenet import names_of

    return names_of([str(path)])


@reader("cub")
def cub(folder: Path) -> Path:
    put(folder, "images.txt", "1 001.a/x.jpg\n2 002.b/y.jpg\n")
    put(folder, "image_class_labels.txt", "1 1\n2 2\n")
    put(folder, "classes.txt", "1 001.a\n2 002.b\n")
    put(folder, "train_test_split.txt", "1 1\n2 0\n")
    return folder / "images.txt"


def read_cub(path: Path) -> Any:
    from benchkit.datasets.cub import Settings, build

    found = build(Settings(root=str(path.parent)))
    return [_inside(path.parent, found.path(view)) for split in ("train", "test") for view in found.items(split)]


@reader("spair")
def spair(folder: Path) -> Path:
    told = {"category": "cat", "src_imname": "a.jpg", "trg_imname": "b.jpg", "src_kps": [[1, 2]], "trg_kps": [[3, 4]],
            "trg_bndbox": [0, 0, 10, 10], "src_imsize": [20, 30, 3], "trg_imsize": [20, 30, 3], "truncation": 1}  # fmt: skip
    put(folder, "Layout/large/test.txt", "p\n")
    return put(folder, "PairAnnotation/test/p.json", json.dumps(told))


def read_spair(path: Path) -> Any:
    from benchkit.datasets.spair import Settings, Spair

    root = path.parents[2]
    found = Spair(Settings(root=str(root)))
    return [
        (_inside(root, found.path(view)), found.target("test/p"), found.category("test/p"))
        for view in found.views("test/p")
    ]


@reader("navi")
def navi(folder: Path) -> Path:
    put(folder, "cat/wild_set/images/a.jpg", b"")
    camera = {"q": [1, 0, 0, 0], "t": [0, 0, 1], "focal_length": 100.0}
    told = [{"camera": camera, "filename": "a.jpg", "image_size": [20, 30], "split": "val"}]
    return put(folder, "cat/wild_set/annotations.json", json.dumps(told))


def read_navi(path: Path) -> Any:
    from benchkit.datasets._navi_scenes import scenes

    return [[(photo.view, photo.said()) for photo in scene] for scene in scenes(path.parents[2], "wild_set")]


@reader("npz", library=True)
def npz(folder: Path) -> Path:
    np.savez(folder / "intrinsics.npz", scene0001_00=np.diag([100.0, 100, 1]))
    np.savez_compressed(folder / "test.npz", name=np.array([[1, 0, 3, 5]]))
    return folder / "test.npz"


def read_npz(path: Path) -> Any:
    from benchkit.datasets.scannet_pairs import ScannetPairs, Settings

    found = ScannetPairs(Settings(root=str(path.parent)))
    return found.items("test"), [found.views(item) for item in found.items("test")]


def compressed(name: str, data: bytes) -> bytes:
    """A zip file with one compressed member."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return buffer.getvalue()
