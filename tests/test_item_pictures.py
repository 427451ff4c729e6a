"""Kinds of pictures of single items: neighbours, highest scores, keypoints, panels of maps; and where images come from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from tiny_experiments import exported

from benchkit import registry
from benchkit.errors import UsageError
from benchkit.eval._neighbours import nearest
from benchkit.experiments.draw import Images, draw_item, item_of, kinds_of
from benchkit.experiments.experiment import Experiment
from benchkit.experiments.files import TagFiles
from benchkit.viz import classification, matches, panels
from benchkit.viz.neighbours import Neighbour, draw_tiles, shortened


@pytest.fixture
def axes() -> Any:
    return Figure().subplots()


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


class TestNeighbours:
    def test_they_are_the_nearest_by_angle_without_the_item_itself(self):
        embedding = np.array([[2, 0], [0, 1], [1, 1], [-1, 0], [5, 1]], np.float32)
        rows, cosines = nearest(embedding, 0, 3)
        assert rows.tolist() == [4, 2, 1]
        np.testing.assert_allclose(cosines, [5 / 26**0.5, 0.5**0.5, 0], atol=1e-6)

    def test_equal_ones_come_in_the_order_of_their_names_and_nothing_lies_near_a_zero_vector(self):
        rows, cosines = nearest(np.array([[0, 0], [1, 0], [2, 0]], np.float32), 0)
        assert (rows.tolist(), cosines.tolist()) == ([1, 2], [0, 0])
        assert nearest(np.array([[1.0, 0], [1, 0], [1, 0]]), 2)[0].tolist() == [0, 1]

    def test_right_ones_stand_in_green(self, axes: Any):
        picture = np.zeros((4, 8, 3), np.uint8)
        draw_tiles(axes, [Neighbour(picture, ("cat",), None), Neighbour(None, ("0.9", "a" * 40), True),
                          Neighbour(picture, ("0.1",), False)])  # fmt: skip
        colours = [to_hex(patch.get_edgecolor()) for patch in axes.patches]
        assert colours[1:] == [to_hex("tab:green"), to_hex("tab:red")]
        assert texts(axes)[1] == "0.9\n" + "a" * 40
        assert len(axes.images) == 2

    def test_many_stand_as_the_room_has_it(self):
        tiles = [Neighbour(None, ("0.9",), True)] * 8
        for size, across in (((8, 1), 8), ((4, 3), 4), ((1, 8), 1)):
            axes = Figure(figsize=size).add_axes((0, 0, 1, 1))
            draw_tiles(axes, tiles)
            assert len({patch.get_x() for patch in axes.patches}) == across

    @pytest.mark.parametrize("inches", [1.5, 3, 6])
    def test_lines_below_one_touch_neither_the_next_one_nor_its_lines(self, inches: float):
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure = Figure(figsize=(inches, inches))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        draw_tiles(axes, [Neighbour(None, ("0.123", "a class of a long name m"), True)] * 8)
        figure.canvas.draw()
        boxes = [text.get_window_extent() for text in axes.texts]
        squares = [patch.get_window_extent() for patch in axes.patches]
        assert not any(one.overlaps(other) for k, one in enumerate(boxes) for other in [*boxes[k + 1 :], *squares])

    def test_the_middle_of_a_name_gives_way(self):
        assert shortened("staircase/left", 14) == "staircase/left"
        assert shortened("staircase/left", 7) == "sta…eft"


class TestHighestScores:
    def test_the_five_highest_and_the_true_class_with_its_place(self, axes: Any):
        scores = np.array([0.0, 7, 1, 6, 5, 4, 3, 2])
        classification.highest(axes, scores, np.arange(8), 2, [f"$c_{k}$" for k in range(8)], "logits")
        assert texts(axes) == ["$c_1$", "$c_3$", "$c_4$", "$c_5$", "$c_6$", "7. $c_2$"]
        assert [bar.get_width() for bar in axes.patches] == [7, 6, 5, 4, 3, 1]
        red, green = to_hex("tab:red"), to_hex("tab:green")
        assert [to_hex(bar.get_facecolor()) for bar in axes.patches] == [*[red] * 5, green]
        assert not any(text.get_parse_math() for text in axes.texts)

    def test_classes_that_do_not_compete_are_left_out(self, axes: Any):
        classification.highest(axes, np.array([9.0, 1, 2]), np.array([1, 2]), 2, ["a", "b", "c"], "votes")
        assert texts(axes) == ["c", "b"]


class TestKeypoints:
    def test_those_with_a_match_have_a_colour_of_their_own_and_all_are_counted(self, axes: Any):
        points = np.array([[1.0, 1], [2, 2], [3, 3]]), np.array([[4.0, 4]])
        sizes = [np.array([10, 10]), np.array([20, 20])]
        matches.draw_keypoints(axes, points, (np.array([True, False, False]), np.array([True])), sizes, None)
        assert texts(axes) == ["3 keypoints, 1 matched", "1 keypoints, 1 matched"]
        drawn = [(line.get_color(), len(line.get_xdata())) for line in axes.lines]
        assert drawn == [("tab:orange", 2), (matches.MARKED, 1), ("tab:orange", 0), (matches.MARKED, 1)]
        np.testing.assert_allclose(axes.lines[3].get_xydata(), [[10 + 0.1 + 2, 2]])  # half as large


class TestPanels:
    def item(self, image: np.ndarray | None) -> Any:
        depth = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
        meta = {"unit": "m"}
        fields = {"depth": depth}
        return SimpleNamespace(
            name="it",
            prediction=fields,
            target={**fields, "meta": meta},
            said={},
            framed=lambda size: image,
            image=image,
        )

    def family(self) -> Any:
        found = registry.find("eval", "depth")
        return found.build(found.settings())

    @pytest.mark.parametrize("name", panels.NAMES)
    def test_each_is_a_kind_of_its_own(self, axes: Any, name: str):
        self.family().kinds()[name](axes, self.item(np.zeros((3, 4, 3), np.uint8)))
        assert texts(axes)[0] == name
        assert axes.images[0].get_array().shape == (3, 4, 3)

    @pytest.mark.parametrize(
        ("name", "classes"), [("target", ["wall", "chair"]), ("prediction", ["wall"]), ("error", [])]
    )
    def test_of_a_mask_the_classes_in_it_are_named(self, axes: Any, name: str, classes: list[str]):
        found = registry.find("eval", "semantic_segmentation")
        item = self.item(None)
        item.prediction = {"mask": np.zeros((2, 3), np.uint8)}
        item.target = {
            "mask": np.array([[0, 0, 2], [0, 255, 255]], np.uint8),
            "meta": {"classes": ["wall", "sky", "chair"]},
        }
        found.build(found.settings()).kinds()[name](axes, item)
        legend = axes.get_legend()
        assert ([text.get_text() for text in legend.get_texts()] if legend else []) == classes

    def test_without_an_image_there_is_no_picture_of_it(self, axes: Any):
        with pytest.raises(UsageError, match="there is no image of it: neither the data set"):
            self.family().kinds()["image"](axes, self.item(None))
        self.family().kinds()["error"](axes, self.item(None))


def families() -> list[str]:
    return [name for name in registry.names("eval")]


@pytest.mark.parametrize("name", families())
def test_every_family_draws_its_own_picture_by_itself(name: str, axes: Any, monkeypatch: pytest.MonkeyPatch):
    found = registry.find("eval", name)
    family = found.build(found.settings())
    seen: list[Any] = []
    monkeypatch.setattr(family, "draw", lambda axes, *item: seen.append(item))
    kinds = family.kinds()
    next(iter(kinds.values()))(axes, SimpleNamespace(prediction=1, target=2, image=3))
    assert seen == [(1, 2, 3)]
    assert kinds_of(family) == list(kinds)


@pytest.fixture(scope="module")
def retrieval(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """A real tag of a colour histogram."""
    return exported(tmp_path_factory.mktemp("outputs"), "retrieval")


@pytest.mark.slow
class TestRealTags:
    def test_all_kinds_are_drawn_from_thumbnails_and_from_the_data_set(self, retrieval: Experiment):
        for kind in kinds_of(retrieval.family):
            for images in (None, Images()):
                axes = Figure().subplots()
                draw_item(axes, retrieval, retrieval.names[0], kind, images)
                assert axes.images

    def test_the_image_is_the_data_sets_own_where_it_is_there(self, retrieval: Experiment, monkeypatch):
        from benchkit.datasets.scenes import Scenes

        name = retrieval.names[3]
        with TagFiles(retrieval.folder) as files:
            image = item_of(files, name, Images().of(retrieval)).image
            assert image.shape == (32, 32, 3)
            np.testing.assert_allclose(image.astype(int), files.thumbnails(name)[0], atol=60)

            def gone(self: Any, view: str) -> None:
                raise OSError("moved")

            monkeypatch.setattr(Scenes, "image", gone)
            np.testing.assert_array_equal(item_of(files, name, Images().of(retrieval)).image, files.thumbnails(name)[0])

    def test_a_data_set_is_looked_through_once(self, retrieval: Experiment, monkeypatch):
        images = Images()
        assert images.of(retrieval) is images.of(Experiment(retrieval.folder))

    @pytest.mark.parametrize(
        ("item", "kind", "said"), [("nobody", "", "no item 'nobody'"), ("", "poem", "item, neighbours")]
    )
    def test_what_there_is_not_is_refused(self, retrieval: Experiment, axes: Any, item: str, kind: str, said: str):
        with pytest.raises(UsageError, match=said):
            draw_item(axes, retrieval, item or retrieval.names[0], kind)

    def test_files_are_closed_again(self, retrieval: Experiment, axes: Any, tmp_path: Path):
        import os

        before = set(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else set()
        draw_item(axes, retrieval, retrieval.names[0])
        assert len(set(os.listdir("/proc/self/fd")) - before) <= 1 if before else True
