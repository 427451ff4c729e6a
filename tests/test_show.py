"""`benchkit show`: every dense family has its panels, invalid pixels are marked, a slipped target looks different."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchkit import registry
from benchkit.__main__ import main
from benchkit.experiments.ranking import Ranking
from benchkit.store.table import Table, write_table
from benchkit.viz import maps, pairs, panels

DENSE = ["semantic_segmentation", "generic_segmentation", "depth", "normals", "edges", "orientation"]
SMALL = ["data.n_train=4", "data.n_test=3", "data.side=32"]
TAG = "color_histogram+constant"
MAGENTA = maps.INVALID


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tags of the constant head, and one of a family without pixels."""
    root = tmp_path_factory.mktemp("outputs")
    head = ["model.head.name=constant", "data.size=32", *SMALL]
    assert main(["run", "--conf", "color_histogram", "--outputs", str(root), "--benchmark", *DENSE, *head]) == 0
    argv = ["run", "--conf", "color_histogram", "--outputs", str(root), "--benchmark", "classification", *SMALL]
    assert main([*argv, "data.n_train=24", "data.n_test=12"]) == 0
    return root


@pytest.fixture
def sheets(monkeypatch: pytest.MonkeyPatch) -> list[list[panels.Row]]:
    """The rows of every sheet that is drawn."""
    seen, sheet = [], panels.sheet

    def noted(figure, rows, classes, title):
        seen.append(list(rows))
        sheet(figure, rows, classes, title)

    monkeypatch.setattr(panels, "sheet", noted)
    return seen


def show(root: Path, benchmark: str, *argv: str, tag: str = TAG) -> int:
    return main(["show", benchmark, tag, "--outputs", str(root), *argv])


@pytest.mark.parametrize("benchmark", DENSE)
def test_every_dense_family_has_its_panels(outputs: Path, tmp_path: Path, sheets: list, benchmark: str):
    out = tmp_path / "picture.png"
    assert show(outputs, benchmark, "--worst", "2", "--out", str(out)) == 0
    (rows,) = sheets
    assert len(rows) == 2
    for row in rows:
        names = [panel.name.split(" (")[0] for panel in row.panels]
        assert names == ["image", "target over image", "target", "prediction", "error"]
        assert {panel.picture.shape for panel in row.panels} == {(32, 32, 3)}
    scaled = [panel.scale is not None for panel in rows[0].panels]
    error = not benchmark.endswith("segmentation")
    assert scaled == [False, False, *[error and benchmark != "normals"] * 2, error]
    width, height = Image.open(out).size
    assert width > 5 * 260
    assert height > 2 * 260


def test_the_image_is_the_data_sets_own(outputs: Path, sheets: list):
    from benchkit import registry
    from benchkit.datasets.scenes import Settings

    show(outputs, "depth", "--items", "test/000001")
    dataset = registry.find("datasets", "scenes").build(Settings(n_train=4, n_test=3, side=32, truth="depth"))
    np.testing.assert_array_equal(sheets[0][0].panels[0].picture, dataset.image("test/000001"))
    truth = dataset.target("test/000001")["depth"]
    low, high = truth.min(), truth.max()
    np.testing.assert_array_equal(sheets[0][0].panels[2].picture, maps.values_picture(truth, truth > 0, low, high))
    assert (outputs / "results" / "depth" / TAG / "show.png").exists()


def test_the_worst_come_first(outputs: Path, sheets: list):
    show(outputs, "depth")
    with Table(outputs / "results" / "depth" / TAG / "results.h5", "results") as results:
        order = [results.names[i] for i in np.argsort(results.read("d1"), kind="stable")]
    assert [row.caption.split(":")[0] for row in sheets[0]] == order


def test_a_slipped_target_lies_differently_over_its_image(outputs: Path):
    with Table(outputs / "results" / "semantic_segmentation" / TAG / "targets.h5", "targets") as table:
        mask = table.item("mask", 0)
    image = np.full((32, 32, 3), 100, np.uint8)
    meta = {"classes": list("abcdefgh"), "ignore": 255}
    both = [panels.panels("mask", mask, each, meta, image) for each in (mask, np.roll(mask, 2, axis=1))]
    assert (both[0][1].picture != both[1][1].picture).any()
    assert (both[0][4].picture == panels.RIGHT).all()
    wrong = (both[1][4].picture == panels.WRONG).all(axis=2)
    np.testing.assert_array_equal(wrong, mask != np.roll(mask, 2, axis=1))


