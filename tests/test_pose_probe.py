"""The pose probe: rotations against SciPy, errors by hand, what the network learns and does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from scipy.spatial.transform import Rotation

from benchkit.errors import BenchkitError, RunError, UsageError
from benchkit.eval import evaluate
from benchkit.eval.pose_probe import PoseProbe, Settings
from benchkit.export import export
from benchkit.geometry import rotation
from benchkit.heads.constant import Constant
from benchkit.heads.pose_mlp import PoseMlp
from benchkit.heads.pose_mlp import Settings as HeadSettings
from benchkit.heads.solvers import pose_net
from benchkit.store.items import ArrayItems
from benchkit.store.table import Table
from benchkit.viz.pairs import GAP


def rotations(count: int, seed: int = 0) -> Rotation:
    return Rotation.random(count, rng=np.random.default_rng(seed))


def half_turns() -> Rotation:
    """Turns by 180 degrees and nearly so, about the axes and others: where one of the components is 0."""
    axes = np.concatenate([np.eye(3), np.random.default_rng(0).normal(size=(20, 3))])
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    return Rotation.from_rotvec(np.concatenate([np.pi * axes, (np.pi - 1e-9) * axes]))


def about(axis: list[float], *degrees: float) -> Rotation:
    return Rotation.from_rotvec(np.radians(degrees)[:, None] * np.array(axis))


class TestRotation:
    @pytest.mark.parametrize("made", [rotations(200), half_turns(), Rotation.identity(1)], ids=["any", "half", "none"])
    def test_quaternions_agree_with_scipy(self, made: Rotation):
        theirs = made.as_quat(scalar_first=True)
        ours = rotation.to_quaternion(made.as_matrix())
        np.testing.assert_allclose(np.abs((ours * theirs).sum(axis=1)), 1, atol=1e-12)
        assert (np.take_along_axis(ours, np.abs(ours).argmax(axis=1)[:, None], axis=1) > 0).all()
        np.testing.assert_allclose(rotation.to_matrix(3 * theirs), made.as_matrix(), atol=1e-12)

    def test_angles_agree_with_scipy(self):
        one, other = rotations(100, 1), rotations(100, 2)
        theirs = np.degrees((one * other.inv()).magnitude())
        np.testing.assert_allclose(rotation.angle(one.as_matrix(), other.as_matrix()), theirs, atol=1e-9)
        np.testing.assert_allclose(rotation.angle(half_turns().as_matrix(), np.eye(3)), 180, atol=1e-6)

    def test_small_angles_are_exact(self):
        turned = Rotation.from_rotvec([1e-9, 0, 0]).as_matrix()
        assert rotation.angle(turned, np.eye(3)) == pytest.approx(np.degrees(1e-9), rel=1e-6)

    def test_the_mean_agrees_with_scipy(self):
        spread = Rotation.from_rotvec(np.random.default_rng(0).normal(size=(50, 3)))
        np.testing.assert_allclose(rotation.mean(spread.as_matrix()), spread.mean().as_matrix(), atol=1e-9)
        assert np.linalg.det(rotation.mean(half_turns().as_matrix())) == pytest.approx(1)


def truth(turns: Rotation, moves: np.ndarray) -> ArrayItems:
    count = len(moves)
    fields = {"R": turns.as_matrix(), "t": moves, "views": ["a\nb"] * count}
    return ArrayItems([f"{k:03d}" for k in range(count)], fields, {})


def family() -> PoseProbe:
    return PoseProbe(Settings())


class TestScores:
    def test_by_hand(self):
        """Turned about z by 0, 14, 29 and 90 degrees; moved by 0, 1, 2 and 5 metres; the answer is always: not at all."""
        moves = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0], [3, 0, 4.0]])
        true = truth(about([0, 0, 1], 0, 14, 29, 90), moves)
        said = ArrayItems(true.names, {"quaternion": np.tile([-2.0, 0, 0, 0], (4, 1)), "translation": np.zeros((4, 3))})
        found = family().summarize(family().score(said, true))
        assert found == pytest.approx({
            "rotation_error": 33.25, "median_rotation_error": 21.5, "accuracy@15deg": 0.5, "accuracy@30deg": 0.75,
            "translation_error": 2, "median_translation_error": 1.5,
        })  # fmt: skip

    def test_odd_answers_are_refused(self):
        true = truth(rotations(2), np.zeros((2, 3)))
        for turn, move in (([0, 0, 0, 0], [0, 0, 0]), ([1, 0, 0, 0], [0, np.nan, 0])):
            fields = {"quaternion": np.array([[1.0, 0, 0, 0], turn]), "translation": np.array([[0.0, 0, 0], move])}
            with pytest.raises(RunError, match="row 1"):
                family().score(ArrayItems(true.names, fields), true)
        with pytest.raises(UsageError, match="relative pose"):
            family().check(ArrayItems(["a"], {"views": ["a\nb"]}))

    def test_the_floor_is_the_mean_of_train(self):
        turns, moves = (
            about([0, 1, 0], 10, 20, 60),
            np.array([[0, 0, 1], [0, 0, 2], [3, 0, 3.0]]),
        )
        head = Constant()
        head.fit("", None, truth(turns, moves), 0, 1)
        np.testing.assert_allclose(head.state()["translation"], [1, 0, 2])
        expected = Rotation.from_quat(head.state()["quaternion"], scalar_first=True)
        assert np.degrees((expected * turns.mean().inv()).magnitude()) < 1e-4
        fields = head.predict("", ArrayItems(["a", "b"], {}), 1)
        assert {name: value.shape for name, value in fields.items()} == {"quaternion": (2, 4), "translation": (2, 3)}
        other = truth(rotations(5, 3), np.zeros((5, 3)))
        floor = family().score(family().constant(head.state(), other), other)
        theirs = np.degrees((rotations(5, 3) * expected.inv()).magnitude())
        np.testing.assert_allclose(floor["rotation_error"], theirs, atol=1e-4)

    def test_draws_lines_on_which_points_lie(self):
        """A pure move to the right: lines are level, and the true ones go through the points' own heights."""
        K = np.array([[100, 0, 50], [0, 100, 50], [0, 0, 1.0]])
        target = {"K0": K, "K1": K, "R": np.eye(3), "t": np.array([-1.0, 0, 0]), "size0": np.full(2, 100.0),
                  "size1": np.full(2, 100.0)}  # fmt: skip
        axes = Figure().subplots()
        family().draw(axes, {"quaternion": np.array([1.0, 0, 0, 0]), "translation": np.array([0, -1.0, 0])}, target)
        lines = {color: [line for line in axes.lines if line.get_color() == color] for color in ("limegreen", "red")}
        assert sorted({round(y) for line in lines["limegreen"] for y in line.get_ydata()}) == [25, 50, 75]
        assert sorted({round(x - 100 * (1 + GAP)) for line in lines["red"] for x in line.get_xdata()}) == [25, 50, 75]


