"""Prompts through the model's text tower, into the bank: a row's key is the sha256 of its prompt.

Like images, prompts go through in fixed batches, the last filled up with its last prompt, and whole batches of the sorted
list are what shards divide: which rows are done already never changes the company of the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from benchkit.errors import RunError
from benchkit.export.forward import Forward
from benchkit.export.shares import Share
from benchkit.progress import Progress
from benchkit.store.bank import Bank

COLUMN = "features/text@final"
_BATCHES_A_PART = 64


def row_key(prompt: str) -> str:
    """The bank's name of a prompt."""
    return hashlib.sha256(b"text\0" + prompt.encode()).hexdigest()


def lacking(bank: Bank, prompts: Sequence[str]) -> list[str]:
    """Prompts that are not in the bank."""
    absent = bank.missing(map(row_key, prompts), [COLUMN])
    return [prompt for prompt in prompts if row_key(prompt) in absent]


def fill_texts(forward: Forward, bank: Bank, prompts: Sequence[str], share: Share) -> None:
    """Embed this share's batches that are not whole in the bank.

    Raises:
        RunError: an embedding is not finite; names the prompt.
    """
    size, todo = forward.model.batch_size, set(lacking(bank, prompts))
    ordered = sorted(prompts)
    batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    mine = [b for number, b in enumerate(batches) if number % share.count == share.index and not todo.isdisjoint(b)]
    progress = Progress(sum(map(len, mine)), "prompts", "prompts", silent=not share.leads)
    for start in range(0, len(mine), _BATCHES_A_PART):
        part = mine[start : start + _BATCHES_A_PART]
        rows = []
        for batch in part:
            rows.append(_embedded(forward, batch, size))
            progress.advance(len(batch))
        fresh = [prompt in todo for batch in part for prompt in batch]
        names = [row_key(prompt) for batch in part for prompt in batch if prompt in todo]
        bank.add(names, {"reason": [""] * len(names), COLUMN: np.concatenate(rows)[fresh]}, forward.platform)
    progress.finish()
    bank.scan()


def read_texts(bank: Bank, prompts: Sequence[str]) -> np.ndarray:
    """Embeddings float32 (P, D) in the order of `prompts`."""
    return np.asarray(bank.read(COLUMN, [row_key(prompt) for prompt in prompts]), np.float32)


def _embedded(forward: Forward, batch: Sequence[str], size: int) -> np.ndarray:
    rows = forward.texts([*batch, *[batch[-1]] * (size - len(batch))])[: len(batch)]
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise RunError(
            f"the model gave NaN or infinity for the prompt {batch[int(np.argmin(finite))]!r}: try model.precision=fp32."
        )
    return rows
