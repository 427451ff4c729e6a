"""LoFTR by kornia: its weights, and what its numbers mean."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

from benchkit.errors import UsageError, reason
from benchkit.heads.solvers.dense_matcher import Found, grey
from benchkit.store.weights import refuse_bombs

BUG_FIXED = ("indoor_new",)  # weights trained with the position encoding as the paper has it


def load(settings: Any) -> Any:
    """The network, in eval mode, on the CPU.

    Raises:
        UsageError: kornia is not installed; the weights cannot be downloaded; the file is missing, damaged or of another net.
    """
    try:
        from kornia.feature import LoFTR
        from kornia.feature.loftr.loftr import default_cfg
    except ImportError as missing:
        raise UsageError("the head loftr needs kornia: pip install 'benchkit[lightglue]'.") from missing
    config: Any = copy.deepcopy(default_cfg)
    config["match_coarse"]["thr"] = settings.threshold
    config["coarse"]["temp_bug_fix"] = settings.pretrained in BUG_FIXED
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        if settings.random or settings.checkpoint:
            net = LoFTR(pretrained=None, config=config)
            if settings.checkpoint:
                _fill(net, Path(settings.checkpoint).expanduser())
        else:
            net = _downloaded(LoFTR, settings.pretrained, config)
    return net.eval().requires_grad_(False)


def _downloaded(make: Any, name: str, config: Any) -> Any:
    try:
        return make(pretrained=name, config=config)
    except Exception as error:  # no network, no such address, a damaged download
        raise UsageError(
            f"LoFTR's weights {name} could not be had by kornia's own download ({reason(error)}). Get loftr_{name}.ckpt "
            "(indoor_new: loftr_indoor_ds_new.ckpt) of https://huggingface.co/kornia/loftr where there is a network, and give it "
            f"with model.head.checkpoint=FILE model.head.pretrained={name}."
        ) from error


def _fill(net: Any, path: Path) -> None:
    """Take a file's weights: a dictionary of tensors, or one with them as `state_dict`; the names may begin with matcher."""
    try:
        refuse_bombs(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
        net.load_state_dict(dict(state.get("state_dict", state)))
    except Exception as error:  # no file, damaged, code in it, or another network's
        raise UsageError(f"model.head.checkpoint={path} cannot be used: {reason(error)}.") from error


def match(net: Any, first: Any, second: Any) -> Found:
    """Matches of two views.

    A point of the first image is 8 x (column, row) of a cell. It is counted from the corner of the top-left pixel: kornia says
    of the published weights that the centre of pixel (x, y) lies at (x + .5, y + .5) in LoFTR's frame. (They were trained with
    MegaDepth's cameras, which are COLMAP's and count from that corner, and with sizes scaled by one factor without an offset.)
    Images of any size are taken; cells within 16 pixels of the border are never matched.
    """
    images = {f"image{i}": grey(view, next(net.parameters()).device) for i, view in enumerate((first, second))}
    found = net(images)
    points0, points1, scores = (
        found[name].float().cpu().numpy() for name in ("keypoints0", "keypoints1", "confidence")
    )
    return Found(points0, points1, scores)