def learnable(count: int, seed: int) -> tuple[ArrayItems, ArrayItems]:
    """Pairs whose second vector is the first one turned and moved: what a head can learn of a pose."""
    rng = np.random.default_rng(seed)
    vectors, moves = 0.5 * rng.normal(size=(count, 3)), rng.normal(size=(count, 3))
    first = rng.normal(size=(count, 8)).astype(np.float32)
    second = np.concatenate([vectors, moves, first[:, :2]], axis=1).astype(np.float32)
    true = truth(Rotation.from_rotvec(vectors), moves)
    return ArrayItems(true.names, {"cls@final": np.stack([first, second], axis=1)}), true


class TestHead:
    def trained(self, **settings: Any) -> tuple[PoseMlp, dict[str, float | None]]:
        features, true = learnable(800, 0)
        head = PoseMlp(HeadSettings(**{"hidden": [64, 32], "batch_size": 64, "epochs": 80, "lr": 3e-3, **settings}))
        head.fit("cls@final", features, true, 0, 1)
        unseen, test = learnable(100, 1)
        said = ArrayItems(test.names, head.predict("cls@final", unseen, 1))
        return head, family().summarize(family().score(said, test))

    def test_learns_what_can_be_learned(self):
        head, found = self.trained()
        constant = Constant()
        constant.fit("", None, learnable(800, 0)[1], 0, 1)
        test = learnable(100, 1)[1]
        floor = family().summarize(family().score(family().constant(constant.state(), test), test))
        assert found["rotation_error"] < 0.5 * floor["rotation_error"]
        assert found["translation_error"] < 0.5 * floor["translation_error"]
        assert head.log()["train_loss"] < 0.1
        assert head.log()["train_pairs"] == 800

    def test_learns_nothing_of_features_without_the_pose(self):
        _, true = learnable(400, 0)
        noise = np.random.default_rng(9).normal(size=(500, 2, 8)).astype(np.float32)
        head = PoseMlp(HeadSettings(hidden=[64, 32], batch_size=64, epochs=10))
        head.fit("cls@final", ArrayItems(true.names, {"cls@final": noise[:400]}), true, 0, 1)
        test = learnable(100, 1)[1]
        said = ArrayItems(test.names, head.predict("cls@final", ArrayItems(test.names, {"cls@final": noise[400:]}), 1))
        constant = Constant()
        constant.fit("", None, true, 0, 1)
        floor = family().score(family().constant(constant.state(), test), test)["rotation_error"].mean()
        assert family().score(said, test)["rotation_error"].mean() > 0.95 * floor

    def test_same_seed_same_bits_other_seed_others(self):
        one, again, other = (self._answer(seed) for seed in (0, 0, 1))
        np.testing.assert_array_equal(one, again)
        assert (one != other).any()

    def _answer(self, seed: int) -> np.ndarray:
        torch.manual_seed(np.random.default_rng().integers(1 << 31))  # whatever torch's own generator stands at
        features, true = learnable(70, 0)
        head = PoseMlp(HeadSettings(hidden=[16], epochs=3))
        head.fit("cls@final", features, true, seed, 1)
        return head.predict("cls@final", features, 1)["quaternion"]

    def test_answers_are_of_length_1_and_do_not_hang_on_the_others(self):
        features, true = learnable(70, 0)
        head = PoseMlp(HeadSettings(hidden=[16], epochs=3))
        head.fit("cls@final", features, true, 0, 1)
        whole = head.predict("cls@final", features, 1)
        np.testing.assert_allclose(np.linalg.norm(whole["quaternion"], axis=1), 1, rtol=1e-6)
        alone = head.predict("cls@final", ArrayItems(["x"], {"cls@final": features.read("cls@final")[5:6]}), 1)
        for name, value in alone.items():
            np.testing.assert_array_equal(value[0], whole[name][5])
            assert value.dtype == np.float32

    def test_the_loss_takes_the_nearer_of_both_signs(self):
        said = torch.tensor([[-1.0, 0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 2]])
        true = torch.tensor([[1.0, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]])
        assert pose_net._errors(said, true, True).tolist() == pytest.approx([0, 6 / 7])
        assert pose_net._errors(said, true, False).tolist() == pytest.approx([4 / 7, 6 / 7])

    def test_the_state_is_the_whole_network(self):
        """Written out with NumPy: normalised by the running statistics, then layers with ReLU between."""
        head, _ = self.trained(epochs=2)
        state, (features, _) = head.state(), learnable(5, 2)
        rows = features.read("cls@final").reshape(5, -1).astype(np.float64)
        values = (rows - state["norm.running_mean"]) / np.sqrt(state["norm.running_var"] + 1e-5)
        values = values * state["norm.weight"] + state["norm.bias"]
        for k in range(3):
            values = values @ state[f"{k}.weight"].T + state[f"{k}.bias"]
            values = np.maximum(values, 0) if k < 2 else values
        fields = head.predict("cls@final", features, 1)
        np.testing.assert_allclose(fields["translation"], values[:, 4:], rtol=1e-3, atol=1e-4)
        turn = values[:, :4] / np.linalg.norm(values[:, :4], axis=1, keepdims=True)
        np.testing.assert_allclose(fields["quaternion"], turn, rtol=1e-3, atol=1e-4)

    def test_one_pair_a_last_batch_of_one_and_a_rate_that_is_too_large(self):
        features, true = learnable(65, 0)
        head = PoseMlp(HeadSettings(hidden=[16], epochs=2, batch_size=64))
        head.fit("cls@final", features, true, 0, 1)  # 64 and one left over
        assert np.isfinite(head.log()["train_loss"])
        alone = ArrayItems(["000"], {"cls@final": features.read("cls@final")[:1]})
        with pytest.raises(UsageError, match="two train pairs"):
            head.fit("cls@final", alone, ArrayItems(["000"], {k: v[:1] for k, v in true.fields.items()}), 0, 1)
        with pytest.raises(RunError, match="lr=1e"):
            PoseMlp(HeadSettings(hidden=[16], lr=1e30)).fit("cls@final", features, true, 0, 1)
        for wrong in ({"lr": 0.0}, {"batch_size": 1}, {"weight_decay": -1.0}, {"hidden": [0]}):
            with pytest.raises(ValueError, match=r"lr|batch_size|weight_decay"):
                HeadSettings(**wrong)


