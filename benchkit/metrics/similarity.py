"""Two-alternative forced choice: which of two images lies nearer to a reference, and how that agrees with a vote.

Protocol of NIGHTS (Fu et al. 2023, "DreamSim", and its evaluation/score.py): the image at the smaller cosine distance is
the answer; a tie is half a right and half a left answer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchkit.errors import RunError

TIE = 2.0**-22  # cosines that differ by less are equal: a little above float32's error, as in the votes of kNN
ROWS_AT_ONCE = 1024


def cosines(embedding: NDArray[np.floating]) -> NDArray[np.float64]:
    """(N, 2): cosine of the reference to the left and to the right image; a vector of zeros has cosine 0 to everything.

    Args:
        embedding: (N, 3, C), views reference, left, right.

    Raises:
        RunError: another shape, or a value that is not finite; names the first such row.
    """
    if embedding.ndim != 3 or embedding.shape[1] != 3:
        raise RunError(f"embeddings of triplets have the shape (items, 3, columns), not {embedding.shape}.")
    found = np.empty((len(embedding), 2))
    for start in range(0, len(embedding), ROWS_AT_ONCE):
        rows = embedding[start : start + ROWS_AT_ONCE].astype(np.float64)
        bad = ~np.isfinite(rows).all(axis=(1, 2))
        if bad.any():
            raise RunError(
                f"embedding: row {start + int(bad.argmax())} is not finite, so it is near to nothing. Export the "
                "features again in float32, or leave this item out."
            )
        norms = np.sqrt(np.einsum("nvc,nvc->nv", rows, rows))
        rows /= np.where(norms > 0, norms, 1.0)[..., None]
        found[start : start + len(rows)] = np.einsum("nc,nvc->nv", rows[:, 0], rows[:, 1:])
    return found


def answers(cosines: NDArray[np.floating]) -> NDArray[np.float64]:
    """(N,): 1 where the right image is nearer, 0 where the left is, 0.5 where their cosines differ by less than `TIE`."""
    lead = cosines[:, 1] - cosines[:, 0]
    return np.where(np.abs(lead) < TIE, 0.5, lead > 0)


def agreement(answers: NDArray[np.floating], votes: NDArray[np.floating]) -> NDArray[np.float64]:
    """(N,): share of the answer that is the vote: 1, 0, or 0.5 for a tie."""
    return answers * votes + (1 - answers) * (1 - votes)


def positives(answers: NDArray[np.floating], votes: NDArray[np.floating]) -> dict[str, float | None]:
    """precision, recall and f1 of the answer "right"; a tie counts half among them. None where nothing is divided by.

    Args:
        answers: (N,) 1 right, 0 left, 0.5 tie.
        votes: (N,) 1 right, 0 left.
    """
    hits, said, voted = float((answers * votes).sum()), float(answers.sum()), float(votes.sum())
    return {
        "f1": 2 * hits / (said + voted) if said + voted else None,
        "precision": hits / said if said else None,
        "recall": hits / voted if voted else None,
    }
