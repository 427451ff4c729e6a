"""Files of the Hugging Face hub: from the local cache where they lie there, and no retries where nothing answers."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TypeVar

from benchkit.errors import UsageError

T = TypeVar("T")
SECONDS = 5.0  # for the hub to answer; its own clients try for 24 to 50 seconds, per file


def from_hub(make: Callable[[], T]) -> T:
    """`make()` with what lies in the local cache; only where something is missing there, with the hub.

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

            raise ConnectionError(
                f"not all of its files are in {constants.HF_HUB_CACHE}, and {constants.ENDPOINT} does not answer"
            ) from error
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


def refused(what: str, error: Exception, otherwise: str) -> UsageError:
    """The one paragraph about something that could not be had from a hub.

    Args:
        what: weights or tokenizer, and whose.
        error: why not.
        otherwise: what else the user can do.
    """
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].removesuffix(".")
    return UsageError(
        f"{what} could not be had ({reason}). On a machine with network run `bash scripts/fetch_models CONF`, which says "
        f"where the files lie, and copy them to the same place here; or {otherwise}."
    )
