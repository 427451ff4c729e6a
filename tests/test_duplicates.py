"""The same photo twice: what is found, what is not, and what it does to the scores."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from benchkit import registry
from benchkit.commands import doctor
from benchkit.commands import eval as eval_command
from benchkit.duplicates import alignment, blocks, candidates
from benchkit.duplicates.agreement import agreement
from benchkit.duplicates.find import Copies, find_copies
from benchkit.duplicates.groups import counts, flagged_items, make_groups
from benchkit.duplicates.pictures import MIRROR, read_pictures
from benchkit.duplicates.places import Place, Places, read_places
from benchkit.errors import RunError
from benchkit.eval import evaluate
from benchkit.export import export
from benchkit.export.decoding import thumbnail
from benchkit.provenance.record import read_record
from benchkit.store.columns import Ragged
from benchkit.store.outputs import Outputs
from benchkit.store.table import Table, write_table

SIDE = 96  # scenes of one side are rendered once


def jpeg(image: Image.Image, quality: int = 90) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def cropped(image: Image.Image, left: float, top: float, right: float, bottom: float) -> Image.Image:
    width, height = image.size
    return image.crop(
        (round(width * left), round(height * top), width - round(width * right), height - round(height * bottom))
    )


def half(image: Image.Image) -> Image.Image:
    return image.resize((image.width // 2, image.height // 2), Image.Resampling.BICUBIC)


COPIES: dict[str, tuple[str, Callable[[Image.Image], bytes]]] = {  # how it is made, and what it is called
    "quality": ("re-encoded", lambda image: jpeg(image, 50)),
    "half": ("re-encoded", lambda image: jpeg(half(image))),
    "both": ("re-encoded", lambda image: jpeg(half(image), 50)),
    "bright": ("re-encoded", lambda image: jpeg(ImageEnhance.Brightness(image).enhance(1.2))),
    "grey": ("re-encoded", lambda image: jpeg(image.convert("L"))),
    "mirrored": ("mirrored", lambda image: jpeg(ImageOps.mirror(image))),
    "mirrored_half": ("mirrored", lambda image: jpeg(half(ImageOps.mirror(image)), 50)),
    "crop": ("similar", lambda image: jpeg(cropped(image, 0.05, 0.05, 0.05, 0.05))),
    "corner": ("similar", lambda image: jpeg(cropped(image, 0.05, 0.05, 0, 0))),
}


class Folder:
    """An image folder with splits, and what was planted in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.planted: dict[tuple[str, str], str] = {}

    def write(self, name: str, data: bytes) -> str:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return name

    def plant(self, original: str, copy: str, kind: str, make: Callable[[Image.Image], bytes] | None = None) -> None:
        data = (self.root / original).read_bytes()
        self.write(copy, data if make is None else make(Image.open(io.BytesIO(data)).convert("RGB")))
        self.planted[min(original, copy), max(original, copy)] = kind


@pytest.fixture(scope="module")
def scenes() -> list[Image.Image]:
    """30 scenes that look like photographs of things."""
    component = registry.find("datasets", "scenes")
    dataset = component.build(component.settings(side=SIDE))
    return [Image.fromarray(dataset.image(f"train/{i:06d}")) for i in range(30)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, scenes: list[Image.Image]) -> Folder:
    """Two classes of photos; each kind of copy of a test photo in train, and copies within the splits and under two labels."""
    made = Folder(tmp_path_factory.mktemp("photos"))
    for number, image in enumerate(scenes):
        split, label = "train" if number < 12 else "test", ("cat", "dog")[number % 2]
        shown = image if label == "cat" else ImageEnhance.Brightness(image).enhance(0.7)
        made.write(f"{split}/{label}/{number:02d}.jpg", jpeg(shown, 95))
    for number, (name, (kind, make)) in enumerate(COPIES.items(), start=12):
        label = ("cat", "dog")[number % 2]
        made.plant(f"test/{label}/{number:02d}.jpg", f"train/{label}/{name}.jpg", kind, make)
    made.plant("test/dog/21.jpg", "train/dog/bytes.jpg", "bytes")  # across splits
    made.plant("test/cat/22.jpg", "test/dog/label.jpg", "bytes")  # under two labels
    made.plant("test/dog/23.jpg", "test/dog/again.jpg", "mirrored", COPIES["mirrored"][1])  # within test
    made.plant(
        "train/cat/00.jpg", "train/dog/train_label.jpg", "re-encoded", COPIES["half"][1]
    )  # two labels within train
    return made


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory, folder: Folder) -> Path:
    """The folder exported as a classification by the colour histogram."""
    root = tmp_path_factory.mktemp("outputs")
    made(root, "classification", f"data.root={folder.root}", "data.on_duplicate=keep", "data.size=64", tag="photos")
    return root