def test_thumbnails_stand_in_where_the_data_set_is_gone(
    outputs: Path, tmp_path: Path, sheets: list, capsys, monkeypatch
):
    from benchkit.datasets.scenes import Scenes

    def gone(self, view):
        raise OSError("moved")

    monkeypatch.setattr(Scenes, "image", gone)
    assert show(outputs, "depth", "--worst", "1", "--out", str(tmp_path / "a.png")) == 0
    assert "thumbnails of 96 pixels" in capsys.readouterr().err
    assert sheets[0][0].panels[0].picture.shape == (32, 32, 3)


def test_another_image_under_the_same_name_is_not_shown(outputs: Path, tmp_path: Path, sheets: list, monkeypatch):
    from benchkit.datasets.scenes import Scenes

    monkeypatch.setattr(Scenes, "image", lambda self, view: np.zeros((32, 32, 3), np.uint8))
    assert show(outputs, "depth", "--worst", "1", "--out", str(tmp_path / "a.png")) == 0
    assert sheets[0][0].panels[0].picture.mean() > 20


class TestInvalidPixelsAreMarked:
    image = np.full((2, 2, 3), 100, np.uint8)
    hole = np.array([[True, False], [False, False]])

    def check(self, found: list[panels.Panel], hole: np.ndarray) -> None:
        target, error = found[2].picture, found[4].picture
        for picture in (target, error):
            np.testing.assert_array_equal((picture == MAGENTA).all(axis=2), hole)
        np.testing.assert_array_equal(found[1].picture[0, 0], (100 + MAGENTA.astype(int)) // 2)

    def test_mask(self):
        target, prediction = np.array([[255, 1], [0, 1]], np.uint8), np.array([[0, 1], [1, 1]], np.uint8)
        found = panels.panels("mask", prediction, target, {"classes": ["a", "b"], "ignore": 255}, self.image)
        self.check(found, self.hole)
        assert (found[4].picture[1, 0] == panels.WRONG).all()
        assert (found[4].picture[:, 1] == panels.RIGHT).all()

    def test_depth(self):
        target, prediction = np.array([[0, 1], [2, 3]], np.float32), np.array([[1, 1], [2, 5]], np.float32)
        found = panels.panels("depth", prediction, target, {"unit": "m"}, self.image)
        self.check(found, self.hole)
        assert (found[2].scale.low, found[2].scale.high, found[2].scale.unit) == (1, 3, "m")
        assert found[4].scale.high == pytest.approx(np.percentile([0, 0, 2], 99))

    def test_normals(self):
        target = np.tile(np.array([0, 0, -1], np.float32), (2, 2, 1))
        target[0, 0] = 0
        prediction = np.tile(np.array([0, 0, -1], np.float32), (2, 2, 1))
        prediction[1, 1] = [1, 0, 0]
        found = panels.panels("normals", prediction, target, {}, self.image)
        self.check(found, self.hole)
        assert found[4].scale.high == pytest.approx(np.percentile([0, 0, 90], 99))
        assert "right" in found[2].note

    def test_map_and_a_prediction_that_is_nan(self):
        target = np.array([[np.nan, 1], [2, 3]], np.float32)
        prediction = np.array([[1, 1], [2, np.nan]], np.float32)
        found = panels.panels("map", prediction, target, {"unit": "x"}, self.image)
        np.testing.assert_array_equal((found[2].picture == MAGENTA).all(axis=2), self.hole)
        np.testing.assert_array_equal((found[4].picture == MAGENTA).all(axis=2), [[True, False], [False, True]])

    def test_orientation(self):
        target = np.array([[[0, 0], [1, 0]], [[0, 1], [-1, 0]]], np.float32)
        prediction = np.tile(np.array([1, 0], np.float32), (2, 2, 1))
        found = panels.panels("map", prediction, target, {}, self.image)
        self.check(found, self.hole)
        assert found[4].scale.high == pytest.approx(np.percentile([0, 45, 90], 99), abs=1e-3)

    def test_nothing_is_valid_anywhere(self):
        nothing = np.zeros((2, 2), np.float32)
        found = panels.panels("depth", np.ones((2, 2), np.float32), nothing, {}, None)
        assert len(found) == 3
        assert (found[2].picture == MAGENTA).all()


def test_invalid_pixels_are_magenta_in_the_file(tmp_path: Path):
    from matplotlib.figure import Figure

    from benchkit.experiments.pictures import save

    target = np.ones((32, 32), np.float32)
    target[:16] = 0
    shown = panels.panels("depth", np.ones((32, 32), np.float32), target, {"unit": "m"}, None)
    figure = Figure()
    panels.sheet(figure, [panels.Row("a", shown)], [], "t")
    pixels = np.asarray(Image.open(save(figure, tmp_path / "a.png", tight=False)).convert("RGB"))
    assert (pixels == MAGENTA).all(axis=2).sum() > 2 * 250 * 120  # half of target and of error, beside the legend


def test_other_families_draw_their_own_pictures(outputs: Path, tmp_path: Path):
    out = tmp_path / "c.png"
    assert show(outputs, "classification", "--out", str(out), tag="color_histogram") == 0
    assert Image.open(out).size[0] > 600
    assert show(outputs, "classification", "--worst", "1", "--out", str(out), tag="color_histogram") == 0
    assert Image.open(out).size[0] >= 500  # the title fits


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["depth", TAG, "--items", "test/00001"], "'test/000001'"),
        (["depth", "color_histogram+constan"], "color_histogram+constant"),
        (["depht", TAG], "depth"),
        (["depth", TAG, "--items", "test/000001", "--worst", "2"], "one of them"),
        (["depth", TAG, "--worst", "0"], "1 to 50"),
        (["depth", TAG, "--out", "a.jpg"], "PNG"),
    ],
)
def test_what_is_not_there_is_one_paragraph(outputs: Path, capsys: pytest.CaptureFixture, argv: list[str], said: str):
    assert main(["show", *argv, "--outputs", str(outputs)]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


class TestOrder:
    def ranking(self, folder: Path, family: str, **columns: np.ndarray) -> Ranking:
        write_table(folder / "results.h5", "results", [f"{k}" for k in range(3)], columns)
        component = registry.find("eval", family)
        return Ranking(folder, component.build(component.settings()))

    def test_failures_are_worst_and_what_is_undefined_is_left_out(self, tmp_path: Path):
        found = self.ranking(tmp_path, "homography", H_error_poselib=np.array([2, np.inf, 3]), ransac_inliers=np.arange(3.0),
                             num_matches=np.full(3, 9.0))  # fmt: skip
        assert found.worst() == ["1", "2", "0"]
        assert found.caption("2") == "corner error 3 px, 2 inliers of 9 matches"
        found = self.ranking(tmp_path, "depth", d1=np.array([0.5, np.nan, 0.25]))
        assert found.worst() == ["2", "0"]
        assert (found.caption("0"), found.caption("1")) == ("d1 0.5", "")

    def test_without_a_score_of_their_own_items_stay_in_name_order(self, tmp_path: Path):
        found = self.ranking(tmp_path, "boundaries", odd=np.array([2.0, 1, 3]))
        assert (found.worst(), found.column, found.caption("0")) == (["0", "1", "2"], "", "")

    def test_before_eval_there_is_none(self, tmp_path: Path):
        component = registry.find("eval", "depth")
        found = Ranking(tmp_path, component.build(component.settings()))
        assert (found.worst(), found.caption("0")) == ([], "")


@pytest.fixture(scope="module")
def two_views(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tags of pairs, whose views are larger than their thumbnails."""
    pytest.importorskip("poselib")
    root = tmp_path_factory.mktemp("outputs")
    argv = ["run", "--conf", "color_histogram", "--outputs", str(root), "--benchmark", "relative_pose"]
    data = ["data.n_test=4", "data.side=128"]
    assert main([*argv, "--tag", "one", *data]) == 0
    assert main([*argv, "--tag", "other", *data, "data.limit=3"]) == 0
    return root


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list:
    """The figure of every sheet of pairs, its captions and its title."""
    seen, sheet = [], pairs.sheet

    def noted(figure, draws, title, legend):
        sheet(figure, draws, title, legend)
        seen.append((figure, [caption for caption, _ in draws], title))

    monkeypatch.setattr(pairs, "sheet", noted)
    return seen


class TestPairsOfViews:
    def show(self, root: Path, *argv: str) -> int:
        return show(root, "relative_pose", *argv, tag="one")

    def errors(self, root: Path, tag: str = "one") -> dict[str, float]:
        with Table(root / "results" / "relative_pose" / tag / "results.h5", "results") as results:
            return dict(zip(results.names, results.read("rel_pose_error_poselib").tolist(), strict=True))

    @pytest.mark.parametrize(("count", "across"), [(1, 1), (2, 1), (3, 2)])
    def test_each_is_as_wide_as_a_page(self, two_views: Path, drawn: list, tmp_path: Path, count: int, across: int):
        out = tmp_path / "a.png"
        assert self.show(two_views, "--worst", str(count), "--out", str(out)) == 0
        figure = drawn[0][0]
        width, height = Image.open(out).size
        assert width == across * 8 * figure.dpi >= across * 800
        shown = [axes.get_position() for axes in figure.axes[:count]]
        for box in shown:
            assert box.width * width > 0.95 * width / across
            assert box.height * height == pytest.approx(box.width * width / (2 + pairs.GAP), rel=0.05)
        rows = -(-count // across)
        assert sum(box.height for box in shown) * across / count * rows > 0.75  # the rest is text

    def test_they_are_the_data_sets_own_images(self, two_views: Path, drawn: list, tmp_path: Path, capsys):
        assert self.show(two_views, "--items", "test/000001", "--out", str(tmp_path / "a.png")) == 0
        dataset = registry.find("datasets", "scene_pairs")
        made = dataset.build(dataset.settings(n_test=4, side=128))
        for image, view in zip(drawn[0][0].axes[0].get_images(), made.views("test/000001"), strict=True):
            np.testing.assert_array_equal(image.get_array(), made.image(view))
        assert "thumbnails" not in capsys.readouterr().err + drawn[0][2]

    def test_thumbnails_stand_in_where_they_are_gone(
        self, two_views: Path, drawn: list, tmp_path: Path, capsys, monkeypatch
    ):
        from benchkit.datasets.scene_pairs import ScenePairs

        monkeypatch.setattr(ScenePairs, "image", lambda self, view: np.zeros((128, 128, 3), np.uint8))
        assert self.show(two_views, "--items", "test/000001", "--out", str(tmp_path / "a.png")) == 0
        images = [image.get_array() for image in drawn[0][0].axes[0].get_images()]
        assert [image.shape for image in images] == [(96, 96, 3)] * 2
        assert min(image.mean() for image in images) > 20
        assert "thumbnails of 96 pixels" in capsys.readouterr().err
        assert "enlarged thumbnails" in drawn[0][2]

    def test_the_worst_come_first_by_the_headlines_error(self, two_views: Path, drawn: list, tmp_path: Path):
        assert self.show(two_views, "--out", str(tmp_path / "a.png")) == 0
        errors = self.errors(two_views)
        captions = drawn[0][1]
        assert [caption.split(":")[0] for caption in captions] == sorted(errors, key=lambda name: -errors[name])
        for name, said in (caption.split(": ") for caption in captions):
            start = f"R/t error {errors[name]:.3g} deg, " if np.isfinite(errors[name]) else "no estimate from "
            assert said.startswith(start)
            assert said.endswith(" matches")

    def test_colours_are_explained_and_no_text_is_cut(self, drawn: list, tmp_path: Path):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure, size = Figure(), np.array([64.0, 48])
        title, legend, caption = (" ".join([word] * 40) for word in ("title", "green: right;", "caption"))
        pairs.sheet(figure, [(caption, lambda axes: pairs.place(axes, (size, size), None))], title, legend)
        FigureCanvasAgg(figure).draw()
        boxes = [text.get_window_extent() for text in figure.texts]
        assert len(boxes) == 3
        for box in boxes:
            assert 0 <= box.x0 < box.x1 <= figure.bbox.width
            assert 0 <= box.y0 < box.y1 <= figure.bbox.height
        low, high = sorted(box.y0 for box in boxes)[1:], sorted(box.y1 for box in boxes)[:-1]
        assert all(above > below for above, below in zip(low, high, strict=True))  # none lies over another

    def test_plots_of_eval_have_one_of_all_tags(self, two_views: Path, tmp_path: Path, capsys, monkeypatch):
        from benchkit.viz import curves

        seen: list[dict] = []
        monkeypatch.setattr(curves, "cumulative", lambda figure, errors, *_: seen.append(dict(errors)))
        argv = ["eval", "relative_pose", "--outputs", str(two_views), "--plot", "--tag"]
        assert main([*argv, "one"]) == 0
        assert len(seen) == 1  # its own
        joint = two_views / "results" / "relative_pose" / "relative_pose_errors.png"
        assert not joint.exists()
        assert main([*argv, "one", "other"]) == 0
        assert f"picture: {joint}" in capsys.readouterr().out
        assert joint.stat().st_size > 1000
        assert {label: errors.tolist() for label, errors in seen[-1].items()} == {
            "one, 4 items": list(self.errors(two_views).values()),
            "other, 3 items": list(self.errors(two_views, "other").values()),
        }
        assert (two_views / "results" / "relative_pose" / "one" / "rel_pose_error_poselib.png").exists()
