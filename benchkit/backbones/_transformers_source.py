"""Where the files of a Hugging Face model come from: a folder, the hub or its cache, or a conf's own fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import huggingface_hub.utils
import transformers
from huggingface_hub.utils import logging as hub_logging
from transformers.utils import logging as library_logging

from benchkit.backbones._hub import from_hub, refused
from benchkit.errors import UsageError, reason

if TYPE_CHECKING:
    from benchkit.backbones.transformers import Settings

_COMMIT = re.compile("[0-9a-f]{40}")


class Source:
    """The files of one model, read with the library's own classes and without its code from the hub.

    Raises:
        UsageError: the folder is not there, or the revision is no commit.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.where = settings.folder or settings.model_id
        path = Path(self.where or "").expanduser()
        self.local = bool(self.where) and path.is_dir()
        if self.local:
            self.where = str(path)
        elif settings.folder or (self.where or "").startswith(("/", ".", "~")):
            raise UsageError(
                f"model.backbone.{'folder' if settings.folder else 'model_id'}={self.where}: no such folder."
            )
        if settings.revision and not _COMMIT.fullmatch(settings.revision):
            raise UsageError(
                f"model.backbone.revision={settings.revision}: give all 40 digits of a commit; a branch or tag can change "
                "under an experiment."
            )
        self.options = {"trust_remote_code": False} | ({} if self.local else {"revision": settings.revision or "main"})

    def config(self, *, of_files: bool) -> Any:
        """The configuration: that of the files, or (where these need not be had) of the conf's own fields.

        Raises:
            UsageError: neither is there, or the files say something else than the conf.
        """
        given = dict(self.settings.config)
        if given and not of_files:
            return _configured(given)
        if not self.where:
            raise UsageError(
                "say which model: model.backbone.model_id=NAME, a name on the hub or a folder, or its "
                "model.backbone.config={model_type: ...}."
            )
        config = self.load(transformers.AutoConfig)
        if wrong := list(_differences(given, config.to_dict())):
            raise UsageError(f"model.backbone.config does not agree with {self.where}: {'; '.join(wrong)}.")
        return config

    def processor(self, *, of_files: bool) -> Any:
        """The image processor, or None where nothing says what it is. Arguments and errors: as of `config`."""
        fields = dict(self.settings.processor)
        kind = fields.pop("image_processor_type", None)
        if kind is not None:
            return _made(kind, fields)
        if self.where and (of_files or self.local):
            return self.load(transformers.AutoImageProcessor, **fields)
        return None

    def tokenizer(self) -> Any:
        """The tokenizer of the model, or the one that the conf names."""
        with quiet():
            return self.load(transformers.AutoTokenizer, where=self.settings.tokenizer or self.where)

    def load(self, kind: Any, where: str | None = None, **more: Any) -> Any:
        """`kind.from_pretrained`.

        Raises:
            UsageError: the files could not be had, or are not those of such a model; how to get them.
        """
        where = where or self.where
        local = Path(where or "").is_dir()
        options = {"trust_remote_code": False} if local else self.options
        try:
            make = lambda: kind.from_pretrained(where, **options, **more)  # noqa: E731
            return make() if local else from_hub(make)
        except OSError as error:
            if local:
                raise UsageError(
                    f"{where} lacks files for {kind.__name__} ({reason(error)}): get all of the model's files again."
                ) from error
            raise refused(f"{where}", error, self._otherwise()) from error
        except Exception as error:  # files of any kind
            raise UsageError(
                f"{where} cannot be loaded as {kind.__name__} of transformers {transformers.__version__} "
                f"({reason(error)}). Code that a model brings along is never run."
            ) from error

    def _otherwise(self) -> str:
        revision = f" --revision {self.settings.revision}" if self.settings.revision else ""
        return (
            f"bring the folder that `hf download {self.settings.model_id}{revision} --local-dir FOLDER` makes and pass "
            "model.backbone.folder=FOLDER; or run with --random for random weights, which needs nothing but "
            "model.backbone.config={model_type: ...}"
        )


@contextmanager
def quiet() -> Iterator[None]:
    """The library says nothing but errors: what there is to say of a model is in the backbone's notes."""
    before = library_logging.get_verbosity(), hub_logging.get_verbosity(), library_logging.is_progress_bar_enabled()
    library_logging.set_verbosity_error()
    hub_logging.set_verbosity_error()
    library_logging.disable_progress_bar()
    huggingface_hub.utils.enable_progress_bars()  # of downloads
    try:
        yield
    finally:
        library_logging.set_verbosity(before[0])
        hub_logging.set_verbosity(before[1])
        if before[2]:
            library_logging.enable_progress_bar()


def _configured(fields: dict[str, Any]) -> Any:
    kind = fields.pop("model_type", None)
    try:
        return transformers.AutoConfig.for_model(kind, **fields)
    except Exception as error:
        raise UsageError(
            f"model.backbone.config: transformers {transformers.__version__} makes no configuration of model_type={kind} "
            f"with these fields ({reason(error)})."
        ) from error


def _made(kind: str, fields: dict[str, Any]) -> Any:
    try:
        return getattr(transformers, kind)(**fields)
    except Exception as error:
        raise UsageError(
            f"model.backbone.processor: transformers {transformers.__version__} makes no image_processor_type={kind} with "
            f"these fields ({reason(error)})."
        ) from error


def _differences(given: Mapping[str, Any], there: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in given.items():
        found = there.get(key)
        if isinstance(value, Mapping) and isinstance(found, Mapping):
            yield from _differences(value, found, f"{prefix}{key}.")
        elif found != value and not (isinstance(found, list | tuple) and list(found) == value):
            yield f"{prefix}{key} is {value}, and {found} in the files"