def made(root: Path, benchmark: str, *arguments: str, tag: str, **options: Any) -> Path:
    end = export("color_histogram", benchmark, arguments=arguments, outputs=root, tag=tag, **options)[0]
    if isinstance(end, Exception):
        raise end
    return Outputs(root).tag(benchmark, tag)


@pytest.fixture
def tag(outputs: Path, tmp_path: Path) -> Path:
    """A copy of the export in an outputs folder of its own; its files may be replaced."""
    shutil.copytree(outputs, tmp_path / "outputs", copy_function=shutil.copyfile)
    return Outputs(tmp_path / "outputs").tag("classification", "photos")


def thumbs_file(path: Path, pictures: dict[str, np.ndarray]) -> Table:
    """A thumbs.h5 of pictures in memory."""
    names = sorted(pictures)
    arrays = [thumbnail(pictures[name]) for name in names]
    write_table(path, "thumbs", names, {"thumb": Ragged(np.dtype(np.uint8), 1, arrays)})
    return Table(path, "thumbs")


class TestWhatIsFound:
    def test_all_that_was_planted_and_nothing_else(self, outputs: Path, folder: Folder):
        copies = find_copies(Outputs(outputs).tag("classification", "photos"))
        assert copies.pairs == folder.planted
        assert copies.left_out == []

    def test_without_features_too(self, tag: Path, folder: Folder):
        only_index(tag)
        copies = find_copies(tag)
        assert copies.pairs == folder.planted
        assert any("features were not compared" in said for said in copies.left_out)
        assert copies.looked_at["cosine"] == 0

    def test_where_and_under_which_labels(self, outputs: Path):
        tag = Outputs(outputs).tag("classification", "photos")
        groups = groups_of(tag)
        found = Counter((group.where, group.two_labels) for group in groups)
        assert found == {
            ("across splits", False): len(COPIES) + 1,
            ("within test", True): 1,
            ("within test", False): 1,
            ("within train", True): 1,
        }
        labels = next(group for group in groups if group.where == "within test" and group.two_labels)
        assert labels.views == ["test/cat/22.jpg", "test/dog/label.jpg"]
        assert labels.labels == ["cat", "dog"]
        assert counts(groups)["groups"] == len(COPIES) + 4
        assert counts(groups)["mirrored"] == 3

    def test_several_copies_of_one_photo_are_one_group(self, tmp_path: Path, scenes: list[Image.Image]):
        made_of = Folder(tmp_path / "photos")
        for number, image in enumerate(scenes[:6]):
            made_of.write(f"{('cat', 'dog')[number % 2]}/{number}.jpg", jpeg(image, 95))
        for name in ("quality", "mirrored", "crop", "half"):
            made_of.plant("cat/0.jpg", f"cat/{name}.jpg", *COPIES[name])
        root = tmp_path / "outputs"
        groups = groups_of(made(root, "retrieval", f"data.root={made_of.root}", "data.size=64", tag="t"))
        assert [group.views for group in groups] == [
            ["cat/0.jpg", "cat/crop.jpg", "cat/half.jpg", "cat/mirrored.jpg", "cat/quality.jpg"]
        ]
        assert groups[0].kinds == ["re-encoded", "mirrored", "similar"]


