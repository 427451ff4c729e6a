"""Losses, resizing and networks of dense heads: by hand, and against torch's own."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from benchkit.errors import UsageError
from benchkit.heads import dpt
from benchkit.heads.solvers import dense_grid, dense_nets, dense_numbers
from benchkit.heads.solvers import dense_losses as losses
from benchkit.heads.solvers.dense_classes import Semantic
from benchkit.heads.solvers.dense_grid import Level
from benchkit.heads.solvers.dense_numbers import Depth, Maps, Normals
from benchkit.heads.solvers.dense_outputs import Output, Tally
from benchkit.heads.solvers.dense_training import Trained, multiplier
from benchkit.store.items import ArrayItems


def tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def resized(values: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """torch's interpolation of (C, h, w) or (B, C, h, w)."""
    batch = values if values.dim() == 4 else values[None]
    found = functional.interpolate(batch, size=size, mode="bilinear", align_corners=False)
    return found if values.dim() == 4 else found[0]


def replicated(values: torch.Tensor, cut: tuple[int, int]) -> torch.Tensor:
    """The map whose cells beyond `cut` repeat the last ones within."""
    rows = torch.arange(values.shape[-2]).clamp(max=cut[0] - 1)
    columns = torch.arange(values.shape[-1]).clamp(max=cut[1] - 1)
    return values[..., rows, :][..., columns]


class TestGrid:
    @pytest.mark.parametrize(("grid", "frame"), [((7, 5), (56, 61)), ((14, 14), (224, 224)), ((9, 4), (5, 4))])
    def test_resizing_equals_torch(self, grid: tuple[int, int], frame: tuple[int, int]):
        values = tensor(3, *grid)
        np.testing.assert_allclose(losses.full_size(values, frame, dense_grid.WHOLE), resized(values, frame), atol=1e-5)
        whole = torch.cat([block for _, block in dense_grid.blocks(values, frame, dense_grid.WHOLE)], dim=1)
        np.testing.assert_allclose(whole, resized(values, frame), atol=1e-5)

    @pytest.mark.parametrize("seen", [(40, 56), (44, 37), (56, 9), (3, 56)])
    def test_padding_is_cut_away(self, seen: tuple[int, int]):
        """Of an input of 56 x 56 pixels `seen` show the image: the frame is what lies there of the map resized to 56 x 56."""
        values = tensor(2, 7, 7)
        level = Level.of((7, 7), (seen[0] / 56, seen[1] / 56))
        assert level.cut == (math.ceil(seen[0] / 8), math.ceil(seen[1] / 8))
        found = losses.full_size(values[:, : level.cut[0], : level.cut[1]], seen, level.share)
        expected = resized(replicated(values, level.cut), (56, 56))[:, : seen[0], : seen[1]]
        np.testing.assert_allclose(found, expected, atol=1e-5)

    @pytest.mark.parametrize("extent", [(1.0, 1.0), (0.55, 0.8), (0.5385, 0.2)])
    def test_from_level_to_level(self, extent: tuple[float, float]):
        """Cells of 13 x 12 read a map of 7 x 6 that lies over the same padded image."""
        coarse, fine = Level.of((7, 6), extent), Level.of((13, 12), extent)
        values = tensor(2, 7, 6)
        found = dense_grid.to_level(values[:, : coarse.cut[0], : coarse.cut[1]], coarse, fine)
        expected = resized(replicated(values, coarse.cut), (13, 12))[:, : fine.cut[0], : fine.cut[1]]
        np.testing.assert_allclose(found, expected, atol=1e-5)

    def test_truth_is_thinned_by_pixel_centres(self):
        truth = np.arange(6 * 9).reshape(6, 9)
        assert dense_grid.thinned(truth, 9) is truth
        assert dense_grid.thinned(truth, 3).tolist() == [[9 + 1, 9 + 4, 9 + 7], [36 + 1, 36 + 4, 36 + 7]]
        assert dense_grid.thinned(np.zeros((1, 100, 3)), 50).shape == (1, 50, 3)


