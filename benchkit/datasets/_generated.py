"""What generated data share: so many items per split, a seed, square images that lie on no disk."""

from __future__ import annotations

import dataclasses
from typing import Any

from benchkit.datasets.base import Dataset, DataSettings
from benchkit.errors import UsageError
from benchkit.settings import setting


@dataclasses.dataclass
class GeneratedSettings(DataSettings):
    """Settings of generated data."""

    n_train: int = setting(240, "items in the train split")
    n_test: int = setting(120, "items in the test split")
    seed: int = setting(0, "seed of the generator, together with each item's name")
    side: int = setting(224, "side of the rendered images in pixels")

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.n_train, self.n_test) < 0 or self.side < 8:
            raise ValueError("n_train and n_test must not be negative, and side at least 8")


class Generated(Dataset):
    """Images that are a function of the generator's version, the seed and their name.

    Attributes:
        generator: its name and version.
    """

    generated = True
    generator: tuple[str, Any]

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    def items(self, split: str) -> list[str]:
        """`<split>/<number>`."""
        counts = {"train": self.settings.n_train, "test": self.settings.n_test}
        if split not in counts:
            raise UsageError(f"generated data have the splits train and test, not {split!r}: set data.split=test.")
        return [f"{split}/{i:06d}" for i in range(counts[split])]

    def path(self, view: str) -> None:
        """Nothing is on disk."""
        return

    def recipe(self, view: str) -> str:
        """Generator, version, seed, side and name."""
        return "\0".join(map(str, (*self.generator, self.settings.seed, self.settings.side, view)))

    def generated_size(self, view: str) -> tuple[int, int]:
        """Square."""
        return self.settings.side, self.settings.side


def number_of(item: str) -> int:
    """The number in an item's name."""
    return int(item.split("/")[1])
