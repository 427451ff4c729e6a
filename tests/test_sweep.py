"""One export, several tags: a tag per layer, a tag per value."""

from pathlib import Path
from typing import Any

import pytest
import tiny_models
from PIL import Image

from benchkit.commands.eval import main as eval_main
from benchkit.commands.run import main as run_main
from benchkit.eval import evaluate
from benchkit.export import export
from benchkit.export.job import Outcome


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three classes of four nearly one-coloured images."""
    for name, colour in {"red": (200, 10, 20), "green": (30, 220, 10), "blue": (0, 60, 180)}.items():
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (8, 8), tuple(c + 3 * number for c in colour)).save(folder / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture
def arguments(tmp_path: Path, photos: Path) -> list[str]:
    (tmp_path / "toy.yaml").write_text("model: {backbone: {name: tiny_models.ToyLayers}}\n")
    tiny_models.forwarded.clear()
    return [f"data.root={photos}", "model.batch_size=4"]


def test_a_tag_per_layer_from_one_forward(tmp_path: Path, arguments: list[str]):
    given: dict[str, Any] = {"arguments": [*arguments, "model.features.layers=all"], "outputs": tmp_path, "say": str}
    ends = export(tmp_path / "toy.yaml", "retrieval", **given)
    assert [end.tag for end in ends] == [f"toy@photos{suffix}" for suffix in ("", "+layer0", "+layer1", "+layer2")]
    assert [end.place for end in ends] == [("layer", 3.0), ("layer", 0.0), ("layer", 1.0), ("layer", 2.0)]
    assert sum(tiny_models.forwarded) >= 12
    real = [n for n in tiny_models.forwarded if n > 1]
    assert real.count(4) <= 3 + 2  # three batches, and the two of the check that neighbours do not matter
    scores = {end.tag: evaluate("retrieval", end.tag, outputs=tmp_path).summaries["mAP"] for end in ends}
    assert scores["toy@photos+layer0"] < 0.5 < scores["toy@photos+layer2"] == scores["toy@photos"] == 1
    layers = {end.tag: evaluate("retrieval", end.tag, outputs=tmp_path).record["protocol"]["layers"] for end in ends}
    assert list(layers.values()) == ["final", 0, 1, 2]


def test_a_layer_of_a_sweep_is_the_layer_alone(tmp_path: Path, arguments: list[str]):
    export(
        tmp_path / "toy.yaml",
        "retrieval",
        arguments=[*arguments, "model.features.layers=all"],
        outputs=tmp_path / "a",
        say=str,
    )
    alone = [*arguments, "model.features.layers=1"]
    export(tmp_path / "toy.yaml", "retrieval", arguments=alone, tag="alone", outputs=tmp_path / "b", say=str)
    swept = evaluate("retrieval", "toy@photos+layer1", outputs=tmp_path / "a")
    single = evaluate("retrieval", "alone", outputs=tmp_path / "b")
    assert swept.record["files"]["predictions.h5"]["content"] == single.record["files"]["predictions.h5"]["content"]
    assert swept.record["fingerprint"] == single.record["fingerprint"]


def test_again_nothing_is_done(tmp_path: Path, arguments: list[str]):
    given: dict[str, Any] = {"arguments": [*arguments, "model.features.layers=all"], "outputs": tmp_path, "say": str}
    export(tmp_path / "toy.yaml", "retrieval", **given)
    ends = export(tmp_path / "toy.yaml", "retrieval", **given)
    assert all(isinstance(end, Outcome) and end.state == "unchanged" for end in ends)


def test_a_model_with_one_layer_has_one_tag(tmp_path: Path, photos: Path):
    ends = export(
        "color_histogram", "retrieval", arguments=[f"data.root={photos}", "model.features.layers=all"],
        outputs=tmp_path, say=str,
    )  # fmt: skip
    assert [end.tag for end in ends] == ["color_histogram@photos"]


def test_the_command_shows_a_row_per_tag_and_a_picture(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
):
    given = ["--conf", str(tmp_path / "toy.yaml"), "--outputs", str(tmp_path), "--benchmark", "retrieval"]
    assert run_main([*given, *arguments, "model.features.layers=all", "--format", "csv"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("benchmark,tag,mAP,low,high,recall@1")
    assert [line.split(",")[1] for line in out[1:5]] == [f"toy@photos+layer{n}" for n in range(3)] + ["toy@photos"]
    assert (tmp_path / "results/retrieval/toy@photos-layer.png").read_bytes().startswith(b"\x89PNG")
    assert eval_main(["retrieval", "--tag", "toy@photos+layer*", "--outputs", str(tmp_path), "--format", "csv"]) == 0
    assert {line.split(",")[1] for line in capsys.readouterr().out.splitlines()[1:] if "," in line} == {
        f"toy@photos+layer{n}" for n in range(3)
    }


def test_two_things_at_once_are_refused(tmp_path: Path, arguments: list[str]):
    given = [*arguments, "model.features.layers=all", "model.head.name=ridge", "model.head.shots=1,2"]
    ends = export(tmp_path / "toy.yaml", "classification", arguments=given, outputs=tmp_path, say=str)
    assert len(ends) == 1
    assert "sweep one thing at a time" in str(ends[0])


def test_a_tag_per_number_of_shots(tmp_path: Path, arguments: list[str]):
    given = [*arguments, "data.test_fraction=0.5", "model.head.name=ridge", "model.head.shots=1,2"]
    ends = export(tmp_path / "toy.yaml", "classification", arguments=given, outputs=tmp_path, say=str)
    assert [(end.tag, end.place) for end in ends] == [
        ("toy+ridge@photos+1shot", ("shots", 1.0)),
        ("toy+ridge@photos+2shot", ("shots", 2.0)),
    ]
    records = [evaluate("classification", end.tag, outputs=tmp_path).record for end in ends]
    assert [record["head"]["log"]["shots"] for record in records] == [1, 2]
