"""What a head is: features -> prediction, trained on the bank or not."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from benchkit.store.items import Items

Arrays = dict[str, np.ndarray]

PIXELS = ("mask", "depth", "normals", "map")  # the fields of pixels: truth and prediction of one task are one of them


@dataclasses.dataclass(frozen=True)
class Wants:
    """What a head reads: pooled vectors ('pool'), dense maps ('patch'), the images themselves ('images'), or nothing of the
    image (None).

    Attributes:
        kind: see above. A head of images (a matcher that takes both at once) stands beside the backbone `pixels`, and nothing
            of it is banked. Its `predict` gets a `benchkit.export.views.Views` with the views of one item and is called item by
            item, each prediction kept at once, so it must not depend on the other items: `features.view(0)` and `.view(1)` give
            the inputs as data.size, data.resize and data.resize_short say (`pixels`, uint8 (3, h, w)) and bring points of an
            input to original pixels (`original`); `features.device` is where the conf wants the model. Whatever decides
            its numbers beside settings and code (weights) belongs into `protocol`.
        pool: the one pool at `final` that it can read (logits, proj, masks); None leaves it to model.features.
        views: how many views of an item's are read: the first, or both of a pair, one after the other.
        points: keypoints and descriptors are read in place of maps where the backbone finds them; "only": nothing else is.
        layers: what is read where the conf asks for the final layer only, such as quarters; None: the final one.
    """

    kind: str | None = "pool"
    pool: str | None = None
    layers: str | None = None
    views: int = 1
    points: Literal["never", "rather", "only"] = "never"


@dataclasses.dataclass(frozen=True)
class ModelSide:
    """What a head may know of the model beside its features.

    Attributes:
        name: for messages.
        local_features: what kind of keypoints and descriptors it gives (sift, aliked), "" for none.
        labels: (WordNet id or "", names) of the classes of `logits@final` or `masks@final`; empty where nobody names them.
        logit_scale, logit_bias: of an image-text model, else None.
        masks_are: what `masks@final` holds, logits or probabilities.
    """

    name: str
    labels: Sequence[tuple[str, tuple[str, ...]]] = ()
    logit_scale: float | None = None
    logit_bias: float | None = None
    masks_are: str = "logits"
    local_features: str = ""


class Head:
    """A prediction from features. `trains`: learns parameters; `votes`: reads train items without learning."""

    trains = False
    votes = False
    gives: tuple[
        str, ...
    ] = ()  # the fields of `predict` (or some of them, by the task): whether they fit is known beforehand
    say: Callable[[str], None] = staticmethod(
        lambda text: print(text, file=sys.stderr)
    )  # to the user, about the training
    one_grid = False  # layers are read side by side, so their maps have to have one grid
    scores_are = "logits"  # what `scores` of a classifier mean: logits, votes or margins (no probabilities)

    def wants(self) -> Wants:
        """What is read of the bank."""
        return Wants()

    def prepare(self, model: ModelSide, meta: Mapping[str, Any]) -> list[str]:
        """Get ready for this model and these data, before the first forward.

        Args:
            model: what is known of the model.
            meta: what holds for all targets: `classes`, `class_names`, `ignore`; and the family's `task`.

        Returns:
            prompts whose embeddings the head needs, each once; they come with `read_texts`.

        Raises:
            UsageError: model and data do not fit this head.
        """
        return []

    def check_keys(self, keys: Sequence[str]) -> None:
        """Refuse layers that the head cannot use, before the first forward.

        Raises:
            UsageError: says which it needs.
        """

    def read_names(self, others: Mapping[str, Sequence[str]]) -> None:
        """Take other tools' names of the evaluated items (`Dataset.also_called`), before anything is forwarded.

        Raises:
            UsageError: predictions that were made elsewhere lack an item.
        """

    def read_texts(self, embeddings: np.ndarray) -> None:
        """Take the embeddings of the prompts that `prepare` returned, float32 (P, D), in their order."""

    def read_given(self, given: Items) -> None:
        """Take the fields of the truth that a head may know (`Dataset.given`), of the very items that are fitted or predicted
        next, in their order; called before each `fit` and `predict`.
        """

    def fit(self, key: str, features: Items, truth: Items, seed: int, threads: int) -> None:
        """Learn from the train items (heads with `trains` or `votes`).

        Args:
            key: the feature key to read.
            features: `read(key)` gives float32 (N, C), of items with V > 1 views (N, V, C). A head that wants patches
                gets a `benchkit.store.maps.Maps`, and a key of several layers joined by +; one that wants images a
                `benchkit.export.views.Views`.
            truth: the same items' targets, in the same order.
            seed: of everything random, together with item names.
            threads: fixed number of threads, recorded: bits may depend on it.
        """

    def predict(self, key: str, features: Items, threads: int) -> dict[str, Any]:
        """One column per field, first axis = `features.names`."""
        raise NotImplementedError

    def meta(self) -> dict[str, Any]:
        """What holds for all predictions; stored with them and read by the score."""
        return {"scores_are": self.scores_are}

    def protocol(self) -> dict[str, Any]:
        """What decides about comparability beside the settings; known once `prepare` was called."""
        return {}

    def log(self) -> dict[str, float]:
        """Numbers about the fit (train score, chosen strength): stored under `fit/` and printed beside scores."""
        return {}

    def state(self) -> Arrays:
        """Parameters for head.safetensors; empty when there are none."""
        return {}