def test_the_whole_way(tmp_path: Path):
    """Few generated pairs: the head learns those of train by heart; whether it beats the mean pose is not promised."""
    given = ("data.n_test=12", "data.n_train=30", "data.side=32", "model.head.epochs=60")
    (end,) = export("color_histogram", "pose_probe", arguments=given, tag="t", outputs=tmp_path, say=lambda _: None)
    if isinstance(end, BenchkitError):
        raise end
    found = evaluate("pose_probe", "t", outputs=tmp_path)
    assert found.summaries["train_pairs"] == 30
    assert 0 < found.summaries["rotation_error"] < 180
    with (
        Table(end.folder / "predictions.h5", "predictions") as table,
        Table(end.folder / "targets.h5", "targets") as true,
    ):
        theirs = Rotation.from_quat(table.read("quaternion"), scalar_first=True)
        apart = np.degrees((theirs * Rotation.from_matrix(true.read("R")).inv()).magnitude())
        mean = Rotation.from_quat(table.read_whole("floor/quaternion"), scalar_first=True)
        floor = np.degrees((mean * Rotation.from_matrix(true.read("R")).inv()).magnitude())
    np.testing.assert_allclose(found.items["rotation_error"], apart, atol=1e-3)
    assert found.summaries["floor_rotation_error"] == pytest.approx(floor.mean(), abs=1e-3)
