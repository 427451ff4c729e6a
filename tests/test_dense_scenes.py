"""Dense probes on generated scenes, from images to scores: training helps, and what has slipped is seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchkit.eval import evaluate
from benchkit.export import export
from benchkit.metrics.intervals import bootstrap
from benchkit.registry import find
from benchkit.store.features import TagFeatures
from benchkit.store.items import TableItems
from benchkit.store.table import Table

FAMILIES = ("depth", "generic_segmentation", "normals", "semantic_segmentation")
CONF = "efficientnet_lite0"
# Two stages, BatchNorm, and a rate at which 100 steps are enough: at the defaults no head is trained to its end on so few
# images, and depth from the last stage alone, 7 x 7 cells, is no better with trained weights than with random ones.
HEAD = ("model.features.layers=3,4", "model.head.batchnorm=true", "model.head.lr=0.01", "model.head.epochs=4")
TAGS = {False: CONF, True: f"{CONF}+random"}


def columns_of(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Per-item columns of a tag's predictions, and of its floor."""
    record = json.loads((folder / "record.json").read_text())
    component = find("eval", record["family"])
    family = component.build(component.settings(**record["conf"]["eval"]))
    with Table(folder / "predictions.h5") as predicted, Table(folder / "targets.h5") as true:
        targets = TableItems(true)
        predictions = TableItems(predicted, targets.names)
        learned = {n.removeprefix("floor/"): predicted.read_whole(n) for n in predicted.whole if n.startswith("floor/")}
        if family.floor_head is None:
            return family.score(predictions, targets), family.chance(targets, predictions)
        return family.score(predictions, targets), family.score(family.constant(learned, targets), targets)


def gain(name: str, first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> Any:
    """How much better the first is in the headline, and the 95 % interval of it over the same resampled items."""
    component = find("eval", name)
    family = component.build(component.settings())
    headline = family.metrics()[0]
    sign = 1 if headline.better == "higher" else -1

    def better(columns: Mapping[str, np.ndarray]) -> dict[str, float]:
        one, other = ({k[2:]: v for k, v in columns.items() if k.startswith(which)} for which in ("1/", "2/"))
        return {"gain": sign * (family.summarize(one)[headline.name] - family.summarize(other)[headline.name])}

    both = {**{f"1/{k}": v for k, v in first.items()}, **{f"2/{k}": v for k, v in second.items()}}
    return better(both)["gain"], bootstrap(both, better, n_resamples=500, seed=0)["gain"]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dense")
    for random in TAGS:
        ends = export(
            CONF,
            FAMILIES,
            random=random,
            arguments=["data.n_train=200", "data.n_test=100", *HEAD],
            outputs=root,
            say=lambda _: None,
        )
        assert [end.state for end in ends] == ["finished"] * len(FAMILIES)
    return root


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_training_beats_its_random_twin_and_the_floor(name: str, outputs: Path):
    folders = {random: outputs / "results" / name / tag for random, tag in TAGS.items()}
    found = {tag: evaluate(name, tag, outputs=outputs).summaries for tag in TAGS.values()}
    (trained, floor), (twin, _) = columns_of(folders[False]), columns_of(folders[True])
    for other in (twin, floor):
        value, interval = gain(name, trained, other)
        assert interval is not None
        assert interval[0] > 0, (value, interval)
    headline = next(iter(found[CONF]))
    assert found[CONF][f"floor_{headline}"] < found[CONF][headline] < found[CONF][f"ceiling_{headline}"]


@pytest.mark.slow
@pytest.mark.long
def test_dpt_learns_depth_of_four_stages(tmp_path: Path):
    """32 channels, 24 scenes: well above the floor, and above the same stages through a linear head."""
    found = {}
    for head, more in (
        ("dpt", ["model.head.hidden=32", "model.head.lr=0.003"]),
        ("dense_linear", ["model.head.lr=0.01"]),
    ):
        arguments = [
            "data.n_train=24",
            "data.n_test=12",
            f"model.head.name={head}",
            "model.features.layers=1,2,3,4",
            *more,
        ]
        arguments += ["model.head.batchnorm=true", "model.head.batch_size=4", "model.head.epochs=6"]
        (end,) = export(CONF, "depth", arguments=arguments, tag=head, outputs=tmp_path, say=lambda _: None)
        found[head] = evaluate("depth", end.tag, outputs=tmp_path).summaries
    assert found["dpt"]["d1"] > found["dense_linear"]["d1"] > found["dpt"]["floor_d1"] + 0.05


@pytest.mark.slow
def test_the_source_of_normals_is_in_the_record(outputs: Path):
    record = json.loads((outputs / "results" / "normals" / CONF / "record.json").read_text())
    assert record["data"]["truth"] == {"normals_from": "the rendered surfaces, exact"}


def test_maps_of_half_the_cells_are_the_means_of_the_whole_ones(tmp_path: Path):
    """14 x 14 cells of stage 3 become 7 x 7, in a bank of its own under another fingerprint; 7 cells of stage 4 do not halve."""
    records, maps = {}, {}
    for stride in (1, 2):
        arguments = [
            "data.n_train=2",
            "data.n_test=2",
            "model.batch_size=2",
            "model.head.epochs=2",
            "model.random=true",
        ]
        arguments += [
            "model.features.layers=3",
            f"model.features.dense_stride={stride}",
            "model.features.dense_dtype=float32",
        ]
        (end,) = export(CONF, "depth", arguments=arguments, tag=f"s{stride}", outputs=tmp_path, say=lambda _: None)
        records[stride] = json.loads((end.folder / "record.json").read_text())
        with TagFeatures(end.folder, ["test/000000"]) as features:
            maps[stride] = np.array(features.item("patch@3", 0), np.float32)
    assert (maps[1].shape[1:], maps[2].shape[1:]) == ((14, 14), (7, 7))
    means = maps[1].reshape(-1, 7, 2, 7, 2).mean(axis=(2, 4))
    np.testing.assert_allclose(maps[2], means, rtol=1e-5, atol=1e-6)
    assert records[1]["backbone"]["identity_hash"] != records[2]["backbone"]["identity_hash"]
    assert "dense_stride" not in records[1]["protocol"]
    assert records[2]["protocol"]["dense_stride"] == 2
    (end,) = export(CONF, "depth", arguments=[*arguments, "model.features.layers=4"], tag="odd", outputs=tmp_path)
    assert "does not divide the 7 x 7 cells of patch@4" in str(end)
