"""Whether the bank covers a job; where it does not, who is at it, and the commands that resume what nobody is at."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from benchkit.errors import printable, some
from benchkit.export.batches import Pictures, owners
from benchkit.export.job import Job
from benchkit.export.shares import Share
from benchkit.export.texts import lacking as lacking_texts
from benchkit.export.workers import STOPPED, Sign, signs, work_id
from benchkit.store.bank import Bank

_SHARES, _NAMES = 6, 3  # how many of them a message names


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a job's head reads of the bank."""

    keys: list[Any]
    prompts: list[str]

    @property
    def columns(self) -> list[str]:
        """The bank's columns of every image."""
        return [*(f"features/{key}" for key in self.keys), "size", "thumb"]


def absent(job: Job, bank: Bank, wanted: Wanted) -> str:
    """What the bank lacks of a job, in words; nothing when it covers the job."""
    images = job.facts.digests[job.facts.rows(job.views)]
    lacks = np.flatnonzero(bank.lacks(images, wanted.columns).any(axis=1))
    if len(lacks):
        count = len(np.unique(images[lacks], axis=0))
        return (
            f"{count} of {len(job.views)} images of {job.conf.benchmark}/{job.tag} are not in the bank yet (the first is "
            f"{job.views[lacks[0]]!r})"
        )
    prompts = lacking_texts(bank, wanted.prompts)
    return f"{len(prompts)} prompts of {job.conf.benchmark}/{job.tag} are not in the bank yet" if prompts else ""


def missing_shares(
    bank: Bank,
    pictures: Pictures,
    columns: Sequence[str],
    model: Any,
    share: Share,
    command: str,
    owed: Mapping[int, Sequence[str]],
) -> str:
    """Of each share that is not all in the bank: who is at it, or what is missing and how it is resumed; "" of none.

    Args:
        bank: scanned.
        pictures: all that the shares are of.
        columns: the bank's, that each picture shall have.
        model: LoadedModel: its inputs and batches decide what belongs together.
        share: this process's own.
        command: that made this process; '' from Python.
        owed: by share of `share.count`, the items that it has not predicted.
    """
    lacking = np.flatnonzero(bank.lacks(pictures.digests, columns).any(axis=1))
    known = {(sign.index, sign.count): sign for sign in signs(bank.folder, work_id(pictures))}
    counts = [share.count] if share.count > 1 else sorted({count for _, count in known})
    told = []
    for count in counts if len(lacking) or owed else ():
        views: list[list[str]] = [[] for _ in range(count)]
        dealt = owners(pictures, model.preprocess, model.conf.model.batch_size, count)
        for row in lacking.tolist():
            views[dealt[row]].append(pictures.views[row])
        for index, left in enumerate(views):
            sign, items = known.get((index, count)), owed.get(index, ()) if count == share.count else ()
            if left or items:
                told.append(_told(f"{index}/{count}", left or items, "image" if left else "item", sign, command))
    return some(told, _SHARES, "; ")


def _told(shard: str, names: Collection[str], what: str, sign: Sign | None, command: str) -> str:
    images = f"{len(names)} {what}{'s' * (len(names) != 1)}"
    if sign is not None and not sign.missing:
        return f"shard {shard} {_who(sign)} is at work: {images} to go"
    such = f"{images} missing, such as {', '.join(printable(repr(v), 100) for v in sorted(names)[:_NAMES])}"
    if sign is None:
        return f"shard {shard} has not begun: {such}; start it with: {resuming(command, shard)}"
    return f"shard {shard} {_who(sign)} {_fate(sign)}: {such}; resume it with: {resuming(command, shard)}"


def _who(sign: Sign) -> str:
    return f"(host {printable(sign.host, 64)}, pid {sign.pid})"


def _fate(sign: Sign) -> str:
    if sign.state == STOPPED:
        return "has stopped"
    if sign.process == "dead":
        return "has died"
    seconds = round(sign.age)
    return f"has not been seen for {f'{seconds // 60} min' if seconds >= 60 else f'{seconds} s'}"


def resuming(command: str, shard: str) -> str:
    """The command that does one share; in words where there was none."""
    if not command:
        return f"the same export with shard={shard!r}"
    return f"{re.sub(r' --(shard[ =][^ ]+|finish)(?= |$)', '', command)} --shard {shard}"
