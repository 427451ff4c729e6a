"""What the truth of train holds: whether anything can be learned, and what a prediction that looks at no image scores."""

from __future__ import annotations

import numpy as np

from benchkit.errors import UsageError
from benchkit.heads.solvers.dense_classes import Binary
from benchkit.heads.solvers.dense_outputs import Task


class Labels:
    """Counts the pixels of each class in train; refuses what is no class."""

    def __init__(self, task: Task) -> None:
        self.task, self.names = task, task.names
        self.valid = 0
        self.taught: set[str] = set()  # items with a valid pixel
        self.beyond = 0  # pixels whose truth the head cannot say
        self.counts = np.zeros(len(task.names), np.int64)

    def __call__(self, name: str, truth: np.ndarray) -> None:
        """Look at one item's truth."""
        valid = self.task.valid(truth)
        count = int(valid.sum())
        self.valid += count
        self.beyond += self.task.beyond(truth)
        if count:
            self.taught.add(name)
        if self.names:
            counts = np.bincount(truth[valid].ravel(), minlength=len(self.names))
            if len(counts) > len(self.names):
                raise UsageError(
                    f"the mask of train item {name!r} holds {len(counts) - 1}, and there are {len(self.names)} classes "
                    f"(0 to {len(self.names) - 1}): mend the mask or the label map."
                )
            self.counts += counts

    def check(self) -> None:
        """Stop where nothing can be learned.

        Raises:
            UsageError: no pixel of train is valid.
        """
        if not self.valid and self.beyond:
            raise UsageError(
                f"every true {self.task.field} of train lies beyond {self.task.most:g} m, which is as far as the head says: set "
                "data.max_depth to the farthest that counts."
            )
        if not self.valid:
            raise UsageError(
                f"no pixel of {self.task.field} in the train items is valid (all are ignored, zero or not finite), so "
                "nothing can be learned: look at the data set's ignore label, scale and split."
            )

    @property
    def log(self) -> dict[str, float]:
        """Of masks: how much is foreground, and what answering background everywhere scores on train."""
        if not self.names:
            return {}
        share = float(self.counts[self.background] / self.valid)
        return {
            "train_foreground_share": 1 - share,
            "all_background_pixel_acc": share,
            "all_background_miou": share / int((self.counts > 0).sum()),
        }

    @property
    def background(self) -> int:
        """The class of it: the commonest where nobody says which."""
        return 0 if isinstance(self.task, Binary) else int(self.counts.argmax())

    def summary(self, head: str, items: int) -> str:
        """One line for the user, before the training; '' where there is nothing to say."""
        if self.beyond:
            share = self.beyond / (self.beyond + self.valid)
            return (
                f"{head}: {share:.1%} of the true {self.task.field} of train lies beyond {self.task.most:g} m, is not learned "
                "and cannot be said, but is scored: set data.max_depth to the farthest that counts."
            )
        if not self.names:
            return ""
        log, name = self.log, self.names[self.background]
        if not isinstance(self.task, Binary):
            return (
                f"{head}: {items} train items, {1 - log['train_foreground_share']:.1%} of the pixels are of the commonest class, "
                f"{name!r}; answering it everywhere scores pixel_acc {log['all_background_pixel_acc']:.3f}, mean IoU "
                f"{log['all_background_miou']:.3f} on them"
            )
        return (
            f"{head}: {items} train items, foreground (all but {name!r}) {log['train_foreground_share']:.1%} of the pixels; "
            f"answering {name!r} everywhere scores pixel_acc {log['all_background_pixel_acc']:.3f}, "
            f"mean IoU {log['all_background_miou']:.3f} on them"
        )