class TestMaskLosses:
    def labels(self, classes: int, side: tuple[int, int] = (24, 20)) -> tuple[torch.Tensor, torch.Tensor]:
        generator = np.random.default_rng(1)
        return (
            torch.from_numpy(generator.integers(0, classes, side)),
            torch.from_numpy((generator.random(side) > 0.3).astype(np.float32)),
        )

    @pytest.mark.parametrize("block", [1, 500, 1 << 20])
    def test_cross_entropy_equals_torch(self, monkeypatch: pytest.MonkeyPatch, block: int):
        monkeypatch.setattr(dense_grid, "BLOCK", block)
        labels, valid = self.labels(5)
        ours, theirs = (3 * tensor(5, 6, 4)).requires_grad_(), (3 * tensor(5, 6, 4)).requires_grad_()
        total = losses.cross_entropy(ours, labels, valid, dense_grid.WHOLE)
        each = functional.cross_entropy(resized(theirs, (24, 20))[None], labels[None], reduction="none")[0]
        (0.7 * total).backward()
        (0.7 * (each * valid).sum()).backward()
        assert total.item() == pytest.approx((each * valid).sum().item(), rel=1e-5)
        np.testing.assert_allclose(ours.grad, theirs.grad, rtol=1e-4, atol=1e-4)

    def test_cross_entropy_by_hand(self):
        """One cell, two pixels, logits 0 and ln 3: -ln(3/4) for class 1, and class 0 does not count."""
        labels, valid = torch.tensor([[1, 0]]), torch.tensor([[1.0, 0.0]])
        total = losses.cross_entropy(torch.tensor([[[0.0]], [[math.log(3)]]]), labels, valid, dense_grid.WHOLE)
        assert total.item() == pytest.approx(-math.log(3 / 4))

    def test_huge_logits_stay_finite(self):
        logits = torch.tensor([[[1e4]], [[-1e4]]], requires_grad=True)
        total = losses.cross_entropy(logits, torch.tensor([[1]]), torch.ones(1, 1), dense_grid.WHOLE)
        total.backward()
        assert total.item() == pytest.approx(2e4)
        assert logits.grad.flatten().tolist() == [1, -1]

    def test_right_pixels_are_counted_and_ties_are_wrong(self):
        right: list[torch.Tensor] = []
        logits = torch.tensor([[[1.0, 0.0]], [[1.0, 2.0]]])
        labels = torch.tensor([[0, 1]])
        losses.cross_entropy(logits, labels, torch.ones(1, 2), dense_grid.WHOLE, right)
        losses.cross_entropy(logits, labels, torch.tensor([[1.0, 0.0]]), dense_grid.WHOLE, right)
        assert [int(each) for each in right] == [1, 0]

    def test_binary_by_hand(self):
        """ln(1 + e^-2) for a foreground pixel at 2, ln(1 + e^2) for background; the third does not count."""
        logits, truth = torch.full((1, 3), 2.0), torch.tensor([[1.0, 0.0, 1.0]])
        total = losses.binary_cross_entropy(logits, truth, torch.tensor([[1.0, 1.0, 0.0]]))
        assert total.item() == pytest.approx(math.log1p(math.exp(-2)) + math.log1p(math.exp(2)))


