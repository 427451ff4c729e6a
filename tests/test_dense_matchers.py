"""Matchers that take both images at once: where points lie, that no finished pair is made twice, and LoFTR."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import signal
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image

from benchkit.conf.build import build
from benchkit.datasets.image_folder import Settings as FolderSettings
from benchkit.datasets.image_folder import build as build_folder
from benchkit.datasets.scenes import Scenes
from benchkit.errors import BenchkitError, RunError, UsageError
from benchkit.eval import evaluate
from benchkit.export import export
from benchkit.export.manifest import Facts
from benchkit.export.views import Views
from benchkit.heads.base import Head, Wants
from benchkit.heads.loftr import LoFTR
from benchkit.heads.loftr import Settings as LoFTRSettings
from benchkit.heads.solvers import dense_matcher, loftr
from benchkit.heads.solvers.dense_matcher import Found
from benchkit.images import Unreadable
from benchkit.preprocess import Preprocess
from benchkit.provenance.record import read_record
from benchkit.settings import setting
from benchkit.store.columns import Ragged
from benchkit.store.content import file_hash
from benchkit.store.predicted import Predicted
from benchkit.store.table import Table, write_table

FIELDS = ("keypoints0", "keypoints1", "matches0", "matching_scores0")
NAME = "test_dense_matchers.Blocks"
DATA = ("data.n_test=5", "data.side=48", "data.warps=0.05")


@dataclasses.dataclass
class BlockSettings:
    """Of the matcher below."""

    reach: int = setting(8, "pixels that a block may have moved along each axis")


class Blocks(Head):
    """A private matcher: each block of 8 x 8 pixels of the first image, where it differs least in the second one."""

    Settings = BlockSettings
    gives = FIELDS
    weights = "first"
    calls: ClassVar[list[str]] = []
    trouble: ClassVar[Callable[[int], None] | None] = None

    def __init__(self, settings: BlockSettings) -> None:
        self.settings = settings

    def wants(self) -> Wants:
        return Wants("images", views=2)

    def predict(self, key: str, features: Any, threads: int) -> dict[str, Any]:
        self.calls.append(features.names[0])
        if Blocks.trouble:
            Blocks.trouble(len(self.calls))
        return dense_matcher.predict(features, self._match, None, threads)

    def _match(self, first: Any, second: Any) -> Found:
        one, other = (dense_matcher.grey(view, "cpu")[0, 0].numpy() for view in (first, second))
        found, reach = [], self.settings.reach
        for y in range(0, one.shape[0] - 7, 8):
            for x in range(0, one.shape[1] - 7, 8):
                places = [
                    (np.abs(one[y : y + 8, x : x + 8] - other[v : v + 8, u : u + 8]).mean(), u, v)
                    for v in range(max(0, y - reach), min(other.shape[0] - 8, y + reach) + 1)
                    for u in range(max(0, x - reach), min(other.shape[1] - 8, x + reach) + 1)
                ]
                off, u, v = min(places)
                found.append([x + 4, y + 4, u + 4, v + 4, 1 - off])
        rows = np.array(found, np.float64)
        return Found(rows[:, :2], rows[:, 2:4], rows[:, 4])

    def protocol(self) -> dict[str, Any]:
        return {"weights": self.weights}

    def meta(self) -> dict[str, Any]:
        return {}


@pytest.fixture(autouse=True)
def untroubled() -> Iterator[None]:
    Blocks.calls.clear()
    Blocks.trouble = None
    yield
    Blocks.trouble = None


def views_of(folder: Path, images: list[np.ndarray], preprocess: Preprocess) -> Views:
    """Images as views 0.png, 1.png, ... of a folder."""
    (folder / "a").mkdir(parents=True)
    facts, names = {}, []
    for number, image in enumerate(images):
        file = folder / "a" / f"{number}.png"
        Image.fromarray(image).save(file)
        names.append(f"a/{number}.png")
        facts[names[-1]] = Facts(hashlib.sha256(file.read_bytes()).hexdigest(), *image.shape[:2], "", 0, 0, 0)
    return Views(build_folder(FolderSettings(root=str(folder))), facts, names, preprocess, "cpu")


def made(resize: str = "native", size: int = 64, short: int = 48, multiple: int = 1) -> Preprocess:
    return Preprocess(size, resize, short, "bilinear", (0.0,) * 3, (1.0,) * 3, multiple)


def ramp(height: int, width: int) -> np.ndarray:
    """Red = x and green = y of the pixel's index, to be below 256."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x, y, np.zeros_like(x)], axis=-1).astype(np.uint8)


