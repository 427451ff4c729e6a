"""What the trained heads of per-pixel benchmarks share: their settings, and the way to the trainer."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from benchkit.errors import UsageError
from benchkit.heads.base import PIXELS, Head, ModelSide, Wants
from benchkit.heads.solvers.sizes import read_bytes
from benchkit.settings import setting
from benchkit.store.items import Items


@dataclasses.dataclass
class DenseSettings:
    """Settings of the training; the defaults are probe3d's and VisBench's."""

    lr: float = setting(5e-4, "peak rate of AdamW: linear warm-up, then cosine to 0")
    weight_decay: float = setting(1e-4, "weight decay of AdamW")
    epochs: int = setting(10, "passes over train; few images need more of them, or a higher lr")
    batch_size: int = setting(8, "train items per step")
    warmup_epochs: float = setting(1.5, "epochs of warm-up, fewer than epochs")
    batchnorm: bool = setting(False, "BatchNorm of the features before the first convolution (DINOv2: true)")
    dropout: float = setting(0.0, "share of feature channels dropped in training (DINOv2's segmentation: 0.1)")
    loss: Literal["uncertainty", "angular"] = setting(
        "uncertainty", "of normals: uncertainty (Bae et al., can collapse to chance) or angular"
    )
    lrs: list[float] = setting(
        [], "several rates, trained at once on one pass; the best on held-out items is refitted on all of train"
    )
    holdout: float = setting(0.1, "share of train on which one of lrs is chosen, by the hash of the items' names")
    truth_side: int = setting(
        640, "longest side of the truth in training, in pixels; larger frames (pad, squash) are thinned to it"
    )
    max_memory: int | str = setting(
        "4GB", "of maps and truth kept in memory between epochs; the rest is read again", identity=False
    )
    device: str = setting("cpu", "cpu or cuda: where the head is trained and predicts", identity=False)

    def __post_init__(self) -> None:
        read_bytes(self.max_memory)
        for name in ("epochs", "batch_size", "truth_side"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is at least 1, not {getattr(self, name)}")
        bad = next((rate for rate in (self.lr, *self.lrs) if not 0 < rate < np.inf), None)
        if bad is not None:
            raise ValueError(f"lr is a finite number above 0, not {bad}")
        if not 0 <= self.weight_decay < np.inf:
            raise ValueError(f"weight_decay is a finite number, 0 or above, not {self.weight_decay}")
        if not 0 <= self.warmup_epochs < self.epochs:
            raise ValueError(
                f"warmup_epochs lies from 0 to below epochs ({self.epochs}), not {self.warmup_epochs}: the rate would "
                "still be rising at the end"
            )
        for name, least in (("dropout", True), ("holdout", False)):
            value = getattr(self, name)
            if not (0 <= value < 1 and (least or value > 0)):
                raise ValueError(f"{name} lies between 0 and 1, not {value}")


class DenseHead(Head):
    """A trained map from features of patches to truth of pixels; what it gives depends on the family's task."""

    trains = True
    gives = PIXELS
    name = ""

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.task = ""

    def wants(self) -> Wants:
        """Maps."""
        return Wants("patch")

    def net(self, channels: Sequence[int], out: int) -> Any:
        """The untrained network.

        Args:
            channels: of the layers.
            out: of the output.
        """
        raise NotImplementedError

    def prepare(self, model: ModelSide, meta: Mapping[str, Any]) -> list[str]:
        """Remember the task.

        Raises:
            UsageError: the benchmark is none of pixels, or the device is not there.
        """
        self.task = str(meta.get("task") or "")
        if not self.task:
            raise UsageError(
                f"the head {self.name} predicts pixels, and this benchmark does not score them: choose another with "
                "model.head.name=NAME; `benchkit list` shows them."
            )
        if self.settings.device != "cpu":
            from benchkit.heads.solvers.dense_fit import check_device

            check_device(self.settings.device)
        return []

    def fit(self, key: str, features: Any, truth: Items, seed: int, threads: int) -> None:
        """Train on maps (a `benchkit.store.maps.Maps`) and truth of the train items.

        Raises:
            UsageError: nothing can be learned: no valid pixel, an unknown label, layers that do not fit the head.
            RunError: the loss does not stay finite; names lr.
        """
        from benchkit.heads.solvers import dense_fit

        learn = functools.partial(dense_fit.fit, self.name, self.settings, self.net, self.task, say=self.say)
        self.fitted = learn(features, truth, seed, threads)

    def predict(self, key: str, features: Any, threads: int) -> dict[str, Any]:
        """The task's field in each item's frame, and `grid`: rows and columns of the head's last map, int32 (N, 2)."""
        from benchkit.heads.solvers import dense_predict

        return dense_predict.predict(self.fitted, features, threads, self.settings.device)

    def meta(self) -> dict[str, Any]:
        """The task."""
        return {"task": self.task}

    def log(self) -> dict[str, float]:
        """Of the training.

        `train_loss` and `train_loss_first` (means over the batches of the last and the first epoch), `converged` (1 or 0) and
        `still_falling` (see `Trained`), `lr`; after a sweep `holdout_items` and `holdout_loss`. Of masks `train_pixel_acc` in
        the last epoch, `train_foreground_share` and what answering the commonest class (binary: background) everywhere scores on
        train. Of normals `train_degrees` in the last epoch and, with the uncertainty loss, `collapsed`.
        """
        return dict(self.fitted.log)

    def state(self) -> dict[str, np.ndarray]:
        """The network's weights; of maps also the `centre` and `scale` of its units, per channel."""
        units = {name: getattr(self.fitted.task, name).numpy() for name in ("centre", "scale") if self.task == "maps"}
        return {**units, **{name: v.cpu().numpy() for name, v in self.fitted.trained.net.state_dict().items()}}