class TestDepthLoss:
    def test_scale_invariant_by_hand(self):
        """With .001 added, g = ln 2 at every valid pixel: sqrt((1 - .85) ln2^2)."""
        true = torch.full((2, 3), 0.999)
        predicted = torch.full((2, 3), 1.999)
        valid = torch.ones(2, 3, dtype=torch.bool)
        valid[0, 0], predicted[0, 0] = False, 9.0
        found = losses.scale_invariant([predicted], [true], [valid])
        assert found.item() == pytest.approx(math.log(2) * math.sqrt(0.15), rel=1e-5)

    def test_scale_invariant_is_over_the_batch(self):
        """g = ln 2 in one image and -ln 2 in another of as many pixels: the mean vanishes, ln 2 is left."""
        true = [torch.full((2, 2), 0.999)] * 2
        predicted = [torch.full((2, 2), 1.999), torch.full((2, 2), 0.499)]
        found = losses.scale_invariant(predicted, true, [torch.ones(2, 2, dtype=torch.bool)] * 2)
        assert found.item() == pytest.approx(math.log(2), rel=1e-5)

    def test_gradient_by_loops(self):
        predicted, true = tensor(9, 14).exp(), tensor(9, 14, seed=1).exp()
        valid = torch.from_numpy(np.random.default_rng(2).random((9, 14)) > 0.2)
        expected = 0.0
        for step in (1, 2, 4, 6):
            g = (torch.log(predicted + 0.001) - torch.log(true + 0.001))[::step, ::step].double().numpy()
            ok = valid[::step, ::step].numpy()
            change = 0.0
            for i in range(ok.shape[0]):
                for j in range(ok.shape[1]):
                    if i + 2 < ok.shape[0] and ok[i, j] and ok[i + 2, j]:
                        change += abs(g[i, j] - g[i + 2, j])
                    if j + 2 < ok.shape[1] and ok[i, j] and ok[i, j + 2]:
                        change += abs(g[i, j] - g[i, j + 2])
            expected += change / ok.sum()
        assert losses.gradient([predicted], [true], [valid]).item() == pytest.approx(expected, rel=1e-5)
        both = losses.depth_loss([predicted], [true], [valid])
        assert both.item() == pytest.approx(
            10 * losses.scale_invariant([predicted], [true], [valid]).item() + 0.5 * expected, rel=1e-5
        )

    def test_a_perfect_prediction_has_a_finite_gradient(self):
        predicted = torch.full((4, 4), 2.0, requires_grad=True)
        losses.depth_loss([predicted], [torch.full((4, 4), 2.0)], [torch.ones(4, 4, dtype=torch.bool)]).backward()
        assert predicted.grad.isfinite().all()

    def test_expectation_over_bins_by_hand(self):
        """Scores 0 but for bin 255 at 0.9: weights .1 and 1, of 255 x .1 + 1."""
        raw = torch.zeros(256, 1, 1)
        raw[255] = 0.9
        bins = np.linspace(0.001, 10, 256)
        settled = Depth().settled(Output(raw, (1.0, 1.0)), (8, 8))
        assert settled.raw.shape == (1, 4, 4)
        np.testing.assert_allclose(settled.raw, (0.1 * bins[:255].sum() + 10) / 26.5, rtol=1e-5)
        lowest = torch.full((256, 1, 1), -1.0)
        assert Depth(2.0).settled(Output(lowest, (1.0, 1.0)), (2, 2)).raw.mean().item() == pytest.approx(1.0005)

    def test_depth_is_made_on_a_finer_grid_and_resized(self):
        raw = tensor(256, 3, 2)
        settled = Depth().settled(Output(raw, (1.0, 1.0)), (48, 40))
        weights = functional.relu(resized(raw, (12, 8))) + 0.1
        expected = (weights * torch.linspace(0.001, 10, 256)[:, None, None]).sum(0) / weights.sum(0)
        np.testing.assert_allclose(settled.raw[0], expected, rtol=1e-4)

    def test_what_is_not_valid(self):
        truth = np.array([[0.0, -1.0, np.nan, np.inf, 10.5, 10.0, 0.001]])
        assert Depth().valid(truth).tolist() == [[False, False, False, False, False, True, True]]
        assert Depth(20.0).valid(truth).sum() == 3


