"""Depth maps of pairs: metres along the optical axis, NaN where nothing is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchkit.datasets._dense_readers import read_stored
from benchkit.errors import reason
from benchkit.images import MAX_PIXELS, Unreadable
from benchkit.store import foreign

HDF5 = (".h5", ".hdf5")
KEY = "depth"  # of an HDF5 file, as MegaDepth's


def read_depth(path: Path, scale: float) -> NDArray[np.float32]:
    """Stored values over `scale`, float32 (h, w); 0, negative and infinite ones are unknown.

    16-bit PNG, PGM and TIFF, floating TIFF, .npy, .mat (one variable), and .h5 (`depth`).

    Raises:
        Unreadable: it is damaged or no such map.
    """
    stored = _hdf5(path) if path.suffix.lower() in HDF5 else read_stored(path, labels=False)
    if stored.ndim != 2:
        raise Unreadable(f"{path.name} holds {stored.ndim} dimensions, not height and width")
    depth = np.asarray(stored, np.float32) / np.float32(scale)
    return np.where(np.isfinite(depth) & (depth > 0), depth, np.float32(np.nan))


def _hdf5(path: Path) -> NDArray[np.floating]:
    import h5py

    try:
        with h5py.File(path, "r") as file:
            return np.asarray(foreign.numbers(file, KEY, MAX_PIXELS))
    except foreign.Refused as error:
        raise Unreadable(f"{path.name}: {reason(error)}") from error
    except (OSError, KeyError, TypeError, RuntimeError) as error:
        raise Unreadable(f"{path.name} is no HDF5 file with a data set {KEY!r}") from error
