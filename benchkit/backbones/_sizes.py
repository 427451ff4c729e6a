"""Sizes of images that a model with patches can take."""

from __future__ import annotations

from benchkit.errors import UsageError


def check_size(name: str, patch: int, size: int) -> None:
    """Whether images of that size are whole patches: else positions would be resampled to a grid that is off by one.

    Raises:
        UsageError: they are not; the message names sizes that are.
    """
    if size % patch:
        low = size // patch * patch
        good = f"{low} or {low + patch}" if low else f"{patch}"
        raise UsageError(f"size {size} is no multiple of {name}'s {patch}-pixel grid: use data.size={good}.")
