"""Somebody else's matches become a tag: found by name, checked, scored like one's own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from benchkit.errors import BenchkitError
from benchkit.eval import evaluate
from benchkit.export import export
from benchkit.provenance.record import read_record
from benchkit.store.table import Table

DATA = ("data.n_test=3", "data.side=96")
FIELDS = ("keypoints0", "keypoints1", "matches0", "matching_scores0")
command: Callable[..., int] = importlib.import_module("benchkit.commands.import").main


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A tag of one's own, and its scores."""
    outputs = tmp_path_factory.mktemp("own")
    (end,) = export("sift", "correspondence", arguments=DATA, outputs=outputs, say=lambda _: None)
    if isinstance(end, BenchkitError):
        raise end
    return end.folder, evaluate("correspondence", "sift", outputs=outputs).summaries


def written(
    path: Path, folder: Path, name: Callable[[str], str] = str, shift: float = 0.0, dtype: Any = np.float32
) -> Path:
    """The tag's predictions as another tool writes them."""
    with Table(folder / "predictions.h5", "predictions") as table, h5py.File(path, "w") as h5:
        for row, item in enumerate(table.names):
            group = h5.create_group(name(item))
            for field in FIELDS:
                value = table.item(field, row)
                group[field] = (value - shift).astype(dtype) if field.startswith("keypoints") else value
    return path


def scores(tmp_path: Path, file: Path, *flags: str) -> dict[str, Any]:
    argv = ["correspondence", str(file), "--tag", "theirs", "--outputs", str(tmp_path / "outputs"), *flags, *DATA]
    assert command(argv) == 0
    return evaluate("correspondence", "theirs", outputs=tmp_path / "outputs").summaries


def test_the_same_matches_have_the_same_scores(tmp_path: Path, own: tuple[Path, dict[str, Any]]):
    found = scores(tmp_path, written(tmp_path / "p.h5", own[0]), "--made-by", "SIFT of 2004")
    assert found == own[1]
    record = read_record(tmp_path / "outputs" / "results" / "correspondence" / "theirs")
    assert record["conf"]["model"]["backbone"]["made_by"] == "SIFT of 2004"
    assert record["features"]["keys"] == []
    assert record["inputs"]["checkpoint"]["bytes"] == (tmp_path / "p.h5").stat().st_size


def test_names_of_other_tools_and_the_other_convention(tmp_path: Path, own: tuple[Path, dict[str, Any]]):
    """Views joined by _, which HDF5 takes for nested groups; points from the first pixel's centre."""
    file = written(tmp_path / "p.h5", own[0], lambda item: f"{item}/source_{item}/warped", shift=0.5)
    assert scores(tmp_path, file, "--pixels", "centre") == pytest.approx(own[1], abs=1e-6)


def test_half_a_pixel_shows(tmp_path: Path, own: tuple[Path, dict[str, Any]]):
    shifted = tmp_path / "p.h5"
    written(shifted, own[0])
    with h5py.File(shifted, "r+") as h5:
        for name in list(h5["test"]):
            h5["test"][name]["keypoints1"][...] += 0.5
    assert scores(tmp_path, shifted)["recall@1px"] < own[1]["recall@1px"]


def test_sixteen_bits_are_said(tmp_path: Path, own: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]):
    scores(tmp_path, written(tmp_path / "p.h5", own[0], dtype=np.float16))
    assert "16-bit floats" in capsys.readouterr().err


def spoil_nan(group: Any) -> None:
    group["keypoints1"][0] = np.nan


def spoil_match(group: Any) -> None:
    group["matches0"][0] = 10_000


def spoil_shape(group: Any) -> None:
    del group["matches0"]
    group["matches0"] = np.zeros(3, np.int32)


def spoil_outside(group: Any) -> None:
    del group["keypoints0"]
    group["keypoints0"] = h5py.ExternalLink("other.h5", "/x")


def spoil_virtual(group: Any) -> None:
    shape = group["keypoints0"].shape
    del group["keypoints0"]
    layout = h5py.VirtualLayout(shape=shape, dtype=np.float32)
    layout[:] = h5py.VirtualSource("other.h5", "x", shape=shape)
    group.create_virtual_dataset("keypoints0", layout)


def spoil_float_matches(group: Any) -> None:
    value = group["matches0"][()]
    del group["matches0"]
    group["matches0"] = value + 0.7


