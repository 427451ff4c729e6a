"""The shipped instances of the dense families: small copies in the layouts that their archives have, or get."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import numpy as np
import pytest
import tiny_sets
from PIL import Image
from scipy.io import savemat

from benchkit.conf.build import build
from benchkit.conf.find import configs_dir, find_benchmark
from benchkit.datasets.dense_folder import DenseFolder
from benchkit.errors import UsageError

H, W = 24, 32  # of tiny_sets' pictures
PARTS = Path(__file__).parents[1] / "scripts" / "fetch_parts"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home of data."""
    monkeypatch.setenv("BENCHKIT_DATA", str(tmp_path))
    return tmp_path


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PARTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def labels(*values: int, dtype: Any = np.uint8) -> np.ndarray:
    return np.resize(np.array(values, dtype), (H, W))


def put(path: Path, values: np.ndarray, mode: str | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(values, mode) if mode else Image.fromarray(values)
    if mode == "P":
        image.putpalette([k * 5 % 256 for k in range(768)])
    image.save(path)


def dataset(name: str) -> DenseFolder:
    """The instance's data set, found where it is looked for."""
    conf = build("color_histogram", name)
    settings = conf.data.settings
    settings.train_split = "train" if settings.train_split == "auto" else settings.train_split
    return conf.data.component.build(settings)


def read(name: str) -> tuple[DenseFolder, dict[str, dict[str, np.ndarray]]]:
    """The data set and the truth of its evaluated items, of which none is at fault; train items are others."""
    found = dataset(name)
    items, train = (found.items(split) for split in (found.settings.split, found.settings.train_split))
    assert train
    assert not set(items) & set(train)
    assert {found.examine(item) for item in (*items, *train)} == {""}
    return found, {item: found.target(item) for item in items}


class TestVoc:
    @pytest.fixture(autouse=True)
    def copy(self, home: Path) -> None:
        root = home / "VOCdevkit/VOC2012"
        for k, stem in enumerate(("2007_000032", "2007_000033", "2008_000001")):
            tiny_sets.put_images(root, [f"JPEGImages/{stem}.jpg"])
            put(root / f"SegmentationClass/{stem}.png", labels(0, k + 1, 20, 255), "P")
        tiny_sets.put_images(root, ["JPEGImages/2008_000002.jpg"])  # most photos have no mask
        tiny_sets.put(root, "ImageSets/Segmentation/train.txt", "2007_000032\n2008_000001\n")
        tiny_sets.put(root, "ImageSets/Segmentation/val.txt", b"2007_000033\r\n")

    def test_semantic(self):
        found, truth = read("voc2012")
        assert found.meta()["classes"][:3] == ["background", "aeroplane", "bicycle"]
        assert len(found.meta()["classes"]) == 21
        assert truth.keys() == {"JPEGImages/2007_000033.jpg"}
        assert np.array_equal(truth["JPEGImages/2007_000033.jpg"]["mask"], labels(0, 2, 20, 255))

    def test_void_is_no_foreground(self):
        found, truth = read("voc2012_binary")
        assert found.meta() == {"classes": ["background", "foreground"], "ignore": 255}
        assert np.array_equal(truth["JPEGImages/2007_000033.jpg"]["mask"], labels(0, 1, 1, 255))

    def test_fetch_data_counts_it(self, home, capsys):
        assert script("data").main(["voc2012"]) == 0
        assert "val 1, train 2 items, 21 classes" in capsys.readouterr().out


def test_ade20k(home):
    root = home / "ADEChallengeData2016"
    for split, stem in (("training", "ADE_train_00000001"), ("validation", "ADE_val_00000001")):
        tiny_sets.put_images(root, [f"images/{split}/{stem}.jpg"])
        put(root / f"annotations/{split}/{stem}.png", labels(0, 1, 150))
    found, truth = read("ade20k")
    mask = truth["images/validation/ADE_val_00000001.jpg"]["mask"]
    assert np.array_equal(mask, labels(255, 0, 149))
    assert (found.classes[0], found.classes[149]) == ("wall", "flag")
    put(root / "annotations/validation/ADE_val_00000001.png", labels(0, 151))
    assert "unknown label, 151" in found.examine("images/validation/ADE_val_00000001.jpg")


def test_cityscapes(home):
    root = home / "cityscapes"
    for split, city in (("train", "aachen"), ("val", "frankfurt"), ("val", "lindau")):
        stem = f"{city}/{city}_000000_000019"
        tiny_sets.put_images(root, [f"leftImg8bit/{split}/{stem}_leftImg8bit.png"])
        put(root / f"gtFine/{split}/{stem}_gtFine_labelIds.png", labels(0, 7, 8, 33, 9, 26))
        put(root / f"gtFine/{split}/{stem}_gtFine_color.png", np.zeros((H, W, 4), np.uint8))
        put(root / f"gtFine/{split}/{stem}_gtFine_instanceIds.png", labels(26001, dtype=np.uint16))
        tiny_sets.put(root, f"gtFine/{split}/{stem}_gtFine_polygons.json", "{}")
    found, truth = read("cityscapes")
    assert sorted(truth) == [f"leftImg8bit/val/{c}/{c}_000000_000019_leftImg8bit.png" for c in ("frankfurt", "lindau")]
    assert np.array_equal(next(iter(truth.values()))["mask"], labels(255, 0, 1, 18, 255, 13))
    assert [found.classes[k] for k in (0, 1, 13, 18)] == ["road", "sidewalk", "car", "bicycle"]
    mapped = sorted(int(new) for new in found.settings.label_map.values() if new != "ignore")
    assert mapped == list(range(19))
    assert sorted(int(old) for old in found.settings.label_map) == list(range(34))


def test_camvid(home):
    for split, stem in (("train", "0001TP_006690"), ("val", "0016E5_07959"), ("test", "Seq05VD_f00000")):
        tiny_sets.put_images(home / "CamVid", [f"{split}/{stem}.png"])
        put(home / f"CamVid/{split}annot/{stem}.png", labels(0, 10, 11))
    found, truth = read("camvid")
    assert np.array_equal(truth["test/Seq05VD_f00000.png"]["mask"], labels(0, 10, 255))
    assert (found.classes[0], found.classes[10]) == ("sky", "bicyclist")


class TestNyu:
    @pytest.fixture(autouse=True)
    def copy(self, home: Path) -> dict[str, np.ndarray]:
        """The labeled file as MATLAB writes it, converted by the script that the instances name."""
        pictures = np.stack([tiny_sets.picture(k) for k in range(3)])
        depths = np.random.default_rng(0).uniform(0.7, 9.9, (3, H, W)).astype(np.float32)
        depths[2] = 2.5  # a wall straight ahead
        marked = np.stack([labels(0, 5, 894, dtype=np.uint16)] * 3)
        with h5py.File(home / "labeled.mat", "w") as file:
            file["images"] = pictures.transpose(0, 3, 2, 1)
            file["depths"], file["labels"] = depths.transpose(0, 2, 1), marked.transpose(0, 2, 1)
        savemat(home / "splits.mat", {"trainNdxs": np.array([[1], [2]]), "testNdxs": np.array([[3]])})
        classes = np.full((1, 894), 40)
        classes[0, 4] = 7
        savemat(home / "classMapping40.mat", {"mapClass": classes})
        given = ["nyuv2", "labeled.mat", "splits.mat", "nyuv2", "--classes", "classMapping40.mat"]
        script("convert").main([given[0], *(str(home / name) if name[0] != "-" else name for name in given[1:])])
        return {"pictures": pictures, "depths": depths}

    def test_depth(self, copy):
        found, truth = read("nyuv2_depth")
        assert truth.keys() == {"images/0003.png"}
        assert np.array_equal(found.image("images/0003.png"), copy["pictures"][2])
        assert np.allclose(truth["images/0003.png"]["depth"], 2.5)
        assert np.allclose(found.target("images/0002.png")["depth"], copy["depths"][1], atol=0.0006)

    def test_normals(self):
        found, truth = read("nyuv2_normals")
        assert found.meta()["normals_from"] == "NYUv2's filled-in depth (depth: planes fitted to 5 x 5 pixels)"
        assert np.allclose(truth["images/0003.png"]["normals"], (0, 0, -1), atol=1e-4)

    def test_other_normals(self, home):
        vectors = np.zeros((H, W, 3), np.float32)
        vectors[..., 2] = -1
        (home / "nyuv2/normals").mkdir()
        for stem in ("0001", "0002", "0003"):
            np.save(home / f"nyuv2/normals/{stem}.npy", vectors)
        said = [
            "data.targets=normals",
            "data.intrinsics=none",
            "data.target_scale=none",
            "data.normals_from=Ladicky et al. 2014",
        ]
        conf = build("color_histogram", "nyuv2_normals", said)
        found = conf.data.component.build(conf.data.settings)
        assert found.examine(found.items("test")[0]) == ""
        assert found.meta() == {"normals_from": "Ladicky et al. 2014"}

    def test_semantic(self):
        found, truth = read("nyuv2_semantic40")
        assert np.array_equal(truth["images/0003.png"]["mask"], labels(255, 6, 39))
        assert (found.classes[6], found.classes[39]) == ("table", "other prop")


def test_navi(home):
    root = home / "navi_v1.5"
    for scene, splits in (
        ("duck/multiview-00-pixel_5", "train val"),
        ("keywest/wild_set", "val"),
        ("duck/video-00-x", "val"),
    ):
        said = []
        for number, split in enumerate(splits.split()):
            tiny_sets.put_images(root, [f"{scene}/images/{number:03d}.jpg"])
            millimetres = np.where(labels(0, 1) > 0, 500.0, np.inf)
            put(root / f"{scene}/depth/{number:03d}.png", np.rint(655350 / millimetres).astype(np.uint16))
            put(root / f"{scene}/masks/{number:03d}.png", labels(0, 255))
            said.append({"filename": f"{number:03d}.jpg", "split": split})
        tiny_sets.put(root, f"{scene}/annotations.json", json.dumps(said))
    script("convert").main(["navi", str(root)])
    found, truth = read("navi_depth")
    assert sorted(truth) == ["duck/multiview-00-pixel_5/images/001.jpg", "keywest/wild_set/images/000.jpg"]
    assert [found.group(item) for item in sorted(truth)] == [item.rpartition("/")[0] for item in sorted(truth)]
    for fields in truth.values():
        assert np.allclose(fields["depth"], labels(0, 1) * 0.5, rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "domain"),
    [
        ("taskonomy_edges", "edge_texture"),
        ("taskonomy_keypoints2d", "keypoints2d"),
        ("taskonomy_occlusion", "edge_occlusion"),
    ],
)
def test_taskonomy(home, name, domain):
    root = home / "taskonomy"
    for building in ("allensville", "ihlen"):
        tiny_sets.put_images(root, [f"rgb/taskonomy/{building}/point_0_view_0_domain_rgb.png"])
        put(
            root / f"{domain}/taskonomy/{building}/point_0_view_0_domain_{domain}.png",
            labels(0, 65535, 655, dtype=np.uint16),
        )
    tiny_sets.put(home, "tiny.csv", "id,train,val,test\nallensville,1,0,0\nihlen,0,0,1\nabsent,0,0,1\n")
    script("convert").main(["taskonomy", str(home / "tiny.csv"), str(root)])
    found, truth = read(name)
    assert np.allclose(
        truth["rgb/taskonomy/ihlen/point_0_view_0_domain_rgb.png"]["map"][0, :3], (0, 1, 0.01), atol=1e-4
    )
    assert found.group("rgb/taskonomy/ihlen/point_0_view_0_domain_rgb.png") == "rgb/taskonomy/ihlen"


