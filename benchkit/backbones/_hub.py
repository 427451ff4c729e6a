"""Files of public hubs: from the local cache where they lie there, and no retries where nothing answers."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from benchkit.errors import UsageError, reason

T = TypeVar("T")
SECONDS = 5.0  # for the hub to answer; its own clients try for 24 to 50 seconds, per file


def from_hub(make: Callable[[], T]) -> T:
    """`make()` with what lies in the local cache of the Hugging Face hub; only where something is missing, with the hub.

    What is cached is not asked for again: a model does not change between two exports because somebody has uploaded
    another one.

    Raises:
        ConnectionError: a file is missing and the hub does not answer.
    """
    try:
        with _offline():
            return make()
    except OSError as error:
        if not answers():
            from huggingface_hub import constants

            closed = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else f"{constants.ENDPOINT} does not answer"
            raise ConnectionError(f"not all of its files are in {constants.HF_HUB_CACHE}, and {closed}") from error
    return make()


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """Whatever asks the hub inside finds the cache alone."""
    from huggingface_hub import constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def answers() -> bool:
    """Whether the hub can be reached; asked once per process, and not at all where $HF_HUB_OFFLINE is set."""
    from huggingface_hub import constants

    return not constants.HF_HUB_OFFLINE and _asked()


@functools.cache
def _asked() -> bool:
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=SECONDS)  # goes through a proxy where one is set
    except Exception:  # whatever the installed HTTP library raises
        return False
    return True


def hub_folder(repository: str) -> Path:
    """Where the cache of the Hugging Face hub keeps a model's repository."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"


def to_copy(path: Path) -> Path:
    """What has to be copied for `path` to be found on another machine: of the hub's cache, the repository's folder."""
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    return cache / path.relative_to(cache).parts[0] if path.is_relative_to(cache) else path


def torch_file(url: str) -> Path:
    """Where torch.hub keeps what it downloaded from `url`, by the last part of the address."""
    import torch

    return Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]


def refused(what: str, error: Exception, otherwise: str) -> UsageError:
    """The one paragraph about something that could not be had from a hub.

    Args:
        what: weights or tokenizer, and whose.
        error: why not.
        otherwise: what else the user can do.
    """
    return UsageError(
        f"{what} could not be had ({reason(error)}). On a machine with network run `bash scripts/fetch_models CONF`, which says "
        f"where the files lie, and copy them to the same place here; or {otherwise}."
    )
