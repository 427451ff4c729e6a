"""What changes a model's bits: which ways are tried, how they are compared, and that a broken promise is seen."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchkit.commands.doctor import main
from benchkit.errors import RunError
from benchkit.export.determinism import Way, difference, measure, ways


def test_difference_by_hand():
    one = np.array([[3.0, 4.0], [1.0, 0.0]])
    other = np.array([[3.0, 4.0], [1.0, 0.1]])
    apart, cosine = difference(one, other)
    assert apart == pytest.approx(0.1)
    assert cosine == pytest.approx(1 / np.sqrt(1.01))
    assert difference(one, 2 * one) == (pytest.approx(1.0), pytest.approx(1.0))
    assert difference(np.zeros((1, 2)), np.zeros((1, 2))) == (0.0, 1.0)


def test_what_the_first_way_is_already_is_not_tried():
    names = [each.name for each in ways(2, 32, "AVX512", 4)]
    assert "2 threads" not in names
    assert "batches of 32" not in names
    assert {"1 thread", "4 threads", "batches of 1", "batches of 8", "CPU capability avx2", "7 shards", "bf16"} <= set(
        names
    )
    alone = [each.name for each in ways(1, 8, "DEFAULT", 1)]
    assert not any("thread" in name or "capability" in name for name in alone)


@pytest.mark.slow
@pytest.mark.long
def test_a_promise_that_does_not_hold_is_seen():
    every = [
        Way("2 shards", (("--shard", "0/2"), ("--shard", "1/2")), "bits"),
        Way("other images", (("data.seed=1",),), "fp32"),
    ]
    same, other = measure("color_histogram", ["data.side=16", "model.batch_size=8"], every, 1)
    assert (same.equal, same.apart, same.kept) == (True, 0.0, True)
    assert (other.equal, other.kept) == (False, False)
    assert other.apart > 0.01


@pytest.mark.slow
@pytest.mark.long
def test_an_export_that_fails_says_what_it_printed():
    with pytest.raises(RunError, match="layers"):
        measure("color_histogram", ["data.side=16", "model.features.layers=7"], [], 1)


@pytest.mark.slow
@pytest.mark.long
def test_the_command_prints_a_row_for_each_way(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    few = [Way("the same again", ((),), "bits")]
    monkeypatch.setattr("benchkit.export.determinism.ways", lambda *_: few)
    assert main(["--determinism", "color_histogram", "data.side=16", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["way"], row["equal"], row["kept"]) == ("the same again", True, True)
