"""Losses of dense probes, over the valid pixels of a batch.

Semantic: cross-entropy. Binary: cross-entropy of the sigmoid. Maps: L1. Depth and normals as in probe3d (El Banani et al.
2024, evals/utils/losses.py: `DepthLoss`, `sig_loss`, `gradient_loss`, `angular_loss`), which VisBench takes over:
* depth: 10 x scale-invariant log loss, sqrt(mean g^2 - .85 (mean g)^2) with g = log(d + .001) - log(t + .001) over all valid
  pixels of the batch (Eigen et al. 2014, in AdaBins' form), + .5 x gradient loss: |difference of g over two pixels|, down
  and across, both ends valid, over the number of valid pixels, summed over every 1st, 2nd, 4th and 6th pixel;
* normals: angle a between prediction and truth, its cosine cut to 1 - 1e-4; `uncertainty` (Bae et al. 2021) has a
  concentration k = elu(x) + 1.01 and is log(1 + exp(-k pi)) - log(k^2 + 1) + k a.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchkit.heads.solvers.dense_grid import Share, Size, blocks, sides

SIGMA, SCALE_WEIGHT, GRADIENT_WEIGHT, LOG_SHIFT = 0.85, 10.0, 0.5, 0.001
STEPS = (1, 2, 4, 6)  # probe3d: the whole map, then every 2nd, 4th and 6th pixel
COSINE_MARGIN = 1e-4  # acos has an infinite derivative at 1
KAPPA_SHIFT = 1.01
_LEAST_SQUARE = 1e-12  # sqrt has an infinite derivative at 0


class _CrossEntropy(torch.autograd.Function):
    """Sum of the cross-entropies of the valid pixels.

    The gradient is made on the way forward, some rows of pixels at a time: logits at full size never exist as a whole,
    and it takes a third of the time of autograd's.
    """

    @staticmethod
    def forward(
        context: Any, logits: Tensor, labels: Tensor, valid: Tensor, share: Share, right: list[Tensor] | None
    ) -> Tensor:
        """See `cross_entropy`."""
        frame = (labels.shape[0], labels.shape[1])
        rows, columns = sides(frame, logits, share)
        gradient = logits.new_zeros(len(logits), logits.shape[1], frame[1])
        total = logits.new_zeros(())
        for which, scores in blocks(logits, frame, share):
            flat = scores.view(len(logits), -1)
            own, weight = labels[which].reshape(1, -1), valid[which].reshape(1, -1)
            top, mine = flat.amax(0, keepdim=True), flat.gather(0, own)
            if right is not None:
                alone = (flat >= top).sum(0, keepdim=True) == 1
                right.append(((mine >= top) & alone & (weight > 0)).sum())
            flat.sub_(top).exp_()
            each = flat.sum(0, keepdim=True)
            total += ((each.log() + top - mine) * weight).sum()
            flat.mul_(weight / each)
            flat.scatter_add_(0, own, -weight)
            gradient += rows[which].T @ scores
        context.save_for_backward(gradient @ columns)
        return total

    @staticmethod
    def backward(context: Any, *outer: Tensor) -> tuple[Tensor, None, None, None, None]:
        """The gradient made before, scaled."""
        return outer[0] * context.saved_tensors[0], None, None, None, None


def cross_entropy(
    logits: Tensor, labels: Tensor, valid: Tensor, share: Share, right: list[Tensor] | None = None
) -> Tensor:
    """Sum over the valid pixels of the cross-entropy, in nats, of logits resized to the labels' frame.

    Args:
        logits: (K, h, w) on a grid.
        labels: int64 (H, W) in 0..K-1, anything of these where not valid.
        valid: float32 (H, W), 0 or 1.
        share: of the grid that shows the image.
        right: gets the number of valid pixels whose class has the one largest logit (ties are wrong).
    """
    total: Tensor = _CrossEntropy.apply(logits, labels, valid, share, right)
    return total


def binary_cross_entropy(logits: Tensor, truth: Tensor, valid: Tensor) -> Tensor:
    """Sum over the valid pixels, in nats; all (H, W) float32, truth 0 or 1."""
    return functional.binary_cross_entropy_with_logits(logits, truth, weight=valid, reduction="sum")


def scale_invariant(predicted: Sequence[Tensor], true: Sequence[Tensor], valid: Sequence[Tensor]) -> Tensor:
    """sqrt(mean g^2 - sigma (mean g)^2) over the valid pixels of all images; (H, W) each, metres, valid bool."""
    return _scale_invariant(_gaps(predicted, true, valid), valid)


def gradient(predicted: Sequence[Tensor], true: Sequence[Tensor], valid: Sequence[Tensor]) -> Tensor:
    """The multi-scale gradient loss of log depth; arguments as of `scale_invariant`."""
    return _gradient(_gaps(predicted, true, valid), valid)


def depth_loss(predicted: Sequence[Tensor], true: Sequence[Tensor], valid: Sequence[Tensor]) -> Tensor:
    """10 x scale-invariant + .5 x gradient; at least one pixel is valid."""
    gaps = _gaps(predicted, true, valid)
    return SCALE_WEIGHT * _scale_invariant(gaps, valid) + GRADIENT_WEIGHT * _gradient(gaps, valid)


def _gaps(predicted: Sequence[Tensor], true: Sequence[Tensor], valid: Sequence[Tensor]) -> list[Tensor]:
    """g, (H, W) each, 0 where not valid: made once, since logarithms are most of the work."""
    return [torch.where(v, _log(p) - _log(t), 0) for p, t, v in zip(predicted, true, valid, strict=True)]


def _log(depth: Tensor) -> Tensor:
    return torch.log(depth + LOG_SHIFT)


def _scale_invariant(gaps: Sequence[Tensor], valid: Sequence[Tensor]) -> Tensor:
    count = sum(int(v.sum()) for v in valid)
    mean = torch.stack([g.sum() for g in gaps]).sum() / count
    square = torch.stack([g.square().sum() for g in gaps]).sum() / count
    return (square - SIGMA * mean.square()).clamp(min=_LEAST_SQUARE).sqrt()


def _gradient(gaps: Sequence[Tensor], valid: Sequence[Tensor]) -> Tensor:
    total = gaps[0].new_zeros(())
    for step in STEPS:
        change, count = gaps[0].new_zeros(()), gaps[0].new_zeros(())
        for gap, v in zip(gaps, valid, strict=True):
            g, ok = gap[::step, ::step], v[::step, ::step]
            change = change + ((g[:-2] - g[2:]).abs() * (ok[:-2] & ok[2:])).sum()
            change = change + ((g[:, :-2] - g[:, 2:]).abs() * (ok[:, :-2] & ok[:, 2:])).sum()
            count = count + ok.sum()
        total = total + change / count.clamp(min=1)
    return total


def angles(predicted: Tensor, true: Tensor) -> Tensor:
    """Radians (N,) between vectors (3, N) and unit vectors (3, N).

    Written out: torch's cosine similarity takes seventy times as long along the first axis.
    """
    length = predicted.square().sum(0).clamp(min=_LEAST_SQUARE).sqrt()
    cosine = (predicted * true).sum(0) / length
    return cosine.clamp(-1 + COSINE_MARGIN, 1 - COSINE_MARGIN).acos()


def concentration(raw: Tensor) -> Tensor:
    """kappa, above .01, from the head's fourth channel."""
    return functional.elu(raw) + KAPPA_SHIFT


def uncertainty(angle: Tensor, kappa: Tensor) -> Tensor:
    """Negative log-likelihood of an angle (radians) under a concentration, up to a constant; any shape, elementwise."""
    return torch.log1p(torch.exp(-kappa * torch.pi)) - torch.log1p(kappa.square()) + kappa * angle


def full_size(values: Tensor, frame: Size, share: Share) -> Tensor:
    """A map (C, h, w) at the frame's size (C, H, W)."""
    rows, columns = sides(frame, values, share)
    return rows @ (values @ columns.T)