def groups_of(tag: Path) -> list[Any]:
    copies = find_copies(tag)
    return make_groups(copies, read_places(tag, read_record(tag) or {}, copies.views))


def only_index(tag: Path) -> None:
    """features.h5 as of an export with dense keys only: an index into parts instead of rows."""
    path = tag / "features.h5"
    with Table(path, "features") as table:
        names, images = table.names, table.read("image")
    meta = {"identity": {}, "identity_hash": "", "keys": ["patch@final"], "parts": ["part-0.h5"]}
    path.unlink()
    write_table(
        path, "features", names, {"image": images, "index/patch@final": np.zeros((len(names), 2), int)}, meta=meta
    )


class TestWhatIsNot:
    def test_scenes(self, tmp_path: Path):
        tag = made(tmp_path, "classification", f"data.side={SIDE}", "data.n_train=30", "data.n_test=30", tag="scenes")
        copies = find_copies(tag)
        assert copies.pairs == {}
        assert copies.left_out == []
        assert copies.looked_at["hash"] + copies.looked_at["cosine"] > 0

    def test_small_scenes(self, tmp_path: Path):
        component = registry.find("datasets", "scenes")
        dataset = component.build(component.settings(side=32))
        bare(tmp_path, {f"{i:03d}": dataset.image(f"test/{i:06d}") for i in range(80)})
        copies = find_copies(tmp_path)
        assert copies.pairs == {}
        assert copies.looked_at["hash"] > 0

    @pytest.mark.slow
    @pytest.mark.parametrize("conf", ["color_histogram", "efficientnet_lite0", "efficientnet_lite0+random"])
    def test_scenes_of_every_model(self, tmp_path: Path, conf: str):
        name, _, random = conf.partition("+")
        end = export(name, "classification", outputs=tmp_path, tag="scenes", random=bool(random))[0]
        assert not isinstance(end, Exception)
        assert find_copies(end.folder).pairs == {}

    def test_collapsed_features_flag_nothing(self, tag: Path, folder: Folder):
        """All features nearly equal: every pair has a cosine of 1, and the thumbnails decide."""
        path = tag / "features.h5"
        with Table(path, "features") as table:
            names, images, meta = table.names, table.read("image"), table.meta
        rng = np.random.default_rng(0)
        rows = (1000 + rng.normal(size=(len(names), 1)) * np.ones((1, 400))).astype(np.float32)
        path.unlink()
        write_table(path, "features", names, {"image": images, f"features/{meta['keys'][0]}": rows}, meta=meta)
        copies = find_copies(tag)
        assert copies.looked_at["cosine"] > 100
        assert copies.pairs == folder.planted

    def test_pictures_without_structure(self, tmp_path: Path):
        """Blank pictures agree with each other in everything; only bytes say which are copies."""
        pictures = {f"{n}": np.full((40, 40, 3), 100 + n, np.uint8) for n in range(5)}
        bare(tmp_path, pictures)
        copies = find_copies(tmp_path)
        assert copies.pairs == {}
        assert any(said.startswith("5 views show nothing but one tone") for said in copies.left_out)

    def test_digits_are_no_copies_of_each_other(self, tmp_path: Path):
        """Eight pixels of a side hold so little that many agree by chance: such pictures have to agree almost exactly."""
        digits = pytest.importorskip("sklearn.datasets").load_digits().images[:200]
        grown = [np.asarray(Image.fromarray((d * 15.9).astype(np.uint8)).resize((28, 28))) for d in digits]
        pictures = {f"{i:03d}": np.repeat(d[:, :, None], 3, axis=2) for i, d in enumerate(grown)}
        bare(tmp_path, pictures)
        copies = find_copies(tmp_path)
        assert len(copies.pairs) <= 3
        assert any("have so little detail" in said for said in copies.left_out)


