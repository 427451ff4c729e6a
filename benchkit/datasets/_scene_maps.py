"""Maps of generated scenes for the low-level benchmarks: edges and keypoints of the picture, occlusions of the geometry.

`edges` and `keypoints2d` are made from the rendered image at its own size (gradients' length and SURF's response, see
`benchkit.metrics.structure`). Occlusions are exact: a pixel lies on one where a neighbour shows another object (or room, or
nothing) that is more than 3 percent farther away, so the line where an object stands on the floor is none. `occlusion_edges` are
these pixels under a Gaussian of 1 % of the image's side, 1 in the middle of a straight line; `boundaries` the same pixels
thinned, as one annotator would draw them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchkit.datasets.base import Arrays
from benchkit.metrics.structure import blob_strength, edge_strength, smooth
from benchkit.metrics.thinning import thinned

JUMP = 1.03  # ratio of two neighbours' depths from which the nearer one hides the farther
SPREAD = 0.01  # of the side: sigma of occlusion edges


def occluding(depth: np.ndarray, instance: np.ndarray) -> np.ndarray:
    """bool (h, w): pixels with one of four neighbours of another instance that is more than 3 % farther away.

    Args:
        depth: float32 (h, w), metres, 0 where there is nothing, which is farther than anything.
        instance: int (h, w), which object; the room is none of them.
    """
    far = np.where(depth > 0, depth, np.inf)
    found = np.zeros(depth.shape, bool)
    for one, other in ((np.s_[:, :-1], np.s_[:, 1:]), (np.s_[:-1], np.s_[1:])):
        apart = (instance[one] != instance[other]) | ((depth[one] > 0) != (depth[other] > 0))
        found[one] |= apart & (far[other] > far[one] * JUMP)
        found[other] |= apart & (far[one] > far[other] * JUMP)
    return found


def _occlusion_edges(seen: Any) -> Arrays:
    sigma = max(SPREAD * len(seen.depth), 0.5)
    line = thinned(occluding(seen.depth, seen.instance)).astype(np.float32)
    return {"map": np.minimum(smooth(line, sigma) * np.float32(sigma * np.sqrt(2 * np.pi)), 1)}


def _boundaries(seen: Any) -> Arrays:
    return {"boundaries": thinned(occluding(seen.depth, seen.instance)).astype(np.uint8)[None]}


FROM_IMAGE: dict[str, Callable[[np.ndarray], np.ndarray]] = {"edges": edge_strength, "keypoints2d": blob_strength}
FROM_GEOMETRY: dict[str, Callable[[Any], Arrays]] = {"occlusion_edges": _occlusion_edges, "boundaries": _boundaries}
FIELDS = {"edges": ("map",), "keypoints2d": ("map",), "occlusion_edges": ("map",), "boundaries": ("boundaries",)}
META = {
    "edges": {"unit": "", "map_is": "Sobel gradient of the brightness in 0..1, smoothed by 1 pixel"},
    "keypoints2d": {"unit": "", "map_is": "root of the positive Hessian determinant at 2 pixels"},
    "occlusion_edges": {"unit": "", "map_is": "jumps of depth between objects, exact, smoothed by 1 % of the side"},
    "boundaries": {"annotators": "jumps of depth between objects, exact, as one annotator's"},
}
