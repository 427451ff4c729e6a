"""What a user's model answers is part of its identity, and must not depend on its neighbours."""

import numpy as np
import pytest
import torch
from torch import nn

import benchkit
from benchkit.errors import UsageError
from benchkit.export.probe import _numbers, _rounded

PREPARED = {"size": 16, "mean": [0.5] * 3, "std": [0.5] * 3}
SMALL = ["data.n_test=24", "data.side=16", "model.batch_size=4"]


def run(model, tmp_path, tag="a", **options):
    how = {"preprocess": PREPARED, "arguments": SMALL, "outputs": tmp_path / "outputs", "tag": tag, "say": str}
    return benchkit.run(model, "retrieval", **how, **options)


class Cells(nn.Module):
    def __init__(self, step=lambda x: x):
        super().__init__()
        self.step = step

    def forward(self, image):
        return self.step(nn.functional.adaptive_avg_pool2d(image, 4).flatten(1))


TABLE = {"weights": torch.eye(48)}


def by_table(x):
    return x @ TABLE["weights"]


def test_a_table_that_a_function_reads_is_seen(tmp_path, monkeypatch):
    first = run(Cells(by_table), tmp_path)
    monkeypatch.setitem(TABLE, "weights", torch.diag(torch.arange(48.0)))
    with pytest.raises(UsageError, match="overwrite"):
        run(Cells(by_table), tmp_path)
    other = run(Cells(by_table), tmp_path, tag="b")
    assert other.summaries != first.summaries
    assert other.summaries == run(Cells(by_table), tmp_path / "fresh").summaries  # not served from the old bank


@pytest.mark.parametrize(
    "step",
    [
        lambda x: (x - x.mean(0)) / x.std(0),  # batch statistics
        lambda x: x.sort(0)[0],
        lambda x: nn.functional.dropout(x, 0.5),
    ],
    ids=["statistics", "sorting", "dropout"],
)
def test_features_that_depend_on_their_neighbours_are_refused(tmp_path, step):
    with pytest.raises(UsageError, match="other images of its batch"):
        run(Cells(step), tmp_path)
    assert not list((tmp_path / "outputs").rglob("part-*.h5"))
    assert not list((tmp_path / "outputs").rglob("plan.json"))


def test_a_permutation_of_channels_is_seen_and_rounding_noise_is_not():
    values = np.random.default_rng(0).standard_normal((8, 32)).astype(np.float32)
    assert _numbers(values) != _numbers(values[:, ::-1])
    assert _numbers(values) == _numbers(values * np.float32(1 + 1e-6))
    assert (_rounded(0.123456), _rounded(-1234.5), _rounded(1e-5)) == (0.123, -1230.0, 0.0)


def test_preprocessing_has_to_be_said(tmp_path):
    for said in ({"size": 16}, {"mean": [0.5] * 3, "std": [0.5] * 3}):
        with pytest.raises(UsageError, match="say how"):
            benchkit.run(Cells(), "retrieval", preprocess=said, arguments=SMALL, outputs=tmp_path, say=str)
