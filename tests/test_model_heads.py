"""Heads that ask the model itself: zero-shot from its text tower, and its own classifier."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from PIL import Image

from benchkit.errors import BenchkitError, UsageError
from benchkit.eval import evaluate
from benchkit.export import export
from benchkit.export.job import Outcome
from benchkit.heads.base import ModelSide
from benchkit.heads.classifier import Classifier
from benchkit.heads.classifier import Settings as ClassifierSettings
from benchkit.heads.zeroshot import Settings as ZeroshotSettings
from benchkit.heads.zeroshot import Zeroshot, class_names, templates_of
from benchkit.provenance.record import read_record
from benchkit.store.items import ArrayItems
from benchkit.store.table import Table

COLOURS = {"red": (200, 10, 20), "green": (30, 220, 10), "blue": (0, 60, 180), "grey": (100, 100, 100)}
Run = Callable[..., Any]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two one-coloured images in each of four classes."""
    for name, colour in COLOURS.items():
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(2):
            Image.new("RGB", (8 + number, 9), colour).save(folder / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture
def run(tmp_path: Path, photos: Path) -> Run:
    """Export a model of tiny_models on the photos with a head."""

    def work(model: str, head: str, *settings: str, **options: Any) -> Outcome:
        conf = tmp_path / f"{model}.yaml"
        conf.write_text(f"model: {{backbone: {{name: tiny_models.{model}}}}}\n")
        given = [f"data.root={photos}", f"model.head.name={head}", "model.batch_size=4", *settings]
        tiny_models.ToyClip.texts_seen.clear()
        end = export(conf, "classification", arguments=given, outputs=tmp_path / "outputs", say=str, **options)[0]
        if isinstance(end, BenchkitError):
            raise end
        return end

    return work


def scores_of(outcome: Outcome) -> dict[str, np.ndarray]:
    with Table(outcome.folder / "predictions.h5", "predictions") as table:
        return {name: table.item("scores", row) for row, name in enumerate(table.names)}


def unit(vector: Any) -> np.ndarray:
    vector = np.asarray(vector, np.float64)
    return vector / np.linalg.norm(vector)


class TestZeroshot:
    TEMPLATES = "model.head.templates=[big {}, r{}g]"

    def test_arithmetic_by_hand(self, run: Run):
        """Classes in name order: blue, green, grey, red. `big red` has r 1, g 1, b 1; `rredg` r 2, g 1, b 0; and so on."""
        outcome = run("ToyClip", "zeroshot", self.TEMPLATES)
        letters = {  # numbers of r, g, b in both prompts
            "blue": [(0, 1, 2), (1, 1, 1)],
            "green": [(1, 2, 1), (2, 2, 0)],
            "grey": [(1, 2, 1), (2, 2, 0)],
            "red": [(1, 1, 1), (2, 1, 0)],
        }
        classes = np.stack([unit(sum(unit(v) for v in both) / 2) for both in letters.values()])
        for name, scores in scores_of(outcome).items():
            image = unit(COLOURS[name.split("/")[0]])
            np.testing.assert_allclose(scores, 10 * classes @ image, rtol=1e-5, err_msg=name)
        summary = evaluate("classification", outcome.tag, outputs=outcome.folder.parents[2]).summaries
        assert summary["top1/red"] == 1
        assert summary["top1/green"] == summary["top1/grey"] == 0  # green and grey have one direction: ties are wrong

    def test_prompts_are_banked(self, run: Run):
        first = run("ToyClip", "zeroshot", self.TEMPLATES)
        assert sorted(set(tiny_models.ToyClip.texts_seen)) == sorted(
            [f"big {name}" for name in COLOURS] + [f"r{name}g" for name in COLOURS]
        )
        again = run("ToyClip", "zeroshot", self.TEMPLATES, tag="again")
        assert tiny_models.ToyClip.texts_seen == []
        assert again.forwards == 0
        one, other = scores_of(first), scores_of(again)
        assert all(np.array_equal(one[name], other[name]) for name in one)

    def test_new_templates_embed_only_themselves(self, run: Run):
        run("ToyClip", "zeroshot", "model.head.templates=[big {}]")
        run("ToyClip", "zeroshot", "model.head.templates=[big {}, small {}]", tag="more")
        with_new = set(tiny_models.ToyClip.texts_seen)
        assert {f"small {name}" for name in COLOURS} <= with_new

    def test_the_record_holds_the_hash_of_the_templates(self, run: Run):
        records = [
            read_record(run("ToyClip", "zeroshot", f"model.head.templates=[{t}]", tag=tag).folder)
            for tag, t in (("a", "big {}"), ("b", "big {}"), ("c", "bad {}"))
        ]
        hashes = [r["protocol"]["head_facts"]["templates"] for r in records]
        assert hashes[0] == hashes[1] != hashes[2]
        assert records[0]["fingerprint"] != records[2]["fingerprint"]

    def test_names_of_classes(self, run: Run):
        outcome = run("ToyClip", "zeroshot", "model.head.templates=[{}]", "model.head.names.grey=rgb")
        scores = scores_of(outcome)["grey/0.png"]
        assert int(scores.argmax()) == 2
        assert scores[2] == pytest.approx(10, rel=1e-5)  # grey lies on the diagonal, and so does "rgb"
        with pytest.raises(UsageError, match=r"names\.mauve"):
            run("ToyClip", "zeroshot", "model.head.names.mauve=x", tag="odd")

    def test_wordnet_ids_get_the_names_of_the_paper(self):
        names = class_names({"classes": ["n02110341", "n01440764", "big_cat"]}, {})
        assert names == ["Dalmatian", "tench", "big cat"]
        assert class_names({"classes": ["n02110341"], "class_names": ["spotted dog"]}, {}) == ["spotted dog"]

    def test_templates(self, tmp_path: Path):
        (tmp_path / "mine.txt").write_bytes(b"\xef\xbb\xbfa {}.\r\n\r\nmy {}\r\n")
        assert templates_of(str(tmp_path / "mine.txt")) == ["a {}.", "my {}"]
        assert templates_of("photo") == ["a photo of a {}."]
        assert [len(templates_of(name)) for name in ("openai80", "openai7")] == [80, 7]
        assert templates_of("openai80")[0] == "a bad photo of a {}."
        with pytest.raises(UsageError, match="has no"):
            templates_of("a photo")

    def test_needs_a_text_tower(self, run: Run):
        with pytest.raises(UsageError, match="reads proj@final"):
            run("ToyLabelled", "zeroshot", "model.features.layers=final")
        head = Zeroshot(ZeroshotSettings())
        with pytest.raises(UsageError, match="no text tower"):
            head.prepare(ModelSide("resnet"), {"classes": ["a", "b"]})

    def test_layers_have_no_use(self, run: Run):
        with pytest.raises(UsageError, match="drop them"):
            run("ToyClip", "zeroshot", "model.features.layers=0")

    def test_rows_do_not_depend_on_their_neighbours(self):
        head = Zeroshot(ZeroshotSettings(templates=["{}"]))
        head.prepare(ModelSide("toy", (), 100.0, -3.0), {"classes": ["a", "b"]})
        rng = np.random.default_rng(0)
        head.read_texts(rng.normal(size=(2, 64)).astype(np.float32))
        rows = rng.normal(size=(1500, 64)).astype(np.float32)
        whole = head.predict("k", ArrayItems(list(map(str, range(1500))), {"k": rows}), 1)["scores"]
        alone = head.predict("k", ArrayItems(["7"], {"k": rows[7:8]}), 1)["scores"]
        assert np.array_equal(whole[7:8], alone)
        expected = 100 * unit(rows[7]) @ head.classes.T - 3
        np.testing.assert_allclose(alone[0], expected, rtol=1e-4)

    def test_a_shard_leaves_prompts_to_others(self, run: Run):
        """Eight prompts are two batches of four: each shard embeds one, and the second finds all there."""
        first = run("ToyClip", "zeroshot", self.TEMPLATES, shard="0/2")
        assert first.state == "waiting"
        assert len(tiny_models.ToyClip.texts_seen) == 4
        with pytest.raises(UsageError, match="not in the bank yet"):
            run("ToyClip", "zeroshot", self.TEMPLATES, finish=True)
        second = run("ToyClip", "zeroshot", self.TEMPLATES, shard="1/2")
        assert second.state == "finished"
        whole = run("ToyClip", "zeroshot", self.TEMPLATES, tag="whole")
        assert all(np.array_equal(scores_of(second)[n], s) for n, s in scores_of(whole).items())


class TestClassifier:
    def test_by_hand(self, run: Run):
        """red and blue have labels by name, green by the map, grey none: three columns of logits, the fourth never wins."""
        outcome = run("ToyLabelled", "classifier", "model.head.map.green=n00000002")
        for name, scores in scores_of(outcome).items():
            red, green, blue = COLOURS[name.split("/")[0]]
            np.testing.assert_allclose(scores[[0, 1, 3]], [blue, green, red], rtol=1e-5)
            assert scores[2] == -np.inf
        end = evaluate("classification", outcome.tag, outputs=outcome.folder.parents[2])
        assert end.summaries["top1"] == 1
        assert end.summaries["n_undefined_top1"] == 2
        assert end.summaries["top1/grey"] is None
        assert end.summaries["floor_top1"] == pytest.approx(1 / 3)
        assert end.summaries["covered_classes"] == 3
        assert end.record["protocol"]["head_facts"] == {"covered": ["blue", "green", "red"]}

    def test_calibration_and_likelihood_leave_out_the_uncovered(self, run: Run):
        outcome = run("ToyLabelled", "classifier")
        items = evaluate("classification", outcome.tag, outputs=outcome.folder.parents[2]).items
        for name, nll, sure, answer in zip(
            items["names"], items["nll"], items["stats/confidence"], items["stats/predicted"], strict=True
        ):
            label = name.split("/")[0]
            if label in ("green", "grey"):
                assert np.isnan([nll, sure]).all()
                assert answer == -1
            else:
                red, _, blue = COLOURS[label]
                share = 1 / (1 + np.exp(-abs(red - blue)))
                assert sure == pytest.approx(share)
                assert nll == pytest.approx(-np.log(share), abs=1e-9)
                assert answer == (3 if label == "red" else 0)

    def prepared(self, classes: list[str], labels: list, **settings: Any) -> Classifier:
        head = Classifier(ClassifierSettings(**settings))
        head.prepare(ModelSide("toy", labels), {"classes": classes})
        return head

    def test_matching(self):
        labels = [
            ("n02012849", ("crane",)),
            ("n03126707", ("crane",)),
            ("n02124075", ("Egyptian cat",)),
            ("", ("cup",)),
        ]
        head = self.prepared(["crane", "egyptian_cat", "Cup", "n03126707"], labels)
        assert head.matching.matched == {1: [2], 2: [3], 3: [1]}
        assert head.matching.ambiguous[0].startswith("crane (n02012849 / crane")
        head = self.prepared(["crane", "cup"], labels, map={"crane": "n02012849"})
        assert head.matching.matched == {0: [0], 1: [3]}

    def test_several_labels_of_a_class_add_up(self):
        labels = [("", ("tabby",)), ("", ("lynx",)), ("", ("pug",))]
        head = self.prepared(["cat", "dog"], labels, map={"cat": "tabby, lynx", "dog": "pug"})
        logits = np.log(np.array([[0.3, 0.3, 0.4]], np.float32))
        scores = head.predict("k", ArrayItems(["a"], {"k": logits}), 1)["scores"]
        np.testing.assert_allclose(np.exp(scores), [[0.6, 0.4]], rtol=1e-6)

    def test_readable_names_match_too(self):
        head = Classifier(ClassifierSettings())
        meta = {"classes": ["c1", "c2"], "class_names": ["Pug", "lynx"]}
        head.prepare(ModelSide("toy", [("", ("lynx",)), ("", ("pug", "pug-dog"))]), meta)
        assert head.matching.matched == {0: [1], 1: [0]}

    @pytest.mark.parametrize(
        ("classes", "mapping", "message"),
        [
            (["a", "b"], {}, "0 of the data set's classes"),
            (["cup", "b"], {}, "1 of the data set's classes"),
            (["cup", "b"], {"c": "cup"}, "has no class 'c'"),
            (["cup", "b"], {"b": "teapot"}, "fits 0 labels"),
            (["cup", "b"], {"b": "crane"}, "fits 2 labels"),
            (["cup", "b"], {"b": "cup"}, "is matched to cup and b"),
        ],
    )
    def test_what_does_not_fit_is_said(self, classes: list[str], mapping: dict[str, str], message: str):
        labels = [("n1", ("crane",)), ("n2", ("crane",)), ("", ("cup",))]
        with pytest.raises(UsageError, match=message):
            self.prepared(classes, labels, map=mapping)

    def test_a_model_without_names(self, run: Run):
        with pytest.raises(UsageError, match="nobody says what the classes"):
            self.prepared(["a", "b"], [])
        with pytest.raises(UsageError, match="reads logits@final"):
            run("ToyClip", "classifier")


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("conf", "weights"),
    [
        ("efficientnet_lite0", "tf_efficientnet_lite0"),
        ("mobilenetv2", "mobilenetv2_100_samepad_tf2ptq"),
    ],
)
def test_real_classifiers_on_real_photos(conf: str, weights: str, shared: Path, tmp_path: Path):
    """Seven of the 22 classes have ImageNet's names; decoding, resizing, normalisation and label order are right together."""
    given = [f"data.root={shared / 'data/caltech101_subset'}", "model.head.name=classifier"]
    file = shared / f"weights/timm_converted/{weights}.fp16.safetensors"
    export(conf, "classification", arguments=given, checkpoint=file, tag="own", outputs=tmp_path, say=str)
    end = evaluate("classification", "own", outputs=tmp_path)
    assert end.summaries["covered_classes"] == 7
    assert end.summaries["top1"] > 0.95
    assert end.summaries["n_undefined_top1"] == 300