class TestNormalsLoss:
    def test_angle_by_hand(self):
        predicted = torch.tensor([[3.0, 0.0], [0.0, 1.0], [3.0 * math.sqrt(3), 0.0]])
        true = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
        found = losses.angles(predicted, true)
        assert math.degrees(found[0]) == pytest.approx(30, abs=1e-3)
        assert found[1].item() == pytest.approx(math.acos(1 - 1e-4), rel=1e-2)  # cut there

    def test_uncertainty_by_hand(self):
        """kappa 1 at 0.5 radians, and the least kappa, .01 + e^-20, at 0."""
        assert losses.concentration(torch.tensor(-20.0)).item() == pytest.approx(0.01, abs=1e-6)
        assert losses.concentration(torch.tensor(2.0)).item() == pytest.approx(3.01)
        found = losses.uncertainty(torch.tensor(0.5), torch.tensor(1.0))
        assert found.item() == pytest.approx(math.log(1 + math.exp(-math.pi)) - math.log(2) + 0.5)

    def test_at_chance_the_best_concentration_is_below_a_tenth(self):
        """What tells a collapse: at 90 degrees the loss is least at kappa .05, at 80 already at .38."""
        kappa = torch.linspace(0.011, 5, 5000)
        best = {
            d: kappa[losses.uncertainty(torch.tensor(math.radians(d)), kappa).argmin()].item() for d in (90, 80, 30)
        }
        assert best[90] < 0.1 < best[80] < best[30]

    def test_dead_concentrations_are_counted(self):
        """Of three valid pixels, in an image whose fourth channel is dead; the angles are 90 degrees."""
        truth = np.tile(np.array([0, 0, 1], np.float32), (2, 2, 1))
        truth[0, 0] = 0
        tally: Tally = defaultdict(float)
        for raw in (-20.0, 0.0):
            Normals(True).loss([Output(torch.tensor([1.0, 0, 0, raw])[:, None, None], (1.0, 1.0))], [truth], tally)
        assert (tally["low_kappa"], tally["pixels"]) == (3, 6)
        assert math.degrees(tally["radians"] / 6) == pytest.approx(90)

    def test_mean_over_the_valid_pixels_of_the_batch(self):
        """Three pixels at 60 degrees in one image and one at 0 in the other; zero vectors do not count."""
        sixty = torch.tensor([math.sqrt(3) / 2, 0.0, 0.5])[:, None, None]
        towards = np.array([0.0, 0.0, 1.0], np.float32)
        first, second = np.tile(towards, (2, 2, 1)), np.zeros((2, 2, 3), np.float32)
        first[1, 1] = 0
        second[0, 0] = towards
        outputs = [Output(sixty, (1.0, 1.0)), Output(torch.tensor(towards)[:, None, None], (1.0, 1.0))]
        found = Normals(False).loss(outputs, [first, second], None)
        assert math.degrees(found) == pytest.approx((3 * 60 + math.degrees(math.acos(1 - 1e-4))) / 4, rel=1e-4)


