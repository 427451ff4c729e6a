"""Plots of whole sets: what is drawn is what the records say, as PNG and PDF."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from tiny_experiments import another, exported, noisy

from benchkit.experiments.experiment import Experiment
from benchkit.experiments.pictures import save_plots
from benchkit.experiments.plots import joint_plots, layer_plot, plots
from benchkit.viz import series

HOSTILE = "_<img src=x onerror=alert(1)> $x_"


@pytest.fixture(scope="module")
def tags(tmp_path_factory: pytest.TempPathFactory) -> list[Experiment]:
    """A tag, and one whose predictions are noisier, which has a hostile name."""
    first = exported(tmp_path_factory.mktemp("outputs"))
    return [first, another(first, HOSTILE, noisy(2.0))]


def drawn(draw) -> Figure:
    figure = Figure()
    draw(figure)
    return figure


def as_layer(experiment: Experiment, layer: int | str, value: float) -> Experiment:
    """The same experiment as if of another layer, with another headline."""
    twin = Experiment(experiment.folder)
    record = experiment.record
    features = {**record["conf"]["model"]["features"], "layers": layer}
    conf = {**record["conf"], "model": {**record["conf"]["model"], "features": features}}
    headline = next(iter(record["scores"]))
    score = {**record["scores"][headline], "value": value, "interval": [value - 0.1, value + 0.1], "floor": 0.05}
    backbone = {**record["backbone"], "depth": 12}
    twin.record = {**record, "conf": conf, "backbone": backbone, "scores": {**record["scores"], headline: score}}
    return twin


class TestByCategory:
    def test_bars_are_the_scores_of_the_record_with_their_intervals(self, tags: list[Experiment]):
        axes = drawn(plots(tags[0])["by_category"]).axes[0]
        breakdown = tags[0].record["breakdown"]
        known = {
            name.removeprefix("top1/"): each["value"] for name, each in breakdown.items() if each["value"] is not None
        }
        labels = [text.get_text() for text in axes.get_yticklabels()]
        assert len(labels) == len(known) > 3
        assert [bar.get_width() for bar in axes.patches] == [known[label] for label in labels]
        assert [known[label] for label in labels] == sorted(known.values(), reverse=True)

    def test_several_tags_stand_side_by_side(self, tags: list[Experiment]):
        axes = drawn(joint_plots(tags)["by_category"]).axes[0]
        assert [text.get_text().strip() for text in axes.get_legend().get_texts()] == [tags[0].tag, HOSTILE]
        bars = [each for each in axes.containers if isinstance(each, BarContainer)]
        values = [sum(bar.get_width() for bar in container.patches) for container in bars]
        told = [sum(each["value"] or 0 for each in tag.record["breakdown"].values()) for tag in tags]
        assert values == pytest.approx(told)

    def test_of_many_classes_the_lowest_and_the_highest_are_shown_and_the_rest_counted(self):
        scores = {f"class {i:03}": series.Score(i / 100, i / 100, i / 100) for i in range(100)}
        axes = drawn(lambda figure: series.by_category(figure, {"tag": scores}, "top1")).axes[0]
        labels = [text.get_text() for text in axes.get_yticklabels()]
        assert (labels[0], labels[-1], len(labels)) == ("class 099", "class 000", series.MOST)
        assert axes.get_xlabel() == "top1, 95 % interval (40 of 100 left out)"


class TestLayers:
    def test_a_line_for_each_model_with_final_at_its_depth(self, tags: list[Experiment]):
        found = [as_layer(tags[0], "final", 0.9), as_layer(tags[0], 3, 0.2), as_layer(tags[0], 7, 0.5)]
        axes = drawn(layer_plot(found)["layers"]).axes[0]
        line = axes.lines[0]
        assert line.get_xydata().tolist() == [[3, 0.2], [7, 0.5], [12, 0.9]]
        assert axes.lines[1].get_ydata()[0] == 0.05
        band = axes.collections[0].get_paths()[0].vertices
        assert [band[:, 1].min(), band[:, 1].max()] == pytest.approx([0.1, 1.0])

    def test_one_layer_is_no_line(self, tags: list[Experiment]):
        assert layer_plot(tags) == {}

    def test_other_data_are_another_line(self, tags: list[Experiment]):
        pair = [as_layer(tags[0], 3, 0.2), as_layer(tags[0], 7, 0.5)]
        pair[1].record = {**pair[1].record, "protocol": {**pair[1].record["protocol"], "dataset_id": "another"}}
        assert layer_plot(pair) == {}


def test_plots_are_left_as_png_and_pdf_and_equal_ones_have_equal_bytes(tags: list[Experiment], tmp_path: Path):
    found = save_plots(tmp_path / "a", plots(tags[1]), HOSTILE)
    assert {path.stem for path in found} == {"confusion", "reliability", "by_category"}
    save_plots(tmp_path / "b", plots(tags[1]), HOSTILE)
    for path in found:
        pdf = path.with_suffix(".pdf")
        assert path.read_bytes().startswith(b"\x89PNG")
        assert pdf.read_bytes().startswith(b"%PDF")
        assert pdf.read_bytes() == (tmp_path / "b" / pdf.name).read_bytes()


def test_an_undefined_score_is_no_point():
    assert series.Score.of({"value": None, "interval": None}) is None
    assert series.Score.of({"value": 0.5, "interval": None}) == series.Score(0.5, 0.5, 0.5)
    lines = {"a": {1.0: series.Score(0.5, 0.5, 0.5)}}
    axes = drawn(lambda figure: series.against(figure, lines, {}, "layer", "mAP")).axes[0]
    assert np.allclose(axes.lines[0].get_xydata(), [[1, 0.5]])
