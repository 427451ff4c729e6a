"""Point matches between two views whose points in space are known: how far apart in space, and how far off in pixels.

Protocol of probe3d (El Banani et al. 2024; evaluate_navi_correspondence.py and evals/utils/correspondence.py): a match joins
the point X0 that view 0 shows at one place with X1 that view 1 shows at another. Its error in space is |R X0 + t - X1|, in
pixels the distance in view 1 of where R X0 + t is seen from the matched place. probe3d matches cells of the maps of points
and reads X at them. Here keypoints may lie between the cells' centres too, and X is read on the ray through the keypoint, at
the depth between the four cells around it (1 / depth is linear across a plane); at a centre it is the cell's own X.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchkit.geometry.pose import projected, unprojected

Array = NDArray[np.float64]
SMOOTH = 1.1  # ratio of depths of neighbouring cells above which there is an edge between them
CENTRE = 1e-3  # cells from the centre within which a keypoint is at it: keypoints are float32
_BLOCK = 1 << 22  # distances that exist at a time


@dataclasses.dataclass(frozen=True)
class View:
    """One view's camera and the points that it sees.

    Attributes:
        K: (3, 3), pixels.
        size: (2,), width and height in pixels.
        xyz: float32 (h, w, 3), metres in the camera's frame, at the centres of h x w cells; NaN where unknown.
    """

    K: Array
    size: Array
    xyz: NDArray[np.float32]

    @property
    def valid(self) -> NDArray[np.bool_]:
        """(h, w): cells whose point is known."""
        return np.asarray(np.isfinite(self.xyz).all(axis=2))

    def centres(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
        """Centres (n, 2) of some cells in pixels."""
        return (np.stack([columns, rows], axis=1) + 0.5) * self.size / self.xyz.shape[1::-1]


class Errors(NamedTuple):
    """Of m matches: `known` (m,), those whose X0 is known; `metres` and `pixels` (m,), infinite where X1 is unknown or nothing
    is seen, of unknown X0 too.
    """

    known: NDArray[np.bool_]
    metres: Array
    pixels: Array


def points_at(view: View, places: NDArray[np.floating]) -> Array:
    """Points (n, 3), metres, that a view shows at places (n, 2) in pixels; NaN where unknown or outside."""
    cells = np.array(view.xyz.shape[1::-1])
    spot = np.asarray(places, np.float64) * cells / view.size
    own = np.clip(np.floor(spot), 0, cells - 1).astype(np.intp)
    found = view.xyz[own[:, 1], own[:, 0]].astype(np.float64)
    found[~((spot >= 0) & (spot <= cells)).all(axis=1)] = np.nan
    apart = (np.abs(spot - own - 0.5) > CENTRE).any(axis=1) & np.isfinite(found).all(axis=1)
    if apart.any():
        found[apart] = _between(view, np.asarray(places, np.float64)[apart], spot[apart], found[apart])
    return found


def _between(view: View, places: Array, spot: Array, own: Array) -> Array:
    """Points on the rays through places between centres; `own` where not all four cells around are of one surface."""
    last = np.array(view.xyz.shape[1::-1]) - 1
    low = np.clip(np.floor(spot - 0.5), 0, np.maximum(last - 1, 0)).astype(np.intp)
    high = np.minimum(low + 1, last)
    right, down = (spot - 0.5 - low).T
    corners = [(low[:, 1], low[:, 0]), (low[:, 1], high[:, 0]), (high[:, 1], low[:, 0]), (high[:, 1], high[:, 0])]
    depth = np.stack([view.xyz[row, column, 2].astype(np.float64) for row, column in corners])
    smooth = depth.max(axis=0) <= SMOOTH * depth.min(axis=0)  # false with a NaN among them
    weights = np.stack([(1 - right) * (1 - down), right * (1 - down), (1 - right) * down, right * down])
    inverse = (weights / np.where(smooth, depth, 1)).sum(axis=0)
    return np.where(smooth[:, None], unprojected(places, 1 / inverse, view.K), own)


def moved(points: NDArray[np.floating], R: Array, t: Array) -> Array:
    """R X + t of points (n, 3)."""
    return points @ R.T + t


def errors(
    points: Array, places: NDArray[np.floating], pixels: NDArray[np.floating], view: View, scale: float
) -> Errors:
    """Errors of matches.

    Args:
        points: (m, 3), R X0 + t, NaN where X0 is unknown.
        places: (m, 2), the matched places in view 1; pixels: those that the errors in pixels are taken of (the same).
        view: view 1; scale: from its pixels to those in which errors are told.
    """
    metres = np.linalg.norm(points - points_at(view, places), axis=1)
    off = np.linalg.norm(projected(points, view.K) - pixels, axis=1) * scale
    known = np.asarray(np.isfinite(points).all(axis=1))
    return Errors(known, *(np.where(np.isfinite(each), each, np.inf) for each in (metres, off)))


def recalls(found: Errors, metres: Array, pixels: Array) -> Array:
    """Shares of the matches with a known X0 that are nearer than each threshold (strictly); 0 where there are none."""
    if not found.known.any():
        return np.zeros(len(metres) + len(pixels))
    near = (found.metres[found.known, None] < metres).mean(axis=0)
    return np.concatenate([near, (found.pixels[found.known, None] < pixels).mean(axis=0)])


def chances(points: Array, view: View, scale: float, metres: Array, pixels: Array) -> Array:
    """`recalls` of matches that end at a valid cell of view 1 at random: the mean over those cells, by counting.

    Args:
        points: (m, 3), R X0 + t of the matches, NaN where X0 is unknown; others as in `errors` and `recalls`.
    """
    points = points[np.isfinite(points).all(axis=1)]
    rows, columns = np.nonzero(view.valid)
    if not len(points) or not len(rows):
        return np.zeros(len(metres) + len(pixels))
    seen = projected(points, view.K)
    seen = seen[np.isfinite(seen).all(axis=1)]
    sides = (points, view.xyz[rows, columns], metres), (seen, view.centres(rows, columns), pixels / scale)
    pairs = len(points) * len(rows)
    return np.concatenate([_counts(one, other, limits) / pairs for one, other, limits in sides])


def _counts(points: Array, others: NDArray[np.floating], limits: Array) -> Array:
    """Pairs of a point and one of the others that are nearer than each limit."""
    total = np.zeros(len(limits))
    for squares in _squares(points, others):
        total += [np.count_nonzero(squares < limit * limit) for limit in limits]
    return total


def nearest(points: Array, others: NDArray[np.floating]) -> NDArray[np.intp]:
    """For each point (m, d) the row of the nearest of the others (n, d)."""
    found = [squares.argmin(axis=1) for squares in _squares(points, others)]
    return np.concatenate(found) if found else np.zeros(0, np.intp)


def _squares(points: Array, others: NDArray[np.floating]) -> Iterator[NDArray[np.float32]]:
    """Squared distances, some points' at a time; as float32 about the others' middle, where they are short."""
    middle = others.mean(axis=0, dtype=np.float64)
    near, far = (points - middle).astype(np.float32), (others - middle).astype(np.float32)
    length = np.einsum("nd,nd->n", far, far)
    step = max(1, _BLOCK // len(others))
    for start in range(0, len(points), step):
        some = near[start : start + step]
        yield np.einsum("nd,nd->n", some, some)[:, None] + length - 2 * (some @ far.T)


def best_places(points: Array, view: View, places: NDArray[np.floating], scale: float) -> tuple[Array, Array]:
    """Where in view 1 matches would best end, (m, 2) for the error in space and (m, 2) for that in pixels.

    The valid cell that is nearest to R X0 + t, or to where that is seen, or the place that was said where it is nearer.
    Places of unknown points stay.
    """
    said = np.asarray(places, np.float64)
    rows, columns = np.nonzero(view.valid)
    if not len(rows):
        return said, said
    centres = view.centres(rows, columns)
    now = errors(points, said, said, view, scale)
    by_space = _nearer(points, view.xyz[rows, columns], centres, said)
    by_pixel = _nearer(projected(points, view.K), centres, centres, said)
    then = errors(points, by_space, by_pixel, view, scale)
    return (
        np.where((then.metres < now.metres)[:, None], by_space, said),
        np.where((then.pixels < now.pixels)[:, None], by_pixel, said),
    )


def _nearer(points: Array, others: NDArray[np.floating], centres: Array, said: Array) -> Array:
    known = np.isfinite(points).all(axis=1)
    found = said.copy()
    found[known] = centres[nearest(points[known], others)]
    return found