class TestMapsLoss:
    def task(self, flat: bool, *units: tuple[float, float]) -> Maps:
        return Maps(flat, *(np.array(each) for each in zip(*units, strict=True)))

    def test_by_hand(self):
        """|1 - 0| + |1 - 3| over two valid pixels of one channel; NaN does not count."""
        output = Output(torch.ones(1, 1, 1), (1.0, 1.0))
        truth = np.array([[0.0, 3.0, np.nan]], np.float32)
        assert self.task(True, (0, 1)).loss([output], [truth], None).item() == pytest.approx(1.5)

    def test_several_channels(self):
        output = Output(torch.tensor([1.0, -1.0])[:, None, None], (1.0, 1.0))
        truth = np.array([[[0.0, 0.0], [1.0, np.nan]]], np.float32)
        assert self.task(False, (0, 1), (0, 1)).loss([output], [truth], None).item() == pytest.approx(1.0)

    def test_units_of_their_own(self):
        """20 is 2 spreads of 5 above a median of 10; an output of 1 is 15."""
        task, output = self.task(True, (10, 5)), Output(torch.ones(1, 1, 1), (1.0, 1.0))
        assert task.loss([output], [np.array([[20.0]], np.float32)], None).item() == pytest.approx(1)
        assert task.read(output.raw).tolist() == [[15]]

    def test_units_are_train_s(self):
        """Median and mean distance from it per channel, NaN aside: of 0, 2, 7: 2 and (2 + 0 + 5) / 3; of threes: 3 and 1."""
        maps = np.array([[[[0.0, 3], [2, 3]]], [[[7, 3], [np.nan, 3]]]])
        task = Maps.of(ArrayItems(["a", "b"], {"map": maps}), "")
        assert task.centre.flatten().tolist() == [2, 3]
        np.testing.assert_allclose(task.scale.flatten(), [7 / 3, 1])
        assert not task.flat

    def test_units_are_sampled_where_there_are_many(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(dense_numbers, "SAMPLED", 2000)
        maps = np.random.default_rng(0).normal(5, 3, size=(4, 100, 100))
        task = Maps.of(ArrayItems(list("abcd"), {"map": maps}), "")
        assert task.centre.item() == pytest.approx(5, abs=0.4)
        assert task.scale.item() == pytest.approx(3 * math.sqrt(2 / math.pi), rel=0.1)


def test_masks_of_the_whole_batch_weigh_alike():
    """Two images with 1 and 3 valid pixels: the mean is over four pixels, not over two images."""
    task = Semantic(["a", "b"], 255)
    sure = Output(torch.tensor([[[20.0]], [[0.0]]]), (1.0, 1.0))
    even = Output(torch.zeros(2, 1, 1), (1.0, 1.0))
    one, three = np.array([[0, 255, 255, 255]], np.uint8), np.array([[0, 1, 1, 255]], np.uint8)
    assert task.loss([even, sure], [one, three], None).item() == pytest.approx(
        (math.log(2) + 0 + 20 + 20) / 4, rel=1e-4
    )


def group(maps: list[torch.Tensor], extent: tuple[float, float] = (1.0, 1.0)) -> dense_nets.Group:
    levels = tuple(Level.of((x.shape[2], x.shape[3]), extent) for x in maps)
    cut = [x[:, :, : level.cut[0], : level.cut[1]] for x, level in zip(maps, levels, strict=True)]
    shares = [tuple(level.share for level in levels) for _ in maps[0]]
    return dense_nets.Group(list(range(len(maps[0]))), cut, levels, shares)


class TestLinear:
    def test_layers_side_by_side_on_the_largest_grid(self):
        maps = [tensor(2, 3, 8, 6), tensor(2, 5, 4, 3, seed=1), tensor(2, 4, 8, 6, seed=2)]
        net = dense_nets.initialised(lambda: dense_nets.Linear([3, 5, 4], 7), torch.Generator().manual_seed(0))
        found = torch.stack([output.raw for output in net([group(maps)])])
        joined = torch.cat([resized(x, (8, 6)) for x in maps], dim=1)
        np.testing.assert_allclose(found.detach(), net.convolution(joined).detach(), atol=1e-5)
        assert net.grid(group(maps).levels) == (8, 6)

    def test_batchnorm_is_over_all_cells_of_the_batch(self):
        """Maps of two shapes, normalised together as torch's BatchNorm does their cells."""
        first, second = tensor(2, 3, 4, 4), 2 + tensor(1, 3, 2, 5, seed=1)
        norm, theirs = dense_nets.CellNorm(3), torch.nn.BatchNorm1d(3, momentum=None)
        cells = torch.cat([x.permute(0, 2, 3, 1).reshape(-1, 3) for x in (first, second)])
        expected = theirs(cells)
        found = torch.cat([x.permute(0, 2, 3, 1).reshape(-1, 3) for x in norm([first, second])])
        np.testing.assert_allclose(found.detach(), expected.detach(), atol=1e-5)
        norm([second]), theirs(second.permute(0, 2, 3, 1).reshape(-1, 3))
        np.testing.assert_allclose(norm.mean, theirs.running_mean, atol=1e-6)
        np.testing.assert_allclose(norm.variance, theirs.running_var, atol=1e-5)
        norm.eval(), theirs.eval()
        np.testing.assert_allclose(norm([first])[0][:, :, 0, 0].detach(), theirs(first[:, :, 0, 0]).detach(), atol=1e-5)


class TestDpt:
    def reference(self, net: dense_nets.Dpt, maps: list[torch.Tensor]) -> torch.Tensor:
        """probe3d's forward of maps of one grid, with align_corners false and without the last doubling."""

        def double(x: torch.Tensor, by: int) -> torch.Tensor:
            return resized(x, (by * x.shape[2], by * x.shape[3]))

        x = [double(conv(m), 2) for conv, m in zip(net.reassemble, maps, strict=True)]
        out = net.fusions[3](x[3])
        out = net.fusions[2](net.skips[2](x[2]) + out)
        out = net.fusions[1](net.skips[1](x[1]) + out)
        out = net.fusions[0](net.skips[0](x[0]) + out)
        return net.last(double(out, 4))

    def net(self, channels: list[int], out: int = 3) -> dense_nets.Dpt:
        make = lambda: dense_nets.Dpt(channels, out, 6)  # noqa: E731
        return dense_nets.initialised(make, torch.Generator().manual_seed(0))  # type: ignore[return-value]

    def test_one_grid_as_probe3d(self):
        maps = [tensor(2, 5, 4, 3, seed=seed) for seed in range(4)]
        net = self.net([5] * 4)
        found = torch.stack([output.raw for output in net([group(maps)])])
        assert found.shape == (2, 3, 32, 24)
        assert net.grid(group(maps).levels) == (32, 24)
        np.testing.assert_allclose(found.detach(), self.reference(net, maps).detach(), atol=1e-5)

    def test_a_pyramid_keeps_its_grids(self):
        maps = [tensor(1, width, side, side, seed=side) for width, side in ((2, 16), (3, 8), (4, 4), (5, 2))]
        net = self.net([2, 3, 4, 5])
        (output,) = net([group(maps)])
        assert output.raw.shape == (3, 32, 32)
        assert net.grid(group(maps).levels) == (32, 32)
        output.raw.square().mean().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())

    def test_a_padded_pyramid(self):
        """Of 16 rows 11 show the image: 11, 6, 3 and 2 cells are left, and the frame lies over 11 / 11, not over all."""
        maps = [tensor(1, 2, side, side, seed=side) for side in (16, 8, 4, 2)]
        padded = group(maps, (11 / 16, 1.0))
        assert [level.cut[0] for level in padded.levels] == [11, 6, 3, 2]
        (output,) = self.net([2] * 4)([padded])
        assert output.raw.shape == (3, 22, 32)
        assert output.share == (1.0, 1.0)
        assert padded.shares[0][1][0] == pytest.approx(5.5 / 6)

    def test_units_by_hand(self):
        """x + relu(conv(relu(conv(x)))): with all weights 0 and biases -1 and 2 it adds 2."""
        unit = dense_nets.ResidualUnit(1)
        for convolution, bias in ((unit.first, -1.0), (unit.second, 2.0)):
            torch.nn.init.zeros_(convolution.weight)
            torch.nn.init.constant_(convolution.bias, bias)
        assert unit(torch.full((1, 1, 2, 2), -5.0)).unique().tolist() == [-3]

    def test_one_layer_is_refused(self):
        head = dpt.build(dpt.Settings())
        with pytest.raises(UsageError, match=r"model\.features\.layers=quarters"):
            head.check_keys(["patch@final"])
        head.check_keys(["patch@2", "patch@final"])