def bare(folder: Path, pictures: dict[str, np.ndarray]) -> None:
    """thumbs.h5 and features.h5 of pictures, without an export."""
    thumbs_file(folder / "thumbs.h5", pictures).close()
    names = sorted(pictures)
    images = [hashlib.sha256(f"image {name}".encode()).hexdigest() for name in names]
    write_table(folder / "features.h5", "features", names, {"image": images}, meta={"keys": []})


class TestFilesThatAreMissingOrDamaged:
    def test_no_thumbs(self, tag: Path, folder: Folder):
        (tag / "thumbs.h5").unlink()
        copies = find_copies(tag)
        assert copies.pairs == {pair: kind for pair, kind in folder.planted.items() if kind == "bytes"}
        assert any("only equal bytes" in said for said in copies.left_out)

    def test_a_flipped_byte_in_a_thumbnail_names_its_view(self, tag: Path, capsys: Any):
        path = tag / "thumbs.h5"
        with Table(path) as table:
            thumb = np.asarray(table.item("thumb", table.position["test/cat/14.jpg"])).tobytes()
        data = bytearray(path.read_bytes())
        data[data.index(thumb) + 30] ^= 1
        path.write_bytes(data)
        assert doctor.main(["--data", str(tag)]) == 3
        assert "test/cat/14.jpg" in capsys.readouterr().err

    def test_a_thumbnail_that_is_no_picture_names_its_view(self, tag: Path):
        path = tag / "thumbs.h5"
        with Table(path) as table:
            arrays = table.read("thumb")
            names, row = table.names, table.position["test/cat/14.jpg"]
        arrays[row] = arrays[row][: len(arrays[row]) // 2]
        path.unlink()
        write_table(path, "thumbs", names, {"thumb": Ragged(np.dtype(np.uint8), 1, arrays)})
        with pytest.raises(RunError, match=r"thumbs\.h5: the thumbnail of 'test/cat/14\.jpg' is damaged"):
            find_copies(tag)

    def test_a_view_without_thumbnail(self, tag: Path):
        path = tag / "thumbs.h5"
        with Table(path) as table:
            arrays, names = table.read("thumb")[1:], table.names[1:]
            gone = table.names[0]
        path.unlink()
        write_table(path, "thumbs", names, {"thumb": Ragged(np.dtype(np.uint8), 1, arrays)})
        with pytest.raises(RunError, match=gone):
            find_copies(tag)

    def test_a_folder_copied_alone(self, tag: Path, tmp_path: Path):
        """Without the train targets the labels of train are unknown, and it says so; splits are known."""
        alone = tmp_path / "elsewhere" / "photos"
        shutil.copytree(tag, alone)
        copies = find_copies(alone)
        places = read_places(alone, read_record(alone) or {}, copies.views)
        assert any("labels of train are not known" in said for said in places.left_out)
        groups = make_groups(copies, places)
        within = Counter(group.where for group in groups)
        assert within == {"across splits": len(COPIES) + 1, "within test": 2, "within train": 1}
        assert [g.two_labels for g in groups if g.where == "within train"] == [False]

    def test_targets_of_another_train_split_are_not_taken(self, tag: Path):
        record = read_record(tag) or {}
        path = Outputs(tag.parents[2]).targets(record["data"]["train_targets"])
        test = Outputs(tag.parents[2]).targets(record["data"]["targets"])
        path.unlink()
        shutil.copyfile(test, path)
        assert read_places(tag, record, []).left_out


class TestPlaces:
    def test_items_of_several_views(self):
        """A view of several items is no copy; an item whose views are copies of another's is; leaks flag by any view."""
        items = {"a": ["ref", "1", "2"], "b": ["ref", "3", "4"], "c": ["ref", "1m", "2"], "d": ["x", "5", "6"]}
        views = {
            v: [Place("test", item, None) for item, of in items.items() if v in of]
            for v in ("ref", "1", "1m", "2", "3", "4", "x", "5", "6")
        }
        views["y"] = [Place("train", "t", None)]
        places = Places("test", items, views, [])
        groups = make_groups(Copies(list(views), {("1", "1m"): "mirrored", ("5", "y"): "bytes"}), places)
        assert [(g.views, g.where) for g in groups] == [(["5", "y"], "across splits"), (["1", "1m"], "within test")]
        assert flagged_items(groups, places) == {"c": "copy of a (mirrored)", "d": "across splits: y (bytes)"}

    def test_views_of_one_item_may_be_alike(self):
        places = Places("test", {"a": ["r", "l"]}, {v: [Place("test", "a", None)] for v in "rl"}, [])
        assert make_groups(Copies(["r", "l"], {("l", "r"): "re-encoded"}), places) == []
        assert len(make_groups(Copies(["r", "l"], {("l", "r"): "bytes"}), places)) == 1

    def test_one_view_in_two_splits_and_under_two_labels(self):
        of = {
            "v": [Place("test", "a", "cat"), Place("train", "b", "cat")],
            "w": [Place("test", "c", "cat"), Place("test", "d", "dog")],
        }
        places = Places("test", {"a": ["v"], "c": ["w"], "d": ["w"]}, of, [])
        groups = make_groups(Copies(["v", "w"]), places)
        assert [(g.views, g.where, g.two_labels) for g in groups] == [
            (["v"], "across splits", False), (["w"], "within test", True)]  # fmt: skip
        assert flagged_items(groups, places) == {
            "a": "across splits: v (bytes)", "c": "two labels: w (bytes)", "d": "two labels: w (bytes)"}  # fmt: skip


class TestRecord:
    @pytest.fixture
    def scored(self, tag: Path) -> Path:
        evaluate("classification", "photos", outputs=tag.parents[2])
        return tag

    def expected(self, tag: Path) -> tuple[set[str], float]:
        """The flagged items as they were planted, and top-1 without them, by hand."""
        flagged = {f"test/{('cat', 'dog')[n % 2]}/{n:02d}.jpg" for n in range(12, 12 + len(COPIES))}
        flagged |= {"test/dog/21.jpg", "test/cat/22.jpg", "test/dog/label.jpg", "test/dog/again.jpg"}
        flagged -= {"test/dog/again.jpg"}
        flagged |= {"test/dog/again.jpg"} if "test/dog/again.jpg" > "test/dog/23.jpg" else {"test/dog/23.jpg"}
        with Table(tag / "results.h5") as results:
            right = [v for n, v in zip(results.names, results.read("top1"), strict=True) if n not in flagged]
        return flagged, sum(right) / len(right)

    def test_scores_without(self, scored: Path, capsys: Any):
        before = read_record(scored) or {}
        assert doctor.main(["--data", str(scored)]) == 0
        out = capsys.readouterr().out
        after = read_record(scored) or {}  # its seal fits
        flagged, top1 = self.expected(scored)
        assert set(after["flagged"]["items"]) == flagged
        assert after["flagged"]["groups"] == len(COPIES) + 4
        assert after["flagged"]["scores_without"]["top1"] == pytest.approx(top1)
        assert set(after["flagged"]["scores_without"]) == set(after["scores"])
        assert after["flagged"]["items"]["test/dog/21.jpg"] == "across splits: train/dog/bytes.jpg (bytes)"
        assert {k: v for k, v in after.items() if k not in ("flagged", "seal")} == {
            k: v for k, v in before.items() if k != "seal"
        }
        assert f"without {len(flagged)} flagged items: top1 {top1:.4f}" in out
        assert doctor.main([str(scored)]) == 0  # nothing is damaged

    def test_eval_shows_it_and_computes_it_again(self, scored: Path, capsys: Any):
        doctor.main(["--data", str(scored)])
        first = (read_record(scored) or {})["flagged"]
        capsys.readouterr()
        flags = ["classification", "--tag", "photos", "--outputs", str(scored.parents[2])]
        assert eval_command.main(flags) == 0
        flagged, top1 = self.expected(scored)
        assert f"without {len(flagged)} flagged items: top1 {top1:.4f}" in capsys.readouterr().out
        assert eval_command.main([*flags, "--overwrite-eval", "eval.ece_bins=1000"]) == 0
        again = (read_record(scored) or {})["flagged"]
        assert again["scores_without"]["ece"] != first["scores_without"]["ece"]
        assert again["scores_without"]["top1"] == first["scores_without"]["top1"]
        assert again["items"] == first["items"]

    def test_before_an_eval_there_are_none_and_the_eval_makes_them(self, tag: Path):
        doctor.main(["--data", str(tag)])
        assert (read_record(tag) or {})["flagged"]["scores_without"] is None
        evaluate("classification", "photos", outputs=tag.parents[2])
        assert (read_record(tag) or {})["flagged"]["scores_without"]["top1"] == pytest.approx(self.expected(tag)[1])

    def test_a_new_export_drops_it(self, tag: Path, folder: Folder):
        doctor.main(["--data", str(tag)])
        arguments = (f"data.root={folder.root}", "data.on_duplicate=keep", "data.size=64")
        made(tag.parents[2], "classification", *arguments, tag="photos", overwrite=True)
        assert "flagged" not in (read_record(tag) or {})

    def test_all_items_flagged(self, tmp_path: Path, folder: Folder):
        root = tmp_path / "photos"
        for split in ("train", "test"):
            for name in ("cat/00.jpg", "cat/02.jpg", "dog/01.jpg", "dog/03.jpg"):
                (root / split / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder.root / "train" / name, root / split / name)
        tag = made(tmp_path / "o", "classification", f"data.root={root}", "data.on_duplicate=keep", tag="t")
        evaluate("classification", "t", outputs=tmp_path / "o")
        assert doctor.main(["--data", str(tag)]) == 0
        without = (read_record(tag) or {})["flagged"]["scores_without"]
        assert set(without.values()) == {None}

    def test_an_item_left_out_of_retrieval(self, tmp_path: Path, folder: Folder):
        """Families without train: copies within the evaluated split, all but the first."""
        tag = made(tmp_path, "retrieval", f"data.root={folder.root}", "data.on_duplicate=keep", tag="t")
        evaluate("retrieval", "t", outputs=tmp_path)
        doctor.main(["--data", str(tag)])
        record = read_record(tag) or {}
        first, second = sorted(("test/dog/23.jpg", "test/dog/again.jpg"))
        assert record["flagged"]["items"][second] == f"copy of {first} (mirrored)"
        with Table(tag / "results.h5") as results:
            kept = [
                v for n, v in zip(results.names, results.read("AP"), strict=True) if n not in record["flagged"]["items"]
            ]
        assert record["flagged"]["scores_without"]["mAP"] == pytest.approx(np.mean(kept))


class TestCommand:
    def test_it_prints_names_and_kinds(self, tag: Path, folder: Folder, capsys: Any):
        assert doctor.main(["--data", str(tag)]) == 0
        out = capsys.readouterr().out
        for (first, second), kind in folder.planted.items():
            line = next(line for line in out.splitlines() if f"{first} [" in line)
            assert second in line
            assert kind in line
        assert "within train, two labels; re-encoded: train/cat/00.jpg [train, cat] = train/dog/train_label.jpg" in out

    def test_json_and_plot(self, tag: Path, folder: Folder, capsys: Any):
        assert doctor.main(["--data", str(tag), "--json", "--plot"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["views"] == 30 + len(folder.planted)
        pairs = {(p["first"], p["second"]): p["kind"] for g in found["groups"] for p in g["pairs"]}
        assert pairs == folder.planted
        assert found["flagged"] == (read_record(tag) or {})["flagged"]
        picture = Image.open(tag / "duplicates.png")
        assert picture.width > 800

    @pytest.mark.parametrize("flags", [["--data"], ["--plot"], ["--data", "nowhere"]], ids=" ".join)
    def test_what_to_look_at(self, tmp_path: Path, capsys: Any, flags: list[str], monkeypatch: Any):
        monkeypatch.chdir(tmp_path)
        assert doctor.main(flags) == 2
        assert "outputs/results/<benchmark>/<tag>" in capsys.readouterr().err

    def test_a_tag_without_copies(self, tmp_path: Path, capsys: Any):
        tag = made(tmp_path, "retrieval", "data.side=32", "data.n_test=18", tag="scenes")
        assert doctor.main(["--data", "--plot", str(tag)]) == 0
        assert "18 views, 0 groups of copies" in capsys.readouterr().out
        assert (read_record(tag) or {})["flagged"]["items"] == {}
        assert not (tag / "duplicates.png").exists()

    def test_a_file_that_is_not_the_records(self, tag: Path, capsys: Any):
        (tag / "targets.h5").unlink()
        assert doctor.main(["--data", str(tag)]) == 3
        assert "targets.h5 is missing" in capsys.readouterr().err


class TestPictures:
    def test_the_hash_of_a_mirrored_picture_is_known_from_the_picture(self, tmp_path: Path, scenes: list[Image.Image]):
        pictures = {f"{i:02d}": np.asarray(image) for i, image in enumerate(scenes[:10])}
        pictures |= {f"{i:02d}m": np.ascontiguousarray(p[:, ::-1]) for i, p in enumerate(list(pictures.values()))}
        with thumbs_file(tmp_path / "thumbs.h5", pictures) as table:
            found = read_pictures(table, sorted(pictures))
        straight, mirrored = found.whole[::2], found.whole[1::2]
        assert ((straight * MIRROR != mirrored).sum(axis=1) <= 2).all()
        assert ((straight != mirrored).sum(axis=1) > 10).all()

    def test_a_frame_is_found_again(self, tmp_path: Path, scenes: list[Image.Image]):
        """A part of a picture takes up the frame that it was cut from: its size within 1 %, its centre too."""
        cut = (0.12, 0.04, 0.02, 0.08)  # left, top, right, bottom
        pictures = {"part": np.asarray(cropped(scenes[3], *cut)), "whole": np.asarray(scenes[3])}
        with thumbs_file(tmp_path / "thumbs.h5", pictures) as table:
            part, whole = (read_pictures(table, [name]).grey.astype(np.float32) for name in ("part", "whole"))
        frame = alignment.fine(part, whole, alignment.coarse(part, whole))[0]
        assert frame == pytest.approx([0.88, 0.86, -0.02, 0.05], abs=0.01)

    def test_colours_tell_pictures_apart(self, tmp_path: Path, scenes: list[Image.Image]):
        """The same shapes in another colour are another picture; without colour they may be the same."""
        tinted = np.asarray(scenes[0].convert("L"))[:, :, None] * np.array([[[1.0, 0.4, 0.4]]])
        pictures = {
            "blue": tinted[:, :, ::-1],
            "red": tinted,
            "grey": np.repeat(tinted.mean(axis=2, keepdims=True), 3, 2),
        }
        made_of = {name: np.ascontiguousarray(p.astype(np.uint8)) for name, p in pictures.items()}
        with thumbs_file(tmp_path / "thumbs.h5", made_of) as table:
            found = read_pictures(table, ["blue", "grey", "red"])
        how = agreement(found, np.array([0, 0, 1]), np.array([2, 1, 2]), False).max(axis=1)
        assert how[0] == -1
        assert (how[1:] > 0.95).all()


class TestPairs:
    def test_blocks_find_what_all_pairs_find(self, monkeypatch: Any):
        monkeypatch.setattr(blocks, "SIZE", 7)
        rows = np.random.default_rng(0).normal(size=(40, 3))
        found = list(blocks.pairs_above(lambda r, c: rows[r] @ rows[c].T, 40, 2.0, 1000))
        pairs = {(int(i), int(j)) for f in found for i, j in zip(f.first, f.second, strict=True)}
        product = rows @ rows.T
        assert pairs == {(i, j) for i in range(40) for j in range(i + 1, 40) if product[i, j] >= 2}
        assert sum(f.compared for f in found) == 40 * 39 // 2
        assert len(found) == blocks.blocks_of_pairs(40)

    def test_at_most_so_many_the_most_similar_ones(self):
        values = np.random.default_rng(0).random((50, 50))
        values = values + values.T
        found = next(blocks.pairs_above(lambda r, c: values[r, c], 50, 0.0, 30))
        upper = np.sort(values[np.triu_indices(50, 1)])[::-1]
        assert np.sort(values[found.first, found.second])[::-1] == pytest.approx(upper[:30])
        assert found.dropped == 50 * 49 // 2 - 30

    def test_cosines_are_of_centred_features(self, tmp_path: Path):
        """A far mean makes every cosine 1; without it two rows point the same way and the others do not."""
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(60, 600)).astype(np.float32)
        rows[7] = rows[3] * 1.5 + 0.05 * rng.normal(size=600)
        names = [f"{i:02d}" for i in range(60)]
        path = tmp_path / "features.h5"
        columns = {"image": names, "features/mean@final": rows + 100}
        write_table(path, "features", names, columns, meta={"keys": ["mean@final"]})
        with Table(path) as table:
            found = list(candidates.by_cosine(table, "mean@final", names))
        assert [(f.first.tolist(), f.second.tolist()) for f in found] == [([3], [7])]


@pytest.mark.data
class TestRealPhotos:
    KNOWN = tuple(
        (f"{label}/image_{first:04d}.jpg", f"{label}/image_{second:04d}.jpg")
        for label, first, second in (
            ("butterfly", 1, 17), ("crab", 2, 19), ("grand_piano", 6, 14), ("hedgehog", 1, 10), ("hedgehog", 11, 19),
            ("lotus", 6, 15))
    )  # fmt: skip

    @pytest.mark.slow
    def test_only_what_is_the_same_photo_is_found(self, shared: Path, tmp_path: Path):
        """22 classes of 20 photos, many of one kind of thing before white: six pairs, each of them truly one photo."""
        tag = made(tmp_path, "retrieval", f"data.root={shared / 'data' / 'caltech101_subset'}", tag="t")
        assert sorted(find_copies(tag).pairs) == list(self.KNOWN)

    @pytest.mark.slow
    def test_recall(self, shared: Path, tmp_path: Path):
        """Of 60 photos with a copy each, every kind is found in at least 9 of 10, and no two different photos."""
        root = shared / "data" / "caltech101_subset"
        photos = sorted(root.rglob("*.jpg"))
        known = {name for pair in self.KNOWN for name in pair}
        chosen = [p for p in photos if p.relative_to(root).as_posix() not in known][::7][:60]
        for name, (kind, make) in COPIES.items():
            pictures = {p.relative_to(root).as_posix(): p.read_bytes() for p in photos}
            pictures |= {f"{p.relative_to(root).as_posix()} {name}": make(Image.open(p).convert("RGB")) for p in chosen}
            folder = tmp_path / name
            bare(folder, {n: np.asarray(Image.open(io.BytesIO(d)).convert("RGB")) for n, d in pictures.items()})
            pairs = {pair: k for pair, k in find_copies(folder).pairs.items() if pair not in self.KNOWN}
            assert all(second == f"{first} {name}" for first, second in pairs), name
            assert len(pairs) >= 54, name
            assert Counter(pairs.values())[kind] >= 0.7 * len(pairs), name
