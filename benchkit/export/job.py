"""One benchmark of one conf: what it is made of, where it goes, and whether it is there already. Needs no torch."""

from __future__ import annotations

import copy
import dataclasses
import shutil
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from benchkit.conf.build import Conf
from benchkit.conf.diff import Difference, counts, describe, differences, identity_view
from benchkit.datasets.base import DataSettings
from benchkit.errors import UsageError
from benchkit.export import inputs
from benchkit.export.copies import check_duplicates
from benchkit.export.naming import default_tag
from benchkit.export.shares import Share
from benchkit.export.split import Split, check_readable, in_order, read_splits, untrained_classes
from benchkit.features import FINAL
from benchkit.provenance import strict
from benchkit.provenance.record import matches, read_record
from benchkit.registry import made
from benchkit.store.files import replacing, write_json
from benchkit.store.lock import exclusive
from benchkit.store.outputs import Outputs

if TYPE_CHECKING:
    from benchkit.export.model import LoadedModel
    from benchkit.heads.base import ModelSide

NO_SPLIT = "none"
SCORE_FILES = ("results.h5", "summaries.json")  # eval makes these


class Job:
    """A tag to be made: conf, data, and the state of its folder.

    Attributes:
        conf: after every default.
        tag: name of the experiment.
        folder: results/<benchmark>/<tag>.
        skipped: evaluated and train items left out before the forward, and why.
        place: what a sweep varies, and the value here; None outside a sweep.
    """

    place: tuple[str, float] | None = None

    def __init__(self, conf: Conf, outputs: Outputs, tag: str | None, command: str = "") -> None:
        self.conf = conf
        self.outputs = outputs
        self.tag = tag or default_tag(conf)
        self.folder = outputs.tag(conf.benchmark, self.tag)
        self.command = command
        self.family = conf.family_component.build(conf.eval)
        self.head = made(conf.head.component, conf.head.settings)
        self._check_head()
        try:
            self.dataset = made(conf.data.component, conf.data.settings)
            self._read_splits()
        except UsageError as error:
            if not conf.obtain:
                raise
            raise UsageError(
                f"{error} How to get {conf.benchmark}: {conf.obtain}. Its layout: {conf.layout}"
            ) from error

    def variation(self, conf: Conf, suffix: str, place: tuple[str, float] | None) -> Job:
        """The job of another conf on the same data with the same model, under a tag that ends with `suffix`."""
        twin = copy.copy(self)  # what was read of the data, and the model if it is loaded, is shared
        twin.conf, twin.tag, twin.place = conf, self.tag + suffix, place
        twin.folder = self.outputs.tag(conf.benchmark, twin.tag)
        twin.head = conf.head.component.build(conf.head.settings)
        twin._check_head()
        return twin

    def _check_head(self) -> None:
        """A train split exactly where the head learns; resolved in the settings, so that conf.yaml shows it."""
        data, head = self.conf.data.settings, self.conf.head.name
        self.family.check_head(head, self.head.gives)
        self.has_train = self.head.trains or self.head.votes
        wants, features = self.head.wants(), self.conf.model.features
        if wants.layers and features.layers == FINAL:
            features.layers = wants.layers
        if data.train_split == "auto":
            data.train_split = "train" if self.has_train else NO_SPLIT
        if self.has_train and data.train_split == NO_SPLIT:
            raise UsageError(f"the head {head} learns from train items: name their split with data.train_split=train.")
        if not self.has_train and not self.conf.user_train_split:
            data.train_split = NO_SPLIT  # a benchmark names the train split for the heads that need one
        if not self.has_train and data.train_split != NO_SPLIT:
            raise UsageError(
                f"the head {head} learns nothing, so data.train_split={data.train_split} has no use: drop it."
            )

    def _read_splits(self) -> None:
        data = self.conf.data.settings
        names = [data.split, *([data.train_split] if self.has_train else [])]
        splits = read_splits(self.dataset, dict.fromkeys(names), data.limit, self.outputs, self._examined_against())
        self.test = splits[data.split]
        self.train = splits[data.train_split] if self.has_train else None
        self.facts = self.test.facts
        self.skipped = check_readable(list(splits.values()), data.on_error)
        self.duplicates = check_duplicates(self.train, self.test, data.on_duplicate == "keep")
        usable = [item for item in self.test.items if item not in self.skipped]
        shown = usable[:1] if self.dataset.maps else self.test.items  # all maps would not fit in memory
        self.family.check(self.test.truth(shown))
        self.untrained = untrained_classes(self.train, self.test)

    def _examined_against(self) -> dict[str, Any]:
        """The data settings that decide what is right in the files of the truth."""
        data = identity_view(self.conf)["data"]
        common = {field.name for field in dataclasses.fields(DataSettings)}
        return {key: value for key, value in data.items() if key not in common}

    @property
    def splits(self) -> list[Split]:
        """Evaluated and, where there is one, train split; once if they are the same."""
        return [self.test] if self.train is None or self.train is self.test else [self.test, self.train]

    @cached_property
    def views(self) -> list[str]:
        """Views of all readable items, in name order."""
        items = (s.items if not self.skipped else [i for i in s.items if i not in self.skipped] for s in self.splits)
        return in_order(view for each in items for view in self.dataset.views_of(each))

    def prepare_head(self, model: ModelSide) -> list[str]:
        """Make the head ready for the model, the data and the family's task; returns the prompts it needs.

        Raises:
            UsageError: they do not fit.
        """
        named = {i: self.dataset.also_called(i) for i in self.test.items if i not in self.skipped}
        self.head.read_names(named)
        return self.head.prepare(
            model, {**self.dataset.meta(), "task": self.family.task, "project": self.family.project}
        )

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """What a rerun compares beside the conf: data identities, the checkpoint's content, the user's own code."""
        known = (read_record(self.folder) or {}).get("inputs", {})
        return {
            **inputs.head_checkpoint(self.conf, known.get("head_checkpoint")),
            "dataset_id": self.test.id,
            "train_id": self.train.id if self.train else None,
            "checkpoint": inputs.checkpoint(self.conf, known.get("checkpoint")),
            "code": inputs.own_code(self.conf),
            "model": self.model.identity_hash if inputs.is_object(self.conf) else None,
        }

    @cached_property
    def model(self) -> LoadedModel:
        """The backbone, loaded when it is first needed; an object's identity needs it early."""
        from benchkit.export.model import LoadedModel

        return LoadedModel(self.conf)

    def _plan(self) -> dict[str, Any] | None:
        try:
            plan = strict.read(self.parts / "plan.json")
        except (FileNotFoundError, ValueError):  # a damaged one holds nothing back
            return None
        sound = isinstance(plan, dict) and all(isinstance(plan.get(key), dict) for key in ("conf", "inputs"))
        return plan if sound else None

    def changes(self) -> list[Difference]:
        """What differs between this job and what the folder is being, or was, made from; eval settings left aside."""
        made_of = self._plan() or read_record(self.folder)
        if made_of is None:
            return []
        old = {k: v for k, v in made_of["conf"].items() if k != "eval"}
        new = {k: v for k, v in self.conf.plain().items() if k != "eval"}
        found = differences(old, new, counts(self.conf))
        return found or differences(made_of["inputs"], self.inputs, inputs.counts)

    @property
    def parts(self) -> Path:
        """Unfinished work."""
        return self.folder / ".parts"

    def finished(self) -> bool:
        """Whether the tag is there already, complete, and made from the same conf, checkpoint and data."""
        return self._complete() and not self.changes()

    def _complete(self) -> bool:
        """Whether the files of an export are all there; those of an eval are eval's own concern."""
        record = None if self.parts.exists() else read_record(self.folder)
        if record is None:
            return False
        return matches(self.folder, record, tuple(n for n in record["files"] if n not in SCORE_FILES)) is None

    def begin(self, overwrite: bool, waiting: Callable[[], None] | None = None) -> bool:
        """Write down what the tag is being made of; whoever comes second must be making the same.

        Args:
            overwrite: make the tag again, also when it was made, or is being made, from something else.
            waiting: called when another process is finishing the tag.

        Returns:
            False when the tag was finished meanwhile and there is nothing to do.

        Raises:
            UsageError: it is made, or being made, from something else and `overwrite` is False; shows the difference.
        """
        with exclusive(self.outputs.lock(self.conf.benchmark, self.tag), waiting):
            if not overwrite and self.finished():
                return False
            self.refuse_changes(overwrite)
            if self.changes():
                shutil.rmtree(self.parts, ignore_errors=True)
            if self._plan() is None:
                write_json(self.parts / "plan.json", {"conf": self.conf.plain(), "inputs": self.inputs})
        return True

    def _only_data_mended(self) -> bool:
        """Whether a stopped export of this very conf goes on with other files: a damaged image was mended, say.

        Banked rows are named by their bytes, so what was done of the files that stayed is still right.
        """
        if read_record(self.folder) is not None:
            return False
        return {d.key for d in self.changes()} <= {"dataset_id", "train_id"}

    def refuse_changes(self, overwrite: bool = False) -> None:
        """Stop where the tag was made, or is being made, from something else.

        Raises:
            UsageError: it is, and `overwrite` is False; shows the difference.
        """
        found = [] if overwrite or self._only_data_mended() else self.changes()
        if found:
            unfinished = " (an export that has not finished; see also .parts/plan.json)" if self._plan() else ""
            raise UsageError(f"{self.folder}{unfinished}: {describe(found, '--overwrite')}")

    def still_to_finish(self) -> bool:
        """Asked under the tag's lock: whether no other process has finished it meanwhile.

        Raises:
            UsageError: another process has begun, or made, the tag from something else meanwhile.
        """
        self.refuse_changes()
        return not self._complete()

    def protocol(self, targets: str) -> dict[str, Any]:
        """The fingerprint's fields: scores are ranked together only if all agree."""
        view = identity_view(self.conf)
        data, model = view["data"], view["model"]
        return {
            "benchmark": self.conf.benchmark,
            "family": self.conf.family,
            "version": self.family.version,
            "dataset_id": self.test.id,
            "train_id": self.train.id if self.train else None,
            "targets": targets,
            "skipped": sorted(self.skipped),
            "size": data["size"],
            "resize": data["resize"],
            "resize_short": data["resize_short"],
            "layers": model["features"]["layers"],
            "pool": model["features"]["pool"],
            "norm": model["features"]["norm"],
            **({"dense_stride": stride} if (stride := model["features"]["dense_stride"]) > 1 else {}),
            "head": model["head"],
            "head_facts": self.head.protocol(),
            "seed": model["seed"] if self.head.trains else None,
            "eval": view["eval"],
        }

    def write_conf(self, path: Path) -> None:
        """conf.yaml: data, model and eval after every default."""
        with replacing(path) as unfinished:
            unfinished.write_text(
                yaml.safe_dump(self.conf.plain(), sort_keys=False, allow_unicode=True), encoding="utf-8"
            )


@dataclasses.dataclass
class Outcome:
    """How one tag ended: finished (now or before), or waiting for other shards; and its place in a sweep.

    Attributes:
        share: which share this process did; left: what is missing for the tag to be finished, and who is at it.
    """

    benchmark: str
    tag: str
    folder: Path
    state: str  # finished, unchanged, waiting
    seconds: float = 0.0
    forwards: int = 0
    place: tuple[str, float] | None = None
    share: Share = Share()
    left: str = ""
