"""Sizes of images that a model can take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchkit.errors import UsageError, reason


def check_size(name: str, patch: int, size: int) -> None:
    """Whether images of that size are whole patches: else positions would be resampled to a grid that is off by one.

    Raises:
        UsageError: they are not; the message names sizes that are.
    """
    if size % patch:
        low = size // patch * patch
        good = f"{low} or {low + patch}" if low else f"{patch}"
        raise UsageError(f"size {size} is no multiple of {name}'s {patch}-pixel grid: use data.size={good}.")


@contextmanager
def trying(name: str, size: int, own: int) -> Iterator[None]:
    """Around a model's first forward with images of another size (in pixels) than its `own`.

    Raises:
        UsageError: it failed; the message names the size that works.
    """
    try:
        yield
    except (RuntimeError, AssertionError, ValueError) as error:
        raise UsageError(
            f"{name} does not take images of {size} pixels ({reason(error, 160)}); its own size is {own}: use "
            f"data.size={own}."
        ) from error


def one_size(name: str) -> UsageError:
    """What is said where images of many shapes are asked of a model that is bound to one."""
    return UsageError(f"{name} takes images of one size only, so data.resize=pad cannot be used: use crop or squash.")