def test_bsds500(home):
    root = home / "BSR/BSDS500/data"
    for split, stem, people in (("train", "100075", 1), ("val", "101085", 5), ("test", "100007", 5)):
        tiny_sets.put_images(root, [f"images/{split}/{stem}.jpg"])
        cells = np.empty((1, people), object)
        for k in range(people):
            drawn = np.zeros((H, W), np.uint8)
            drawn[k] = 1
            cells[0, k] = {"Segmentation": labels(1, 2, dtype=np.uint16), "Boundaries": drawn}
        tiny_sets.put_mat(root, f"groundTruth/{split}/{stem}.mat", groundTruth=cells)
        tiny_sets.put(root, f"images/{split}/Thumbs.db", b"x")
    found, truth = read("bsds500")
    assert found.stacks == found.maps == ("boundaries",)
    boundaries = truth["images/test/100007.jpg"]["boundaries"]
    assert boundaries.dtype == np.uint8
    assert boundaries.shape == (5, H, W)
    assert [each.any(axis=1).argmax() for each in boundaries] == [0, 1, 2, 3, 4]
    assert boundaries.sum() == 5 * W
    assert found.target("images/train/100075.jpg")["boundaries"].shape == (1, H, W)
    assert len(found.items("train+val")) == 2


@pytest.mark.parametrize(
    "name",
    sorted(p.stem for p in (configs_dir() / "benchmarks").glob("*.yaml") if "name: dense_folder" in p.read_text()),
)
def test_without_data_it_says_how_to_get_them(name, home):
    conf = build("color_histogram", name)
    with pytest.raises(UsageError, match=r"data\.root=DIR"):
        conf.data.component.build(conf.data.settings)
    said = find_benchmark(name).layer.values
    assert "http" in said["obtain"]
    assert said["licence"].strip()


@pytest.mark.parametrize(("name", "count"), [
    ("voc", 21), ("ade20k", 150), ("cityscapes", 19), ("camvid", 11), ("coco_stuff", 171), ("nyu40", 40),
])  # fmt: skip
def test_label_lists(name, count):
    listed = (configs_dir() / "labels" / f"{name}.txt").read_text().splitlines()
    assert len(listed) == len(set(listed)) == count
    assert all(each == each.strip().lower() and each for each in listed)
