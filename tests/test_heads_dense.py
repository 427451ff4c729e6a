"""Dense heads on small maps in real files: what they learn, and that nothing else changes what they learn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_maps import Tag, values
from torch.nn import functional

from benchkit.commands._tables import _about_head
from benchkit.errors import RunError, UsageError
from benchkit.heads import dense_linear, dpt
from benchkit.heads.base import ModelSide
from benchkit.heads.constant import Constant
from benchkit.heads.solvers import dense_fit, dense_grid, dense_training
from benchkit.heads.solvers.dense_classes import Semantic
from benchkit.heads.solvers.dense_nets import Linear
from benchkit.heads.solvers.dense_source import Samples
from benchkit.heads.solvers.sizes import read_bytes
from benchkit.store.items import ArrayItems

GRID, FRAME, COUNT = 5, (20, 20), 12
MASKS = {"classes": ["a", "b"], "ignore": 255}
FAST = {"lr": 0.05, "epochs": 3, "warmup_epochs": 0.5}


def resized(values: np.ndarray, frame: tuple[int, int] = FRAME) -> np.ndarray:
    found = functional.interpolate(
        torch.from_numpy(np.asarray(values, np.float32))[None], size=frame, mode="bilinear", align_corners=False
    )
    return found[0].numpy()


def random_maps(count: int = COUNT, shape: tuple[int, int, int] = (4, GRID, GRID), seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.normal(size=shape).astype(np.float16) for _ in range(count)]


def truth_of(task: str, maps: list[np.ndarray], frame: tuple[int, int] = FRAME) -> dict[str, list[np.ndarray]]:
    """Truth that a 1x1 convolution can tell: of the resized first channels."""
    wide = [resized(each, frame) for each in maps]
    if task in ("semantic", "binary"):
        return {"mask": [(each[0] > 0).astype(np.uint8) for each in wide]}
    if task == "depth":
        return {"depth": [np.clip(4 + each[0], 0.5, 9).astype(np.float32) for each in wide]}
    if task == "normals":
        vectors = [np.moveaxis(np.stack([each[0], each[1], np.full_like(each[0], -2)]), 0, 2) for each in wide]
        return {"normals": [(v / np.linalg.norm(v, axis=2, keepdims=True)).astype(np.float32) for v in vectors]}
    return {"map": [(3 + 0.01 * each[0]).astype(np.float32) for each in wide]}


TASKS = ("semantic", "binary", "depth", "normals", "maps")


def head_of(module: Any, task: str, **settings: Any) -> Any:
    head = module.build(module.Settings(**settings))
    head.prepare(ModelSide("tiny"), {"task": task})
    return head


def fitted(tag: Tag, task: str, module: Any = dense_linear, rows: Any = None, seed: int = 0, **settings: Any) -> Any:
    head = head_of(module, task, **settings)
    with tag.opened(rows) as (maps, truth):
        head.fit(tag.key, maps, truth, seed, 1)
    return head


def predicted(head: Any, tag: Tag, rows: Any = None) -> tuple[Any, np.ndarray]:
    with tag.opened(rows) as (maps, _):
        columns = head.predict(tag.key, maps, 1)
        (field,) = columns.keys() - {"grid"}
        return values(columns[field]), columns["grid"]


def same(one: Any, other: Any) -> bool:
    """Equal states in bits."""
    first, second = one.state(), other.state()
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def tags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tag]:
    """A tag per task."""
    maps = random_maps()
    return {
        task: Tag(tmp_path_factory.mktemp(task), {"patch@final": maps}, truth_of(task, maps), MASKS, parts=5)
        for task in TASKS
    }


class TestLearning:
    @pytest.mark.parametrize("task", ["semantic", "binary"])
    def test_the_sign_of_a_channel(self, tags: dict[str, Tag], task: str):
        head = fitted(tags[task], task, lr=0.3, epochs=40)
        masks, grid = predicted(head, tags[task])
        with tags[task].opened() as (_, truth):
            assert (masks == truth.read("mask")).mean() > 0.99
        assert masks.dtype == np.uint8
        assert grid.tolist() == [[GRID, GRID]] * COUNT
        assert head.log()["train_pixel_acc"] > 0.98

    @pytest.mark.parametrize(("task", "least"), [("depth", 0.95), ("maps", 0.99)])
    def test_a_channel(self, tags: dict[str, Tag], task: str, least: float):
        head = fitted(tags[task], task, lr=0.1, epochs=30)
        numbers, _ = predicted(head, tags[task])
        with tags[task].opened() as (_, truth):
            true = truth.read(head.fitted.task.field)
        assert numbers.dtype == np.float32
        assert np.corrcoef(numbers.ravel(), true.ravel())[0, 1] > least
        assert np.abs(numbers - true).mean() < 0.4 * np.abs(true - np.median(true)).mean()

    @pytest.mark.parametrize("loss", ["uncertainty", "angular"])
    def test_directions(self, tags: dict[str, Tag], loss: str):
        head = fitted(tags["normals"], "normals", lr=0.1, epochs=30, loss=loss)
        vectors, _ = predicted(head, tags["normals"])
        with tags["normals"].opened() as (_, truth):
            angle = np.degrees(np.arccos(np.clip((vectors * truth.read("normals")).sum(-1), -1, 1)))
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1, atol=1e-5)
        assert angle.mean() < 5
        assert head.log().get("collapsed") == (0.0 if loss == "uncertainty" else None)

    @pytest.mark.parametrize("task", TASKS)
    def test_dpt_learns_too(self, tmp_path: Path, task: str):
        maps = random_maps(6)
        tag = Tag(tmp_path, {"patch@2": maps, "patch@5": random_maps(6, seed=1)}, truth_of(task, maps), MASKS)
        head = fitted(tag, task, dpt, hidden=8, lr=0.02, epochs=12)
        log = head.log()
        assert log["train_loss"] < log["train_loss_first"] - 0.05 * abs(log["train_loss_first"])
        answers, grid = predicted(head, tag)
        assert answers.shape == (6, *FRAME) + ((3,) if task == "normals" else ())
        assert grid.tolist() == [[8 * GRID, 8 * GRID]] * 6

    def test_a_step_is_torchs(self, tags: dict[str, Tag]):
        """The same weights after an epoch of plain torch: interpolation, cross-entropy, AdamW, the schedule."""
        tag = tags["semantic"]
        head = fitted(tag, "semantic", epochs=2, warmup_epochs=0.5, batch_size=5, lr=0.02, weight_decay=0.1, seed=7)
        net = dense_training.initialised(
            lambda: Linear([4], 2), torch.Generator().manual_seed(dense_training.digest(7, "weights"))
        ).convolution
        optimiser = torch.optim.AdamW(net.parameters(), lr=0.02, weight_decay=0.1)
        with tag.opened() as (maps, truth):
            x, y = torch.from_numpy(maps.read("patch@final")).float(), torch.from_numpy(truth.read("mask")).long()
        step = 0
        for epoch in range(2):
            order = sorted(range(COUNT), key=lambda row: dense_training.digest(7, "order", epoch, tag.names[row]))
            for start in range(0, COUNT, 5):
                rows = order[start : start + 5]
                optimiser.param_groups[0]["lr"] = 0.02 * dense_training.multiplier(step, 6, 1)
                logits = functional.interpolate(net(x[rows]), size=FRAME, mode="bilinear", align_corners=False)
                optimiser.zero_grad()
                functional.cross_entropy(logits, y[rows]).backward()
                optimiser.step()
                step += 1
        found = head.state()
        np.testing.assert_allclose(found["convolution.weight"], net.weight.detach(), atol=2e-5)
        np.testing.assert_allclose(found["convolution.bias"], net.bias.detach(), atol=2e-5)

    def test_classes_are_decided_after_resizing(self, tags: dict[str, Tag], monkeypatch: pytest.MonkeyPatch):
        head = fitted(tags["semantic"], "semantic", **FAST)
        whole, _ = predicted(head, tags["semantic"])
        net = head.fitted.trained.net.convolution
        with tags["semantic"].opened() as (maps, _):
            logits = net(torch.from_numpy(maps.read("patch@final")).float()).detach()
        expected = functional.interpolate(logits, size=FRAME, mode="bilinear", align_corners=False).argmax(1)
        before = functional.interpolate(logits.argmax(1)[:, None].float(), size=FRAME)[:, 0]
        assert (whole == expected.numpy()).mean() > 0.999
        assert (whole == before.numpy()).mean() < 0.97
        monkeypatch.setattr(dense_grid, "BLOCK", 90)  # two rows of pixels
        assert np.array_equal(predicted(head, tags["semantic"])[0], whole)

    def test_many_classes_are_written_in_sixteen_bits(self):
        assert Semantic([str(i) for i in range(255)], None).dtype == np.uint8
        assert Semantic([str(i) for i in range(256)], 65535).dtype == np.uint16


class TestNothingElseMatters:
    @pytest.mark.parametrize("task", TASKS)
    def test_how_much_is_kept_in_memory(self, tags: dict[str, Tag], task: str):
        whole = fitted(tags[task], task, **FAST)
        for memory in (0, "7 kB"):
            assert same(fitted(tags[task], task, max_memory=memory, **FAST), whole)

    def test_what_is_kept_fits(self, tags: dict[str, Tag]):
        with tags["semantic"].opened() as (maps, truth):
            samples = Samples(maps, truth, "mask", budget=2500)
            samples.scan(lambda name, mask: None)
            assert samples.kept == 4  # of 200 bytes of map and 400 of mask
            rows = [row for batch in samples.batches([11, 0, 5, 1, 7], 2) for row in [s.name for s in batch]]
            assert rows == ["0011", "0000", "0005", "0001", "0007"]
            everything = Samples(maps, truth, "mask", budget=10**6)
            everything.scan(lambda name, mask: None)
            assert everything.kept == COUNT

    def test_other_generators_and_the_order_of_the_items(self, tags: dict[str, Tag]):
        head = fitted(tags["semantic"], "semantic", dropout=0.3, **FAST)
        torch.manual_seed(99)
        np.random.default_rng(99)
        torch.rand(5)
        assert same(fitted(tags["semantic"], "semantic", dropout=0.3, **FAST), head)
        assert same(fitted(tags["semantic"], "semantic", rows=range(COUNT)[::-1], dropout=0.3, **FAST), head)

    def test_the_seed_does(self, tags: dict[str, Tag]):
        assert not same(*(fitted(tags["semantic"], "semantic", seed=seed, **FAST) for seed in (0, 1)))

    @pytest.mark.parametrize("task", TASKS)
    def test_the_other_items_of_a_prediction(self, tags: dict[str, Tag], task: str):
        head = fitted(tags[task], task, **FAST)
        everything, _ = predicted(head, tags[task])
        assert np.array_equal(predicted(head, tags[task], [7])[0][0], everything[7])
        assert np.array_equal(predicted(head, tags[task], [9, 3])[0], everything[[9, 3]])

    @pytest.mark.parametrize(
        ("task", "spoil"),
        [
            ("semantic", lambda mask: np.where(np.arange(20) < 6, 255, mask)),
            ("depth", lambda depth: np.where(np.arange(20) < 6, 0, depth)),
            ("normals", lambda normals: np.where(np.arange(20)[:, None] < 6, 0, normals)),
            ("maps", lambda values: np.where(np.arange(20) < 6, np.nan, values)),
        ],
    )
    def test_pixels_that_are_not_valid(self, tmp_path: Path, task: str, spoil: Any):
        """Two truths that differ where neither is valid: learned is the same; a third has no valid pixel at all in an item."""
        maps = random_maps(4)
        found = []
        for number in range(2):
            (field, truth), *_ = truth_of(task, maps).items()
            truth = [spoil(each).astype(each.dtype) for each in truth]
            if number == 1 and task == "depth":
                truth[0][0, :3] = (-1, 11, 1e9)
            if number == 1:
                truth[3] = spoil(np.zeros_like(truth[3])) if task == "depth" else truth[3]
            tag = Tag(tmp_path / str(number), {"patch@final": maps}, {field: truth}, MASKS)
            found.append(fitted(tag, task, rows=range(3), **FAST))
        assert same(*found)


class TestPadding:
    EXTENTS = ((1.0, 0.6), (0.5, 1.0), (0.7, 0.7), (1.0, 1.0))
    FRAMES = ((30, 18), (15, 30), (21, 21), (25, 40))

    def tag(self, folder: Path, fill: float, grids: tuple[int, ...] = (5,)) -> Tag:
        """Maps whose padded cells hold `fill`; frames of several sizes."""
        keys = {}
        for layer, side in enumerate(grids):
            maps = random_maps(4, (3, side, side), seed=layer)
            for each, (rows, columns) in zip(maps, self.EXTENTS, strict=True):
                each[:, math.ceil(rows * side - 1e-6) :] = fill
                each[:, :, math.ceil(columns * side - 1e-6) :] = fill
            keys[f"patch@{layer}"] = maps
        generator = np.random.default_rng(5)
        masks = [generator.integers(0, 2, frame).astype(np.uint8) for frame in self.FRAMES]
        return Tag(folder, keys, {"mask": masks}, MASKS, extents=self.EXTENTS)

    @pytest.mark.parametrize(
        ("module", "grids", "more"),
        [
            (dense_linear, (5,), {"batchnorm": True}),
            (dense_linear, (10, 5), {}),
            (dpt, (5, 5), {"hidden": 4}),
            (dpt, (10, 5, 3), {"hidden": 4, "batchnorm": True}),
        ],
    )
    def test_never_enters(self, tmp_path: Path, module: Any, grids: tuple[int, ...], more: dict[str, Any]):
        heads = []
        for fill in (0.0, 777.0):
            tag = self.tag(tmp_path / f"{fill}", fill, grids)
            head = fitted(tag, "semantic", module, **FAST, **more)
            heads.append((head, *predicted(head, tag)))
        assert same(heads[0][0], heads[1][0])
        assert all(np.array_equal(a, b) for a, b in zip(heads[0][1], heads[1][1], strict=True))
        assert [mask.shape for mask in heads[0][1]] == list(self.FRAMES)
        factor = {dense_linear: 1, dpt: 8 if len(set(grids)) == 1 else 2}[module]
        cells = [[factor * math.ceil(part * max(grids) - 1e-6) for part in extent] for extent in self.EXTENTS]
        assert heads[0][2].tolist() == cells

    def test_large_frames_are_thinned_in_training_only(self, tmp_path: Path):
        tag = self.tag(tmp_path, 0.0)
        head = fitted(tag, "semantic", truth_side=10, **FAST)
        assert not same(head, fitted(tag, "semantic", **FAST))
        assert [mask.shape for mask in predicted(head, tag)[0]] == list(self.FRAMES)
        with tag.opened() as (maps, truth):
            assert [s.truth.shape for s in map(Samples(maps, truth, "mask", 10).__getitem__, range(4))] == [
                (10, 6), (5, 10), (10, 10), (6, 10)
            ]  # fmt: skip


class TestRates:
    def test_several_at_once_equal_each_alone(self, tags: dict[str, Tag]):
        task = Semantic(["a", "b"], 255)
        recipe = dense_training.Recipe(1e-4, epochs=2, batch_size=8, warmup_epochs=0, dropout=0.2, device="cpu")
        with tags["semantic"].opened() as (maps, truth):
            samples = Samples(maps, truth, "mask", budget=10**6)
            samples.scan(lambda name, mask: None)

            def train(*rates: float) -> list[dense_training.Trained]:
                return dense_training.train(lambda: Linear([4], 2), task, samples, range(COUNT), recipe, rates, 3)

            together, alone = train(0.1, 1e-3), [*train(0.1), *train(1e-3)]
        for one, other in zip(together, alone, strict=True):
            assert one.losses == other.losses
            assert torch.equal(one.net.convolution.weight, other.net.convolution.weight)
        assert together[0].losses[0] == together[1].losses[0]
        assert together[0].losses[1] != together[1].losses[1]

    def test_the_best_on_the_hold_out_is_refitted_on_all(self, tags: dict[str, Tag]):
        chosen = fitted(tags["semantic"], "semantic", lrs=[1e-5, 0.1, 1e9], holdout=0.3, epochs=6)
        log = chosen.log()
        assert (log["lr"], log["holdout_items"]) == (0.1, 4)
        assert 0 < log["holdout_loss"] < 0.69
        assert same(chosen, fitted(tags["semantic"], "semantic", lr=0.1, epochs=6))

    def test_held_out_items_are_chosen_by_name(self, tags: dict[str, Tag], monkeypatch: pytest.MonkeyPatch):
        seen: list[list[str]] = []
        real = dense_fit.held_out_loss

        def spy(trained: Any, task: Any, samples: Samples, rows: Any, recipe: Any) -> float:
            seen.append(sorted(samples.names[row] for row in rows))
            return real(trained, task, samples, rows, recipe)

        monkeypatch.setattr(dense_fit, "held_out_loss", spy)
        for rows in (range(COUNT), range(COUNT)[::-1]):
            fitted(tags["semantic"], "semantic", rows=rows, lrs=[0.1, 0.2], holdout=0.2, **FAST)
        assert len(seen) == 4
        assert all(each == seen[0] and len(each) == 2 for each in seen)

    def test_one_item_cannot_be_held_out(self, tags: dict[str, Tag]):
        with pytest.raises(UsageError, match=r"model\.head\.lrs needs"):
            fitted(tags["semantic"], "semantic", rows=[0], lrs=[0.1, 0.2])
        assert fitted(tags["semantic"], "semantic", rows=[0], lrs=[0.1]).log()["lr"] == 0.1

    def test_items_without_a_valid_pixel_choose_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """Whatever is held out has truth; where one item has any, there is nothing to choose on."""
        masks = [np.full(FRAME, 255, np.uint8) for _ in range(6)]
        masks[1][:], masks[4][:10] = 1, 0
        tag = Tag(tmp_path / "two", {"patch@final": random_maps(6)}, {"mask": masks}, MASKS)
        log = fitted(tag, "semantic", lrs=[1e-9, 0.05], holdout=0.5, **FAST).log()
        assert log["holdout_items"] == 1
        assert log["holdout_loss"] > 0
        masks[4][:] = 255
        tag = Tag(tmp_path / "one", {"patch@final": random_maps(6)}, {"mask": masks}, MASKS)
        with pytest.raises(UsageError, match="two train items with a valid pixel"):
            fitted(tag, "semantic", lrs=[1e-9, 0.05], **FAST)

    def test_a_step_that_is_no_float_is_named(self, tags: dict[str, Tag]):
        with pytest.raises(RunError, match=r"model\.head\.lr=1e\+38"):
            fitted(tags["semantic"], "semantic", lr=1e38, epochs=1, warmup_epochs=0, batch_size=64)

    def test_a_last_step_that_diverged_is_seen_in_what_it_says(self, tags: dict[str, Tag]):
        head = fitted(tags["semantic"], "semantic", **FAST)
        next(head.fitted.trained.net.parameters()).data.fill_(float("nan"))
        with pytest.raises(RunError, match="NaN or infinity of '0000'"):
            predicted(head, tags["semantic"])

    def test_a_batch_of_one_cell_is_not_normalised_by_itself(self, tmp_path: Path):
        """Nine items of 1 x 1 cells in batches of 8: the last batch has no variance of its own."""
        maps = [np.float16([[[k]], [[-k]]]) for k in range(9)]
        tag = Tag(tmp_path, {"patch@final": maps}, {"mask": [np.full(FRAME, k % 2, np.uint8) for k in range(9)]}, MASKS)
        head = fitted(tag, "semantic", batchnorm=True, **FAST)
        assert int(head.fitted.trained.net.norms[0].batches) == 3  # of three epochs, the batches of eight

    def test_truth_farther_than_the_head_says(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        depth = [np.full(FRAME, 5.0, np.float32) for _ in range(4)]
        depth[0][:] = 30
        tag = Tag(tmp_path / "some", {"patch@final": random_maps(4)}, {"depth": depth})
        fitted(tag, "depth", **FAST)
        assert "25.0% of the true depth of train lies beyond 10 m" in capsys.readouterr().err
        tag = Tag(tmp_path / "all", {"patch@final": random_maps(4)}, {"depth": [depth[0]] * 4})
        with pytest.raises(UsageError, match=r"every true depth of train lies beyond 10 m.*data\.max_depth"):
            fitted(tag, "depth", **FAST)

    def test_a_rate_that_is_too_large_is_named(self, tags: dict[str, Tag]):
        with pytest.raises(RunError, match=r"no longer finite in step \d+ \(00\d\d, .*model\.head\.lr=1e\+38"):
            fitted(tags["depth"], "depth", lr=1e38)
        with pytest.raises(RunError, match=r"model\.head\.lr=1e\+3"):
            fitted(tags["depth"], "depth", lrs=[1e37, 1e38])


class TestLog:
    def test_shares_and_what_background_scores(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        """Of 2 x 400 pixels 100 are ignored, 500 are of class 1, 200 of class 0."""
        masks = [np.ones(FRAME, np.uint8), np.ones(FRAME, np.uint8)]
        masks[0][:10], masks[1][:5] = 0, 255
        tag = Tag(tmp_path, {"patch@final": random_maps(2)}, {"mask": masks}, MASKS)
        log = fitted(tag, "semantic", **FAST).log()
        said = capsys.readouterr().err
        assert log["train_foreground_share"] == pytest.approx(2 / 7)
        assert log["all_background_pixel_acc"] == pytest.approx(5 / 7)
        assert log["all_background_miou"] == pytest.approx(5 / 14)
        assert "2 train items, 71.4% of the pixels are of the commonest class, 'b'" in said
        assert "scores pixel_acc 0.714, mean IoU 0.357" in said
        log = fitted(tag, "binary", **FAST).log()
        assert log["train_foreground_share"] == pytest.approx(5 / 7)
        assert "(all but 'background') 71.4%" in capsys.readouterr().err

    def test_train_loss_is_the_mean_of_an_epochs_batches(self, tags: dict[str, Tag]):
        head = fitted(tags["semantic"], "semantic", batch_size=5, **FAST)
        losses = np.reshape(head.fitted.trained.losses, (3, 3))
        assert head.log()["train_loss"] == pytest.approx(losses[-1].mean())
        assert head.log()["train_loss_first"] == pytest.approx(losses[0].mean())

    def test_a_head_that_did_not_converge_is_called_so(self, tags: dict[str, Tag], capsys: pytest.CaptureFixture[str]):
        assert fitted(tags["depth"], "depth", lr=1e-5, epochs=4, warmup_epochs=0).log()["converged"] == 0
        said = capsys.readouterr().err
        assert "did not converge" in said
        assert "model.head.batchnorm=true" in said
        assert fitted(tags["maps"], "maps", lr=0.3, epochs=30).log()["converged"] == 1
        assert "converge" not in capsys.readouterr().err

    def test_collapse_of_the_uncertainty_loss(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        """Directions of pure chance: the concentration sinks, and the switch is named."""
        generator = np.random.default_rng(0)
        vectors = generator.normal(size=(8, *FRAME, 3)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
        tag = Tag(tmp_path, {"patch@final": random_maps(8)}, {"normals": list(vectors)})
        log = fitted(tag, "normals", lr=0.1, epochs=25).log()
        said = capsys.readouterr().err
        assert log["collapsed"] == 1
        assert log["train_degrees"] == pytest.approx(90, abs=3)
        assert "model.head.loss=angular" in said
        assert "collapsed" not in fitted(tag, "normals", loss="angular", **FAST).log()
        assert "loss=angular" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("log", "settings", "said"),
    [
        ({"converged": 1.0, "collapsed": 0.0}, {"epochs": 10}, None),
        ({}, {}, None),
        ({"converged": 0.0}, {"epochs": 10}, "did not converge: more model.head.epochs"),
        ({"converged": 0.0, "still_falling": 0.301}, {"epochs": 10}, "(30% of the fall of its loss may be left): more"),
        ({"converged": 0.0}, {"strength": 1}, "did not converge"),
        ({"converged": 0.0, "collapsed": 1.0}, {"epochs": 10}, "use model.head.loss=angular"),
    ],
)
def test_tables_say_what_the_log_says(log: dict[str, float], settings: dict[str, Any], said: str | None):
    found = _about_head({"head": {"log": log}, "conf": {"model": {"head": settings}}})
    assert found == [] if said is None else said in found[0]


class TestRefused:
    def test_nothing_valid(self, tmp_path: Path):
        tag = Tag(tmp_path, {"patch@final": random_maps(2)}, {"mask": [np.full(FRAME, 255, np.uint8)] * 2}, MASKS)
        with pytest.raises(UsageError, match=r"no pixel of mask .* is valid"):
            fitted(tag, "semantic")

    def test_a_label_that_is_no_class(self, tmp_path: Path):
        masks = [np.zeros(FRAME, np.uint8), np.full(FRAME, 3, np.uint8)]
        tag = Tag(tmp_path, {"patch@final": random_maps(2)}, {"mask": masks}, MASKS)
        with pytest.raises(UsageError, match=r"'0001' holds 3, and there are 2 classes"):
            fitted(tag, "semantic")

    def test_truth_of_another_kind(self, tags: dict[str, Tag]):
        with pytest.raises(UsageError, match="learns depth"):
            fitted(tags["semantic"], "depth")
        with pytest.raises(UsageError, match="no dense task 'poses'"):
            fitted(tags["semantic"], "poses")

    def test_truth_of_another_size_than_its_frame(self, tmp_path: Path):
        masks = [np.zeros(FRAME, np.uint8)] * 2
        tag = Tag(tmp_path, {"patch@final": random_maps(2)}, {"mask": masks}, MASKS, frames=[FRAME, (20, 21)])
        with pytest.raises(RunError, match=r"'0001' is \(20, 20\) and its frame \(20, 21\)"):
            fitted(tag, "semantic")

    @pytest.mark.parametrize("module", [dense_linear, dpt])
    def test_a_benchmark_that_is_none_of_pixels(self, module: Any):
        with pytest.raises(UsageError, match="predicts pixels"):
            head_of(module, "")

    def test_a_device_that_is_not_there(self):
        with pytest.raises(UsageError, match=r"model\.head\.device=cuda:77"):
            head_of(dense_linear, "depth", device="cuda:77")

    def test_a_damaged_map_is_named_though_a_thread_reads_it(self, tmp_path: Path):
        maps = random_maps(6)
        tag = Tag(tmp_path, {"patch@final": maps}, truth_of("semantic", maps), MASKS)
        (part,) = (tmp_path / "tag" / "features").glob("part-*.h5")
        data = bytearray(part.read_bytes())
        data[data.find(maps[4].tobytes())] ^= 1
        part.chmod(0o644)
        part.write_bytes(data)
        with pytest.raises(RunError, match="damaged"):
            fitted(tag, "semantic", max_memory=0, **FAST)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("lr", 0.0), ("lr", math.inf), ("weight_decay", -1.0), ("epochs", 0), ("batch_size", 0), ("dropout", 1.0),
            ("warmup_epochs", 10.0), ("warmup_epochs", -1.0), ("holdout", 0.0), ("lrs", [0.1, -1.0]), ("truth_side", 0),
            ("max_memory", "4 apples"), ("max_memory", "-1"),
        ],
    )  # fmt: skip
    def test_settings_out_of_range(self, name: str, value: Any):
        with pytest.raises(ValueError, match="lr" if name == "lrs" else name):
            dense_linear.Settings(**{name: value})

    def test_hidden(self):
        with pytest.raises(ValueError, match="hidden"):
            dpt.Settings(hidden=0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [(5, 5), ("300MB", 3e8), ("4GB", 4e9), ("1.5 k", 1500), ("512MiB", 2**29), ("2g", 2e9), ("7b", 7), ("0", 0)],
)
def test_sizes_of_memory(text: Any, expected: float):
    assert read_bytes(text) == expected


def test_memory_and_device_change_no_identity():
    from benchkit.conf.build import build
    from benchkit.conf.diff import identity_view

    base = ["model.head.name=dense_linear"]
    views = [
        identity_view(build("color_histogram", "depth", [*base, *more]))
        for more in ([], ["model.head.max_memory=300MB", "model.head.device=cuda"], ["model.head.lr=1e-3"])
    ]
    assert views[0] == views[1] != views[2]


class TestConstant:
    def fit(self, meta: Any = None, **truth: Any) -> Constant:
        count = len(next(iter(truth.values())))
        head = Constant()
        head.fit("", None, ArrayItems([str(i) for i in range(count)], truth, meta), 0, 1)
        return head

    def test_commonest_class(self):
        masks = np.array([[[2, 2, 2, 255]], [[255, 255, 255, 1]]], np.uint8)
        value = self.fit(MASKS, mask=masks).state()["mask"]
        assert (value, value.dtype) == (2, np.uint8)
        assert self.fit({"ignore": None}, mask=masks).state()["mask"] == 255
        assert self.fit(MASKS, mask=masks[1:, :, 1:]).state()["mask"] == 1
        assert self.fit({}, mask=np.array([[[3, 1]]], np.uint16)).state()["mask"] == 1  # of equals the first

    @pytest.mark.parametrize("count", [1, 2, 999, 1000])
    def test_median_depth_is_exact(self, count: int):
        depth = np.random.default_rng(count).lognormal(size=(2, 20, 25)).astype(np.float32)
        depth[:, :, ::2] = 0
        flat = depth[depth > 0]
        flat[count:] = np.nan if count < 3 else -1
        depth[depth > 0] = flat
        valid = np.sort(depth[depth > 0])
        value = self.fit(depth=depth).state()["depth"]
        assert value.dtype == np.float32
        assert value == valid[(len(valid) - 1) // 2]

    def test_mean_direction(self):
        normals = np.zeros((2, 1, 2, 3), np.float32)
        normals[0, 0, 0], normals[1, 0, 1] = (0, 1, 0), (0, 0, -1)
        np.testing.assert_allclose(self.fit(normals=normals).state()["normals"], [0, 0.5**0.5, -(0.5**0.5)], rtol=1e-6)
        normals[1, 0, 1] = (0, -1, 0)
        assert self.fit(normals=normals).state()["normals"].tolist() == [0, 0, -1]

    def test_mean_of_maps(self):
        assert self.fit(map=np.array([[[1.0, np.nan]], [[2.0, 6.0]]])).state()["map"] == 3
        several = np.array([[[[1.0, 2.0], [3.0, 4.0], [np.nan, 9.0]]]])
        assert self.fit(map=several).state()["map"].tolist() == [2, 3]

    @pytest.mark.parametrize(("field", "value"), [("mask", 255), ("depth", 0.0), ("normals", 0.0), ("map", np.nan)])
    def test_nothing_valid(self, field: str, value: float):
        shape = (1, 2, 2, 3) if field == "normals" else (1, 2, 2)
        dtype = np.uint8 if field == "mask" else np.float32
        with pytest.raises(UsageError, match=f"no pixel of {field}"):
            self.fit(MASKS, **{field: np.full(shape, value, dtype)})

    def test_predictions_fill_the_frames(self, tmp_path: Path):
        frames = [(4, 6), (3, 5)]
        normals = [np.broadcast_to(np.float32([0, 0.6, -0.8]), (*frame, 3)) for frame in frames]
        tag = Tag(tmp_path, {"patch@final": random_maps(2)}, {"normals": normals})
        head = self.fit(normals=normals)
        for rows in ([0, 1], [1]):
            with tag.opened(rows) as (maps, _):
                found = values(head.predict("", maps, 1)["normals"])
            assert [each.shape for each in found] == [(*frames[row], 3) for row in rows]
            assert all(np.allclose(each, [0, 0.6, -0.8]) for each in found)

    def test_classes_of_images_as_before(self):
        head = self.fit({"classes": ["a", "b"]}, label=np.array([1, 1, 0]))
        assert head.predict("", ArrayItems(["x"], {}), 1)["scores"].argmax() == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("task", TASKS)
def test_on_a_gpu(tags: dict[str, Tag], task: str):
    heads = [fitted(tags[task], task, device=device, **FAST) for device in ("cuda", "cuda", "cpu")]
    assert same(*heads[:2])
    for name, value in heads[0].state().items():
        np.testing.assert_allclose(value, heads[2].state()[name], atol=1e-3)
    assert predicted(heads[0], tags[task])[0].shape[:3] == (COUNT, *FRAME)