def spoil_bool_matches(group: Any) -> None:
    value = group["matches0"][()]
    del group["matches0"]
    group["matches0"] = value >= 0


def spoil_huge_matches(group: Any) -> None:
    value = group["matches0"][()]
    del group["matches0"]
    group["matches0"] = np.full(len(value), 2**64 - 1, np.uint64)


def spoil_complex(group: Any) -> None:
    value = group["keypoints0"][()]
    del group["keypoints0"]
    group["keypoints0"] = value + 1j


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_float_matches, "whole numbers"),
        (spoil_bool_matches, "whole numbers"),
        (spoil_huge_matches, "not there"),
        (spoil_complex, "numbers"),
        (spoil_nan, "NaN"),
        (spoil_match, "not there"),
        (spoil_shape, "one per keypoint"),
        (spoil_outside, "of its own"),
        (spoil_virtual, "another file"),
        (None, "lacks 1 of 3 items"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, own: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str], spoil: Any, message: str
):
    file = written(tmp_path / "p.h5", own[0])
    with h5py.File(file, "r+") as h5:
        if spoil:
            spoil(h5["test/000001"])
        else:
            del h5["test/000001"]
    argv = ["correspondence", str(file), "--tag", "t", "--outputs", str(tmp_path / "outputs"), *DATA]
    assert command(argv) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "outputs" / "results" / "correspondence" / "t" / "record.json").exists()


def test_no_such_file_and_no_hdf5(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "text.h5").write_text("no")
    for file, message in ((tmp_path / "absent.h5", "does not exist"), (tmp_path / "text.h5", "no HDF5")):
        assert command(["correspondence", str(file), "--outputs", str(tmp_path), *DATA]) == 2
        assert message in capsys.readouterr().err


def test_a_file_of_keypoints_alone(
    tmp_path: Path, own: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
):
    file = written(tmp_path / "p.h5", own[0])
    with h5py.File(file, "r+") as h5:
        for name in h5["test"]:
            del h5["test"][name]["matches0"]
    assert command(["correspondence", str(file), "--outputs", str(tmp_path / "outputs"), *DATA]) == 2
    assert "no group with a data set matches0" in capsys.readouterr().err


def test_lines_are_kept(tmp_path: Path, own: tuple[Path, dict[str, Any]]):
    """Where every pair has them, moved as points are; scores are the same."""
    file = written(tmp_path / "p.h5", own[0], shift=0.5)
    lines = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    with h5py.File(file, "r+") as h5:
        for name in h5["test"]:
            h5["test"][name]["lines0"], h5["test"][name]["line_matches0"] = lines, np.array([1, -1])
        h5["test"]["000000"]["lines1"] = lines
    assert scores(tmp_path, file, "--pixels", "centre") == pytest.approx(own[1], abs=1e-6)
    with Table(tmp_path / "outputs/results/correspondence/theirs/predictions.h5", "predictions") as table:
        np.testing.assert_array_equal(table.item("lines0", 1), lines + 0.5)
        assert table.item("line_matches0", 2).tolist() == [1, -1]
        assert "lines1" not in table


def test_lines_of_another_shape(tmp_path: Path, own: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]):
    file = written(tmp_path / "p.h5", own[0])
    with h5py.File(file, "r+") as h5:
        h5["test"]["000001"]["lines0"] = np.zeros((3, 4))
    assert command(["correspondence", str(file), "--outputs", str(tmp_path / "outputs"), *DATA]) == 2
    assert "lines are (n, 2, 2)" in capsys.readouterr().err


def test_it_is_scored_at_once(tmp_path: Path, own: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]):
    scores(tmp_path, written(tmp_path / "p.h5", own[0]))
    printed = capsys.readouterr()
    assert "recall@5px" in printed.out
    assert "replaces" not in printed.err


def test_another_file_under_the_same_tag_is_noticed(
    tmp_path: Path, own: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
):
    file = written(tmp_path / "p.h5", own[0])
    scores(tmp_path, file)
    file.unlink()
    written(file, own[0], shift=0.25)
    argv = ["correspondence", str(file), "--tag", "theirs", "--outputs", str(tmp_path / "outputs"), *DATA]
    assert command(argv) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert command([*argv, "--overwrite"]) == 0
