"""The forward with batches in flight, and on a CUDA device where there is one: the same features, bit for bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import benchkit.export.forward
from benchkit.errors import BenchkitError
from benchkit.export import export
from benchkit.export.job import Outcome
from benchkit.export.running import AHEAD, Running
from benchkit.store.table import Table
from benchkit.store.verify import folder_content

PREPARED = "size: 32, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]"
SMALL = ("data.side=32", "data.n_test=46", "model.batch_size=4")
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Outcome]:
    """Export a model of tiny_models into a folder below tmp_path."""

    def work(where: str, *settings: str, model: str = "TinyNet", **options: Any) -> Outcome:
        conf = tmp_path / f"{model}.yaml"
        conf.write_text(f"model: {{backbone: {{name: module, path: tiny_models.{model}, {PREPARED}}}}}\n")
        given = {"outputs": tmp_path / where, "say": lambda _: None, **options}
        end = export(conf, "retrieval", arguments=[*SMALL, *settings], **given)[0]
        if isinstance(end, BenchkitError):
            raise end
        return end

    return work


def embedding(folder: Path) -> np.ndarray:
    with Table(folder / "predictions.h5", "predictions") as table:
        return np.asarray(table.read("embedding"))


def in_flight(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Answers are read only when the next batches have been launched; how many were in flight at most."""
    begin, launch = Running.__init__, Running.launch
    flying = [0, 0]

    def init(self: Running, *given: Any) -> None:
        begin(self, *given)
        self.ahead = AHEAD

    def launched(self: Running, *given: Any) -> Callable[[], Any]:
        answers = launch(self, *given)
        flying[0] += 1
        flying[1] = max(flying)

        def read() -> Any:
            flying[0] -= 1
            return answers()

        return read

    monkeypatch.setattr(Running, "__init__", init)
    monkeypatch.setattr(Running, "launch", launched)
    return flying


def test_batches_in_flight_change_nothing(made: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(benchkit.export.forward, "PART_BYTES", 12_000)
    one = made("one")
    flying = in_flight(monkeypatch)
    other = made("other")
    assert flying == [0, AHEAD + 1]
    assert folder_content(one.folder) == folder_content(other.folder)


def test_what_is_in_flight_when_one_fails_does_not_take_the_finished_with_it(
    made: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    in_flight(monkeypatch)
    launch, calls = Running.launch, []

    def third_fails(self: Running, *given: Any) -> Callable[[], Any]:
        calls.append(1)
        answers = launch(self, *given)
        if len(given[0]) != 4 or len(calls) != 9:
            return answers

        def broken() -> Any:
            raise RuntimeError("the device fell off the bus")

        return broken

    monkeypatch.setattr(Running, "launch", third_fails)
    with pytest.raises(RuntimeError, match="fell off"):
        made("broken")
    (part,) = (tmp_path / "broken").glob("features/*/part-*.h5")
    with Table(part, "bank") as table:
        kept = len(table.names)
    assert kept > 0
    assert kept % 4 == 0
    assert kept < 46
    monkeypatch.setattr(Running, "launch", launch)
    assert made("broken").forwards == 46 - kept


def test_a_layer_that_is_a_view_of_all_tokens_is_kept_without_them():
    """Trap 3: a slice of a batch saved with the whole batch behind it."""

    class Wide(torch.nn.Module):
        layer_unit = "block"

        def forward(self, image: torch.Tensor, keys: list[str]) -> dict[str, torch.Tensor]:
            return {"cls@final": torch.ones(len(image), 1000, 8)[:, 0]}

    from benchkit.conf.model import ModelSettings
    from benchkit.preprocess import Preprocess

    preprocess = Preprocess(8, "crop", 8, "bilinear", (0.5,) * 3, (0.5,) * 3)
    running = Running(Wide(), ModelSettings(), preprocess, torch.device("cpu"))
    pixels = running.batch([torch.zeros(3, 8, 8, dtype=torch.uint8)] * 4)
    value = running.launch(pixels, ["cls@final"], 3, lambda key, value: value)()["cls@final"]
    base = value if value.base is None else value.base
    assert value.shape == (3, 8)
    assert torch.from_numpy(value).untyped_storage().nbytes() == 3 * 8 * 4
    assert base.nbytes <= 3 * 8 * 4


@pytest.mark.gpu
@cuda
class TestDevice:
    def test_close_to_the_cpu_and_equal_to_itself(self, made: Callable[..., Outcome]):
        cpu, first, again = made("cpu", "model.device=cpu"), made("first"), made("again")
        assert folder_content(first.folder) == folder_content(again.folder)
        np.testing.assert_allclose(embedding(first.folder), embedding(cpu.folder), atol=1e-5)

    def test_shards_give_the_content_of_a_single_run(self, made: Callable[..., Outcome]):
        whole = made("whole")
        ends = [made("shards", shard=f"{index}/3") for index in (2, 0, 1)]
        assert folder_content(ends[-1].folder) == folder_content(whole.folder)

    def test_lower_precision_is_near(self, made: Callable[..., Outcome]):
        fp32, bf16 = embedding(made("fp32").folder), embedding(made("bf16", "model.precision=bf16").folder)
        lengths = np.linalg.norm(fp32, axis=1) * np.linalg.norm(bf16, axis=1)
        assert ((fp32 * bf16).sum(axis=1) / lengths).min() > 0.999
