"""The Python interface: `benchkit.run` and `benchkit.load`. The commands do the same, and give equal hashes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchkit.errors import BenchkitError, UsageError
from benchkit.eval import eval_arguments, evaluate
from benchkit.eval._evaluation import Evaluation
from benchkit.export import export
from benchkit.export.job import Outcome
from benchkit.registry import Component, find
from benchkit.trust import everything


def run(
    model: Any,
    benchmark: str,
    *,
    data: str | Path | None = None,
    tag: str | None = None,
    preprocess: dict[str, Any] | None = None,
    patch_size: int | None = None,
    has_cls_token: bool | None = None,
    feature_fn: Callable[..., Any] | None = None,
    arguments: Sequence[str] = (),
    outputs: str | Path | None = None,
    overwrite_eval: bool = False,
    records: str | Path | None = None,
    trust: bool = False,
    **options: Any,
) -> Evaluation:
    """Export one model on one benchmark and score it.

    Args:
        model: a conf's name or path, or any torch.nn.Module.
        benchmark: instance or family.
        data: folder of the data, data.root.
        tag: name of the experiment; default: as of the commands, of a module the name of its class.
        preprocess: of a module: size, mean, std, interpolation, crop_pct. Not inferred: what the module was trained with.
        patch_size, has_cls_token: of a module that returns tokens (B, N, C).
        feature_fn: called with the images (or the module and the images) in place of the module's forward.
        arguments: `key=value` settings, as on the command line; outputs: outputs folder.
        overwrite_eval, records: as of `benchkit.eval.evaluate`; trust: import the code that a conf from elsewhere names.
        options: further arguments of `benchkit.export.export` (limit, random, overwrite, checkpoint ...).

    Returns:
        the scores; of a sweep (model.features.layers=all) those of its first tag, the others come with `load`.

    Raises:
        UsageError, RunError: what cannot be inferred of a module was not said; or as the commands.
    """
    given = [*arguments, *([f"data.root={data}"] if data is not None else [])]
    said: dict[str, Any] = {"preprocess": preprocess, "patch_size": patch_size, "has_cls_token": has_cls_token}
    conf, components = (model, None) if isinstance(model, str | Path) else (None, _components(model, feature_fn))
    if components is None:
        _refuse_said({**said, "feature_fn": feature_fn})
    else:
        tag = tag or type(model).__name__
        given += _module_settings(**said)
    how: dict[str, Any] = {"outputs": outputs, "conf": conf, "overwrite_eval": overwrite_eval, "records": records}
    with everything(trust), _modes_kept(model):
        ends = export(conf, benchmark, arguments=given, components=components, tag=tag, outputs=outputs, **options)
        first, *_ = [_evaluated(end, given, how) for end in ends]
    return first


def _evaluated(end: Outcome | BenchkitError, given: Sequence[str], how: dict[str, Any]) -> Evaluation:
    if not isinstance(end, Outcome):
        raise end
    return evaluate(end.benchmark, end.tag, arguments=eval_arguments(given, end.benchmark), **how)


@contextlib.contextmanager
def _modes_kept(model: Any) -> Iterator[None]:
    """A module comes back as it was: parts in training mode are so again."""
    modes = [(part, part.training) for part in model.modules()] if hasattr(model, "modules") else []
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _refuse_said(said: dict[str, Any]) -> None:
    odd = [name for name, value in said.items() if value is not None]
    if odd:
        raise UsageError(f"{', '.join(odd)}: a conf says this itself; these are for a module given as an object.")


def _components(module: Any, feature_fn: Callable[..., Any] | None) -> dict[str, Component]:
    """The `module` backbone with this object as its module."""
    from torch import nn

    if not isinstance(module, nn.Module):
        raise UsageError(f"benchkit.run takes a conf's name or a torch.nn.Module, not {type(module).__name__}.")
    kind = find("backbones", "module")

    def build(settings: Any, **how: Any) -> Any:
        backbone = kind.build(settings, module=module, feature_fn=feature_fn, **how)
        backbone.code_of = (feature_fn,)  # part of the identity: it decides what a feature is
        return backbone

    build.of_object = True  # type: ignore[attr-defined]  # no conf holds it: a rerun compares what it does
    return {"model.backbone": Component("backbones", type(module).__name__, kind.settings, build, kind.module)}


def _module_settings(
    preprocess: dict[str, Any] | None, patch_size: int | None, has_cls_token: bool | None
) -> list[str]:
    if preprocess is None:
        raise UsageError(
            "say how the module's images are prepared: preprocess={'size': 224, 'mean': [...], 'std': [...]} in the 0..1 "
            "range. It cannot be inferred, and another model's mean and std give wrong numbers silently."
        )
    values = {**preprocess, "patch_size": patch_size, "has_cls_token": has_cls_token}
    return [f"model.backbone.{key}={_text(value)}" for key, value in values.items() if value is not None]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def load(benchmark: str, tag: str, outputs: str | Path | None = None, *, trust: bool = False) -> Evaluation:
    """Scores of a tag from its files; evaluates it first if that has not been done.

    Args:
        benchmark, tag, outputs: name it.
        trust: import the code that its record names by dotted paths.

    Raises:
        UsageError: nothing was exported under this tag.
        RunError: a file is missing or damaged.
    """
    with everything(trust):
        return evaluate(benchmark, tag, outputs=outputs)
