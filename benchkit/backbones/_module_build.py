"""Making a Backbone of a user's nn.Module: constructed or given, weights loaded or redrawn, output understood."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from benchkit.backbones._checkpoint import find_checkpoint, load_into, load_state
from benchkit.backbones._imagenet import labels_of, names_of
from benchkit.backbones._module_output import Reading, read_output, understand
from benchkit.backbones.base import Backbone, Preprocess, Tokens
from benchkit.errors import UsageError, reason
from benchkit.features import Layer
from benchkit.registry import import_dotted

if TYPE_CHECKING:
    from benchkit.backbones.module import Settings

FeatureFunction = Callable[..., Any]


class ModuleBackbone(Backbone):
    """A module whose one output is its only layer: `final`."""

    depth = 1
    inner_pools = ()

    def __init__(self, net: nn.Module, call: Callable[[nn.Module, Tensor], Any], reading: Reading) -> None:
        super().__init__()
        self.net = net
        self.name = type(net).__name__
        self.call = call
        self.reading = reading
        self.pools = reading.pools
        self.own_pool = "cls" if "cls" in reading.pools else "mean"
        self.layer_unit = "block" if reading.kind == "tokens" else "stage"
        self.patch = reading.stride if reading.kind == "tokens" else None
        self.stride = reading.stride

    def tokens(self, image: Tensor, layers: list[Layer]) -> list[Tokens]:
        """The output of one call, as tokens. image: (B, 3, H, W), normalised."""
        return [read_output(self.call(self.net, image), self.reading, image) for _ in layers[:1]]


def build_module(
    settings: Settings, size: int | None, random: bool, seed: int, module: Any, feature_fn: FeatureFunction | None
) -> ModuleBackbone:
    """See `benchkit.backbones.module.build`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = _module(settings, module)
        notes = _weights(net, settings.checkpoint) if settings.checkpoint and not random else []
        if random:
            _refuse_bound(feature_fn)
            net = copy.deepcopy(net)
            notes = redraw(net, seed)
    call = _caller(net, settings.method, feature_fn)
    if size is None:
        raise UsageError(
            f"say how large images of {type(net).__name__} are: model.backbone.size, or data.size, in pixels."
        )
    net = net.eval()
    some = next(net.parameters(), torch.zeros(()))
    image = torch.zeros(2, 3, size, size, device=some.device, dtype=some.dtype)
    with torch.inference_mode():
        output = _run(call, net, image)
    reading = understand(
        output, size, settings.patch_size, settings.has_cls_token, type(net).__name__, settings.output == "masks"
    )
    backbone = ModuleBackbone(net, call, reading).eval()
    backbone.preprocess = Preprocess(
        size, settings.interpolation, _three(settings.mean), _three(settings.std), settings.crop_pct
    )
    backbone.labels = labels_of(names_of(settings.labels)) if settings.labels else ()
    backbone.notes = (*notes, f"its output is read as {reading.note}")
    return backbone


def _module(settings: Settings, module: Any) -> nn.Module:
    if module is None and not settings.path:
        raise UsageError("model.backbone.path is not set: give the dotted path of an nn.Module, such as mypackage.Net.")
    if module is None:
        thing = import_dotted(settings.path)
        is_made = isinstance(thing, nn.Module)
        try:
            module = thing if is_made else thing(**settings.kwargs)
        except TypeError as error:
            raise UsageError(
                f"{settings.path} cannot be made with model.backbone.kwargs={settings.kwargs}: {error}."
            ) from error
    if not isinstance(module, nn.Module):
        raise UsageError(f"{settings.path or 'the model given'} is a {type(module).__name__}, not a torch.nn.Module.")
    return module


def _weights(net: nn.Module, checkpoint: str) -> list[str]:
    path = find_checkpoint(checkpoint)
    assert path is not None
    state, notes = load_state(path)
    return [*notes, *load_into(net, state, source=str(path)).notes]


def redraw(net: nn.Module, seed: int) -> list[str]:
    """Random weights in place, from `seed`: by each part's own reset_parameters, else normal with deviation .02.

    Vectors without a reset of their own become 1 where they scale (weight, gamma, scale) and 0 elsewhere.
    """
    torch.manual_seed(seed)
    plain = []
    for path, part in net.named_modules():
        if callable(getattr(part, "reset_parameters", None)):
            part.reset_parameters()
            continue
        for name, parameter in part.named_parameters(recurse=False):
            plain.append(f"{path}.{name}".lstrip("."))
            _redraw_parameter(name, parameter)
    return [f"redrawn without a reset of their own: {', '.join(plain)}"] if plain else []


def _redraw_parameter(name: str, parameter: nn.Parameter) -> None:
    if parameter.ndim > 1:
        nn.init.normal_(parameter, std=0.02)
    else:
        nn.init.constant_(parameter, 1.0 if name in ("weight", "gamma", "scale") else 0.0)


def _refuse_bound(feature_fn: FeatureFunction | None) -> None:
    if feature_fn is not None and _arity(feature_fn) < 2:
        raise UsageError("a random twin is a copy of the model: feature_fn must take (module, image), not image alone.")


def _arity(function: FeatureFunction) -> int:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters)


def _caller(net: nn.Module, method: str, feature_fn: FeatureFunction | None) -> Callable[[nn.Module, Tensor], Any]:
    if feature_fn is not None:
        return feature_fn if _arity(feature_fn) >= 2 else lambda _, image: feature_fn(image)
    if not callable(getattr(net, method, None)):
        raise UsageError(f"model.backbone.method={method}: {type(net).__name__} has no such method.")
    # The call itself, not .forward, so that hooks run.
    return (lambda module, image: module(image)) if method == "forward" else lambda m, image: getattr(m, method)(image)


def _run(call: Callable[[nn.Module, Tensor], Any], net: nn.Module, image: Tensor) -> Any:
    try:
        return call(net, image)
    except Exception as error:
        raise UsageError(
            f"{type(net).__name__} does not take images {tuple(image.shape)}: {reason(error)}. Its size is set with data.size or "
            "model.backbone.size, another entry with model.backbone.method or feature_fn."
        ) from error


def _three(values: Any) -> tuple[float, float, float] | None:
    if values is None:
        return None
    if len(values) != 3:
        raise UsageError(f"model.backbone.mean and std need three numbers in the range 0..1, not {list(values)}.")
    return float(values[0]), float(values[1]), float(values[2])