def test_weights_are_torchs_but_of_a_generator_of_their_own():
    """Bounds and spread of nn.Conv2d's; the global generator neither matters nor moves."""
    made = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        net = dense_nets.initialised(lambda: dense_nets.Linear([400], 50), torch.Generator().manual_seed(3))
        assert torch.equal(torch.get_rng_state(), before)
        made.append(net.convolution.weight.detach().clone())
    assert torch.equal(*made)
    theirs = torch.nn.Conv2d(400, 50, 1).weight
    assert made[0].abs().max() <= 0.05
    assert made[0].std().item() == pytest.approx(theirs.std().item(), rel=0.05)


def test_schedule_by_hand():
    """10 steps, 2 of warm-up: 1/2, 1, then half a cosine over 8 steps whose middle is 1/2; the last step is above 0."""
    found = [multiplier(step, 10, 2) for step in range(10)]
    assert found[:3] == [0.5, 1, 1]
    assert found[6] == pytest.approx(0.5)
    assert 0 < found[9] < 0.04
    assert multiplier(0, 10, 0) == 1


class TestConverged:
    EPOCHS, STEPS = 20, 3

    def spent(self) -> np.ndarray:
        """Share of the learning rate spent at the middle of each epoch: warm-up in a seventh of the steps, then a cosine."""
        steps = self.EPOCHS * self.STEPS
        rates = np.cumsum([multiplier(step, steps, steps // 7) for step in range(steps)])
        return rates.reshape(self.EPOCHS, -1).mean(axis=1) / rates[-1]

    def trained(self, by_epoch: Any, **more: str) -> Trained:
        steps = len(by_epoch) * self.STEPS
        rates = [multiplier(step, steps, steps // 7) for step in range(steps)]
        losses = list(np.repeat(np.asarray(by_epoch, float), self.STEPS))
        return Trained(torch.nn.Identity(), 1.0, len(by_epoch), losses, rates, **more)  # type: ignore[arg-type]

    @pytest.mark.parametrize(("halving", "rest"), [(0.3, False), (0.1, False), (0.05, True)])
    def test_a_fall_by_the_same_at_each_doubling_by_hand(self, halving: float, rest: bool):
        """Loss 1 in the first epoch, then a straight line over log2 of the rate spent: its slope over the whole fall."""
        losses = 0.7 - halving * np.log2(self.spent())
        losses[0] = losses[-1] + 0.5
        found = self.trained(losses)
        assert found.still_falling == pytest.approx(halving / 0.5)
        assert found.converged is rest

    def test_the_cosine_does_not_make_a_curve_flat(self):
        """A loss that falls in proportion to the rate spent is not at rest; one that has decayed is, noise or not."""
        spent = self.spent()
        assert not self.trained(1 - 0.5 * spent).converged
        assert not self.trained(0.5 + np.exp(-2 * spent)).converged
        decayed = 0.3 + np.exp(-10 * spent)
        assert self.trained(decayed).converged
        assert self.trained(decayed + 0.01 * np.random.default_rng(0).normal(size=self.EPOCHS)).converged

    def test_a_loss_near_zero_has(self):
        """It falls at a constant rate, to a hundredth; of a loss that goes below zero that says nothing."""
        line = np.linspace(1, 0, self.EPOCHS)
        assert self.trained(0.01 + 0.5 * line).still_falling > 0.15
        assert self.trained(0.01 + 0.5 * line).converged
        assert not self.trained(0.5 * line - 0.5).converged

    def test_what_rises_or_fails_or_is_too_short_has_not(self):
        assert not self.trained(np.linspace(1, 2, 10)).converged
        assert not self.trained([1.0] * 10).converged
        assert self.trained([1.0] * 10).still_falling == np.inf
        assert not self.trained([1.0]).converged
        assert not self.trained(np.exp(-np.arange(10.0)), failed="in step 31").converged