def blocks(height: int, width: int, seed: int = 0) -> np.ndarray:
    """An image without symmetries: blocks of 4 pixels."""
    small = np.random.default_rng(seed).integers(0, 256, (-(-height // 4), -(-width // 4), 3), dtype=np.uint8)
    return np.ascontiguousarray(small.repeat(4, axis=0).repeat(4, axis=1)[:height, :width])


class TestViews:
    @pytest.mark.parametrize("resize", ["native", "pad", "short", "squash", "crop"])
    @pytest.mark.parametrize("multiple", [1, 16])
    def test_points_in_original_pixels(self, resize: str, multiple: int, tmp_path: Path):
        """The colour at an input's pixel is the index of the original pixel there: half a pixel less than its place."""
        preprocess = made(resize, 64, 80 if resize == "crop" else 48, multiple)
        view = views_of(tmp_path, [ramp(130, 200)], preprocess).view(0)
        assert view.size == (200, 130)
        assert view.pixels.shape[1:] == preprocess.shape(130, 200)
        height, width = view.shown
        assert view.pixels[:, height:].sum() == view.pixels[:, :, width:].sum() == 0
        y, x = np.mgrid[4 : height - 4 : 7, 4 : width - 4 : 7]
        points = view.original(np.stack([x + 0.5, y + 0.5], axis=-1).reshape(-1, 2))
        colours = view.pixels[:2, y.ravel(), x.ravel()].numpy().T
        assert points.dtype == np.float32
        np.testing.assert_allclose(points - 0.5, colours, atol=0.75)
        assert np.abs((points - 0.5 - colours).mean(axis=0)).max() < 0.25

    def test_no_points(self, tmp_path: Path):
        view = views_of(tmp_path, [ramp(20, 30)], made()).view(0)
        assert view.original(np.zeros((0, 2))).shape == (0, 2)

    def test_another_or_a_damaged_file_is_named(self, tmp_path: Path):
        views = views_of(tmp_path, [ramp(20, 30)], made())
        file = tmp_path / "a" / "0.png"
        file.write_bytes(b"no image")
        with pytest.raises(RunError, match=r"0\.png changed"):
            views.view(0)
        facts = {"a/0.png": Facts(hashlib.sha256(b"no image").hexdigest(), 20, 30, "", 0, 0, 0)}
        views = Views(build_folder(FolderSettings(root=str(tmp_path))), facts, ["a/0.png"], made(), "cpu")
        with pytest.raises(RunError, match=r"'a/0\.png': "):
            views.view(0)


@pytest.mark.parametrize(
    ("preprocess", "factor"),
    [(made(), 1), (made(multiple=16), 1), (made("pad", 80), 2), (made("short", short=60), 2)],
)
def test_a_shift_is_found_exactly(preprocess: Preprocess, factor: int, tmp_path: Path):
    """Two windows of one image, 8 pixels to the right and 4 down."""
    image = blocks(140, 180)
    pair = [image[:120, :160], np.ascontiguousarray(image[4:124, 8:168])]
    found = Blocks(BlockSettings()).predict("", views_of(tmp_path, pair, preprocess), 1)
    one, other, matches, scores = (next(iter(found[name].each())) for name in FIELDS)
    assert (scores[:-1] >= scores[1:]).all()
    np.testing.assert_array_equal(matches, np.arange(len(one)))
    inner = ((one >= 16) & (one <= [144, 104])).all(axis=1)  # what both show, and no resize mixes with what is outside
    assert inner.sum() >= 20
    np.testing.assert_array_equal(one[inner] - other[inner], np.tile(np.float32([8, 4]), (inner.sum(), 1)))
    assert {float(x % (8 * factor)) for x in one[:, 0]} == {4 * factor}


def run(outputs: Path, *arguments: str, conf: str = "loftr", benchmark: str = "correspondence", **options: Any) -> Any:
    said: list[str] = []
    given = (f"model.head.name={NAME}", *DATA, *arguments)
    (end,) = export(conf, benchmark, arguments=given, tag="t", outputs=outputs, say=said.append, **options)
    if isinstance(end, BenchkitError):
        raise end
    return end, said


def stop_at(number: int, error: type[BaseException]) -> Callable[[int], None]:
    def stop(call: int) -> None:
        if call == number:
            raise error

    return stop


class TestWholeWay:
    def test_an_identity_is_scored_as_one(self, tmp_path: Path):
        """A private matcher by its dotted path; the strength 0 leaves the view as it is."""
        end, _ = run(tmp_path, "data.warps=0", "data.size=96")
        assert len(Blocks.calls) == 5
        summaries = evaluate("correspondence", "t", outputs=tmp_path).summaries
        assert summaries["recall@1px"] == 1
        record = read_record(end.folder)
        assert record is not None
        assert record["features"]["keys"] == []
        assert record["protocol"]["head_facts"] == {"weights": "first"}
        assert len(record["head"]["platforms"]) == 1

    @pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
    def test_what_was_finished_is_not_made_again(self, error: type[BaseException], tmp_path: Path):
        whole, _ = run(tmp_path / "whole")
        assert len(Blocks.calls) == 5
        Blocks.calls.clear()
        Blocks.trouble = stop_at(4, error)
        with pytest.raises(error):
            run(tmp_path)
        folder = tmp_path / "results" / "correspondence" / "t" / ".parts" / "pairs"
        (part,) = folder.iterdir()
        with Table(part, "pairs") as table:
            assert table.names == [view.removesuffix("/source") for view in Blocks.calls[:3]]
        Blocks.calls.clear()
        Blocks.trouble = None
        again, said = run(tmp_path)
        assert len(Blocks.calls) == 2
        assert any("3 of 5 items" in text for text in said)
        assert not (again.folder / ".parts").exists()
        hashes = [file_hash(each.folder / "predictions.h5", "predictions") for each in (whole, again)]
        assert hashes[0] == hashes[1]

    @pytest.mark.slow
    def test_killed(self, tmp_path: Path):
        """By SIGKILL in the third pair, where parts are as short as they can be."""
        code = (
            "import os, signal, test_dense_matchers as tests, benchkit.export.pairs as pairs\n"
            "def kill(call):\n    if call == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
            "pairs.PART_SECONDS, tests.Blocks.trouble = 0.0, kill\n"
            f"tests.run(tests.Path({str(tmp_path)!r}))\n"
        )
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        ended = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=False)
        assert ended.returncode == -signal.SIGKILL
        run(tmp_path)
        assert len(Blocks.calls) == 3

    def test_other_weights_begin_anew(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        Blocks.trouble = stop_at(4, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path)
        Blocks.calls.clear()
        Blocks.trouble = None
        monkeypatch.setattr(Blocks, "weights", "second")
        _, said = run(tmp_path)
        assert len(Blocks.calls) == 5
        assert any("other weights" in text for text in said)

    def test_a_damaged_part_is_made_again(self, tmp_path: Path):
        Blocks.trouble = stop_at(4, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path)
        (part,) = (tmp_path / "results" / "correspondence" / "t" / ".parts" / "pairs").iterdir()
        with Table(part, "pairs") as table:
            place = table.node("fields/keypoints1")["values"].id.get_offset()
        part.chmod(0o644)
        with part.open("r+b") as file:
            file.seek(place + 5)
            byte = file.read(1)
            file.seek(place + 5)
            file.write(bytes([byte[0] ^ 1]))
        Blocks.calls.clear()
        Blocks.trouble = None
        _, said = run(tmp_path)
        assert len(Blocks.calls) == 5
        assert any("damaged" in text for text in said)

    def test_other_settings_are_refused_until_overwritten(self, tmp_path: Path):
        run(tmp_path)
        with pytest.raises(UsageError, match="--overwrite"):
            run(tmp_path, "model.head.reach=4")

    def test_not_finite(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(Blocks, "_match", lambda *_: Found(np.full((2, 2), np.nan), np.zeros((2, 2)), np.ones(2)))
        with pytest.raises(RunError, match="NaN or infinity as keypoints0 of 'test/000000'"):
            run(tmp_path)

    def test_out_of_memory_names_the_pair(self, tmp_path: Path):
        Blocks.trouble = stop_at(2, MemoryError)
        with pytest.raises(RunError, match=r"out of memory with 'test/000001'.*data\.size"):
            run(tmp_path)

    @pytest.mark.parametrize(
        ("conf", "arguments", "message"),
        [
            ("color_histogram", (), "model.backbone.name=pixels"),
            ("loftr", ("model.precision=bf16",), "model.precision has no effect"),
            ("loftr", ("model.features.layers=3",), "model.features.layers has no effect"),
            ("loftr", ("model.random=true",), "model.head.random=true"),
            ("loftr", ("model.head.name=match",), "pixels has no patch"),
        ],
    )
    def test_what_has_no_meaning_is_refused(self, conf: str, arguments: tuple[str, ...], message: str, tmp_path: Path):
        with pytest.raises(UsageError, match=message):
            run(tmp_path, *arguments, conf=conf)
        assert not (tmp_path / "results").exists()


class TestShards:
    """Each worker predicts its own items; who finishes the tag predicts none twice."""

    def content(self, folder: Path) -> str:
        return file_hash(folder / "predictions.h5", "predictions")

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_each_predicts_its_own(self, order: tuple[int, int], tmp_path: Path):
        whole, _ = run(tmp_path / "whole")
        counts, states = [], []
        for index in order:
            Blocks.calls.clear()
            end, _ = run(tmp_path, shard=f"{index}/2")
            counts.append(len(Blocks.calls))
            states.append(end.state)
        assert states == ["waiting", "finished"]
        assert sorted(counts) == [2, 3]
        assert self.content(end.folder) == self.content(whole.folder)
        assert not (end.folder / ".parts").exists()

    def test_who_has_stopped_is_named_with_the_items_and_resumes(self, tmp_path: Path):
        Blocks.trouble = stop_at(2, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, shard="0/2")
        Blocks.trouble = None
        waiting, _ = run(tmp_path, shard="1/2")
        assert waiting.state == "waiting"
        assert "2 of 5 items of correspondence/t are not predicted yet" in waiting.left
        assert "shard 0/2" in waiting.left
        assert "has stopped: 2 items missing, such as 'test/000002" in waiting.left
        Blocks.calls.clear()
        end, _ = run(tmp_path, shard="0/2")
        assert end.state == "finished"
        assert len(Blocks.calls) == 2

    def test_finishing_by_hand_predicts_what_is_missing(self, tmp_path: Path):
        Blocks.trouble = stop_at(2, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, shard="0/2")
        Blocks.trouble = None
        run(tmp_path, shard="1/2")
        Blocks.calls.clear()
        end, said = run(tmp_path, finish=True)
        assert end.state == "finished"
        assert len(Blocks.calls) == 2
        assert any("3 of 5 items were predicted before" in text for text in said)

    @pytest.mark.parametrize("policy", ["stop", "skip"])
    def test_a_damaged_image(self, policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        render = Scenes.image

        def image(self: Scenes, view: str) -> np.ndarray:
            if view.startswith("test/000001"):
                raise Unreadable("it is cut off")
            return render(self, view)

        monkeypatch.setattr(Scenes, "image", image)
        if policy == "stop":
            with pytest.raises(RunError, match="cut off"):
                run(tmp_path, shard="0/2")
            return
        ends = [run(tmp_path, "data.on_error=skip", shard=f"{index}/2")[0] for index in (0, 1)]
        assert [end.state for end in ends] == ["waiting", "finished"]
        record = read_record(ends[1].folder)
        assert record is not None
        assert list(record["data"]["skipped"]) == ["test/000001"]
        assert record["data"]["n_items"] == 4


class TestPredicted:
    def kept(
        self, folder: Path, images: dict[str, str], said: list[str] | None = None, size: int = 1 << 20
    ) -> Predicted:
        return Predicted(
            folder, {"weights": 1}, {"cpu": "x"}, images, size, 60.0, (said if said is not None else []).append
        )

    def test_rows_come_back(self, tmp_path: Path):
        """Fixed and varying shapes, an item without points, parts of two rows, read in another order."""
        images = {name: f"sha-{name}" for name in "abcde"}
        rows = {name: np.arange(2 * n, dtype=np.float32).reshape(n, 2) for n, name in enumerate("abcde")}
        parts = self.kept(tmp_path, images, size=1)
        for n, (name, points) in enumerate(rows.items()):
            parts.part_bytes = 1 if n % 2 else 1 << 20
            parts.add(name, {"points": Ragged(points.dtype, 2, [points]), "pose": np.full((1, 3), n, np.float64)})
        parts.close()
        assert len(list(tmp_path.iterdir())) == 3
        for each in (parts, self.kept(tmp_path, images)):
            assert all(name in each for name in images)
            assert each.platforms == [{"cpu": "x"}]
            write_table(tmp_path / "whole" / "x.h5", "predictions", ["d", "a", "e"], each.columns(["d", "a", "e"]))
            with Table(tmp_path / "whole" / "x.h5", "predictions") as table:
                np.testing.assert_array_equal(table.read("pose"), [[3] * 3, [0] * 3, [4] * 3])
                for row, name in enumerate("dae"):
                    np.testing.assert_array_equal(table.item("points", row), rows[name])

    def test_other_images_do_not_count(self, tmp_path: Path):
        parts = self.kept(tmp_path, {"a": "1", "b": "2"})
        for name in "ab":
            parts.add(name, {"pose": np.zeros((1, 3))})
        parts.close()
        again = self.kept(tmp_path, {"a": "1", "b": "changed"})
        assert "a" in again
        assert "b" not in again

    def test_nothing_to_write(self, tmp_path: Path):
        self.kept(tmp_path, {}).close()
        assert not list(tmp_path.iterdir())

    def test_one_row_per_item(self, tmp_path: Path):
        with pytest.raises(ValueError, match="2 rows for one item"):
            self.kept(tmp_path, {"a": "1"}).add("a", {"pose": np.zeros((2, 3))})


@pytest.fixture(scope="module")
def net() -> Any:
    return loftr.load(LoFTRSettings(random=True, threshold=0.0))


def state_of(seed: int) -> dict[str, torch.Tensor]:
    return loftr.load(LoFTRSettings(random=True, seed=seed)).state_dict()


class TestLoFTR:
    def head(self, net: Any, **settings: Any) -> LoFTR:
        head = LoFTR(LoFTRSettings(random=True, threshold=0.0, **settings))
        head.net = net
        return head

    def test_is_kornias_in_original_pixels(self, net: Any, tmp_path: Path):
        """Images twice as large and padded: LoFTR sees the small ones without padding, and its points are scaled by 2."""
        small = [blocks(88, 96), blocks(88, 96, seed=1)]
        large = [np.ascontiguousarray(each.repeat(2, axis=0).repeat(2, axis=1)) for each in small]
        views = views_of(tmp_path, large, made("pad", 96, multiple=16))
        assert views.view(0).pixels.shape[1:] == (96, 96)
        found = self.head(net).predict("", views, 1)
        one, other, matches, scores = (next(iter(found[name].each())) for name in FIELDS)
        weights = torch.tensor([0.299, 0.587, 0.114])[:, None, None]
        inputs = [(views.view(i).pixels[:, :88].float() / 255 * weights).sum(0)[None, None] for i in range(2)]
        with torch.inference_mode():
            theirs = net({"image0": inputs[0], "image1": inputs[1]})
        order = theirs["confidence"].argsort(descending=True, stable=True)
        assert len(order) > 0
        np.testing.assert_allclose(one, 2 * theirs["keypoints0"][order], atol=1e-3)
        np.testing.assert_allclose(other, 2 * theirs["keypoints1"][order], atol=1e-2)
        np.testing.assert_allclose(scores, theirs["confidence"][order], rtol=1e-3)
        assert (one % 16 == 0).all()  # cells of 8 pixels
        assert (matches == np.arange(len(one))).all()

    def test_an_image_beside_itself(self, net: Any, tmp_path: Path):
        """Whatever the weights: nothing tells the two images apart, so that matches are the same in both directions."""
        image = blocks(96, 96)
        found = self.head(net).predict("", views_of(tmp_path, [image, image], made()), 1)
        one, other = (next(iter(found[name].each())) for name in FIELDS[:2])
        cells = {tuple(np.round(p / 8).astype(int)) for p in other}
        assert {tuple((p / 8).astype(int)) for p in one} == cells

    def test_the_surest_are_kept(self, net: Any, tmp_path: Path):
        views = views_of(tmp_path, [blocks(96, 112), blocks(104, 96, seed=1)], made())
        every = self.head(net).predict("", views, 1)
        best = self.head(net, max_matches=1).predict("", views, 1)
        assert len(next(iter(every["matches0"].each()))) > 1
        for name in FIELDS:
            np.testing.assert_allclose(next(iter(best[name].each())), next(iter(every[name].each()))[:1], rtol=1e-4)

    def test_small_images_have_no_matches(self, net: Any, tmp_path: Path):
        found = self.head(net).predict("", views_of(tmp_path, [blocks(20, 9), blocks(8, 16)], made()), 1)
        assert [next(iter(found[name].each())).shape for name in FIELDS] == [(0, 2), (0, 2), (0,), (0,)]

    def test_random_weights_come_from_the_seed(self, net: Any):
        before = torch.random.get_rng_state()
        one, other = net.state_dict(), state_of(0)
        assert all(torch.equal(one[name], other[name]) for name in one)
        assert any(not torch.equal(one[name], value) for name, value in state_of(1).items())
        assert torch.equal(before, torch.random.get_rng_state())

    def test_a_checkpoint(self, net: Any, tmp_path: Path):
        """As it is published (names begin with matcher., below state_dict), and plain."""
        state = net.state_dict()
        published = {"state_dict": {f"matcher.{name}": value for name, value in state.items()}}
        cases: list[tuple[Any, Any]] = [(published, "indoor"), (dict(state), "indoor_new")]
        for saved, like in cases:
            torch.save(saved, tmp_path / "x.ckpt")
            head = LoFTR(LoFTRSettings(checkpoint=str(tmp_path / "x.ckpt"), pretrained=like))
            head.prepare(None, {})  # type: ignore[arg-type]
            assert head.protocol() == self.head(net).protocol()
            assert head.net.pos_encoding.temp_bug_fix == (like == "indoor_new")
            assert not head.net.training

    def test_a_foreign_file_is_refused(self, tmp_path: Path):
        torch.save({"weight": torch.zeros(3)}, tmp_path / "x.ckpt")
        torch.save({"state_dict": {"a": Path("code")}}, tmp_path / "code.ckpt")
        for name in ("x.ckpt", "code.ckpt", "absent.ckpt"):
            with pytest.raises(UsageError, match=f"{name} cannot be used"):
                loftr.load(LoFTRSettings(checkpoint=str(tmp_path / name)))

    def test_no_download(self, monkeypatch: pytest.MonkeyPatch):
        import kornia.feature.loftr.loftr as theirs

        def fail(*_: Any, **__: Any) -> None:
            raise urllib.error.URLError("no route to host")

        monkeypatch.setattr(theirs, "load_state_dict_from_url", fail)
        with pytest.raises(
            UsageError, match=r"outdoor could not be had.*no route to host.*model\.head\.checkpoint=FILE"
        ):
            loftr.load(LoFTRSettings())

    def test_settings(self):
        for wrong in ({"threshold": 1.0}, {"max_matches": 0}, {"random": True, "checkpoint": "x"}):
            with pytest.raises(ValueError, match=r"threshold|max_matches|random"):
                LoFTRSettings(**wrong)  # type: ignore[arg-type]
        assert build("loftr", "homography").head.settings.pretrained == "outdoor"

    @pytest.mark.slow
    def test_whole_way(self, tmp_path: Path):
        given = ("model.head.random=true", "model.head.threshold=0.0", "data.n_test=2", "data.side=64")
        (end,) = export("loftr", "homography", arguments=given, outputs=tmp_path, say=lambda _: None)
        if isinstance(end, BenchkitError):
            raise end
        assert evaluate("homography", end.tag, outputs=tmp_path).summaries["num_matches"] > 0
