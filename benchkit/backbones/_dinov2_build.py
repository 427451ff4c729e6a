"""Making a DINOv2 with its authors' code: that of one commit, seeded construction, weights."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from benchkit.backbones._checkpoint import chosen_file, load_into, load_state
from benchkit.backbones._dinov2_layers import DinoV2Backbone
from benchkit.backbones._sizes import check_size
from benchkit.backbones._timm_build import seeded
from benchkit.backbones.base import Preprocess
from benchkit.errors import UsageError, reason

if TYPE_CHECKING:
    from benchkit.backbones.dinov2 import Settings

REPOSITORY = "facebookresearch/dinov2"
WEIGHTS = "https://dl.fbaipublicfiles.com/dinov2"
_PUBLISHED = re.compile(r"(dinov2_vit[sblg]14)(_reg)?")
_CHUNKED = re.compile(r"^blocks\.\d+\.(\d+)\.")  # names of training runs, which wrap blocks in chunks


def build_dinov2(settings: Settings, *, size: int | None, random: bool, seed: int) -> DinoV2Backbone:
    """See `benchkit.backbones.dinov2.build`."""
    arch, size = settings.arch, size or settings.size
    path = chosen_file(arch, settings.checkpoint, pretrained=settings.pretrained, random=random)
    net, code = seeded(seed, lambda: from_code(settings))
    net.eval()
    check_size(arch, int(net.patch_size), size)
    notes: tuple[str, ...] = ()
    if not random:
        state, read = load_state(path) if path else (published(arch), [])
        report = load_into(net, state, source=str(path or arch), convert=_unchunked)
        notes = (*read, *report.notes)
    backbone = DinoV2Backbone(net, arch, Preprocess(size, crop_pct=settings.crop_pct))
    backbone.notes = notes
    backbone.upstream = f"{REPOSITORY} {settings.commit}, code {code[:16]}"
    backbone.requires_grad_(False)
    return backbone.eval()


def from_code(settings: Settings) -> tuple[Any, str]:
    """The net with random weights, and the sha256 of the code that made it.

    Raises:
        UsageError: the code could not be had, has no such entry, or makes something without DINOv2's layers.
    """
    arch, folder = settings.arch, code_folder(settings)
    where = str(folder) if settings.repo else f"{REPOSITORY}:{settings.commit}"
    local: dict[str, Any] = {"source": "local"} if settings.repo else {"trust_repo": True, "skip_validation": True}
    try:
        with _alone(), _without_xformers():
            net = torch.hub.load(where, arch, pretrained=False, verbose=False, **local, **settings.extra_kwargs)
            code = code_of(folder)
    except OSError as error:
        raise UsageError(
            f"the code of {REPOSITORY} at {settings.commit} could not be had ({reason(error)}). On a machine with network "
            f"get it with `git clone https://github.com/{REPOSITORY}` and `git -C dinov2 checkout {settings.commit}`, copy "
            "the folder here and pass model.backbone.repo=FOLDER; timm's copies (model.backbone.name=timm) need no such code."
        ) from error
    except Exception as error:  # the code of a repository can fail in any way
        raise UsageError(
            f"{where} cannot make {arch} with {settings.extra_kwargs} ({type(error).__name__}: {error}). Its backbones are "
            "dinov2_vits14, vitb14, vitl14 and vitg14, each also with _reg; see model.backbone.arch and .extra_kwargs."
        ) from error
    if not hasattr(net, "get_intermediate_layers"):
        raise UsageError(
            f"{arch} of {where} is no backbone (it has no layers to ask for): take dinov2_vits14 or the like."
        )
    return net, code


def code_folder(settings: Settings) -> Path:
    """Where the code lies, or will lie after torch.hub's download.

    Raises:
        UsageError: the local folder is no checkout, or the commit is not one.
    """
    if not re.fullmatch("[0-9a-f]{40}", settings.commit):
        raise UsageError(
            f"model.backbone.commit={settings.commit}: give all 40 digits of a commit of {REPOSITORY}; a branch or tag can "
            "change under an experiment."
        )
    if not settings.repo:
        return Path(torch.hub.get_dir()).resolve() / f"{REPOSITORY.replace('/', '_')}_{settings.commit}"
    folder = Path(settings.repo).expanduser().resolve()
    if not (folder / "hubconf.py").is_file():
        raise UsageError(f"model.backbone.repo={settings.repo} is no checkout of {REPOSITORY}: it has no hubconf.py.")
    return folder


def code_of(folder: Path) -> str:
    """sha256 over hubconf.py and every module that was imported from the folder, by its path in it."""
    files = {folder / "hubconf.py"}
    for module in list(sys.modules.values()):
        file = Path(getattr(module, "__file__", None) or "/").resolve()
        if file.suffix == ".py" and file.is_relative_to(folder):
            files.add(file)
    digest = hashlib.sha256()
    for file in sorted(files):
        text = file.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{file.relative_to(folder).as_posix()}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()


@contextmanager
def _alone() -> Iterator[None]:
    """Modules called dinov2 that were imported from elsewhere are forgotten, or their code would run in its place."""
    for name in [name for name in sys.modules if name.split(".")[0] == "dinov2"]:
        del sys.modules[name]
    yield


@contextmanager
def _without_xformers() -> Iterator[None]:
    """The code reads this variable when it is imported; its own attention gives other last bits than xFormers'."""
    before = os.environ.get("XFORMERS_DISABLED")
    os.environ["XFORMERS_DISABLED"] = "1"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="xFormers is")
            yield
    finally:
        if before is None:
            del os.environ["XFORMERS_DISABLED"]
        else:
            os.environ["XFORMERS_DISABLED"] = before


def published(arch: str) -> dict[str, Tensor]:
    """The tensors of the published weights, downloaded or from torch.hub's cache.

    Raises:
        UsageError: there are none of that name, or they could not be had; the message says where to put them.
    """
    match = _PUBLISHED.fullmatch(arch)
    if match is None:
        raise UsageError(f"no weights of {arch} are published: give model.backbone.checkpoint=FILE, or --random.")
    base, registers = match.groups()
    url = f"{WEIGHTS}/{base}/{base}{'_reg4' if registers else ''}_pretrain.pth"
    try:
        return torch.hub.load_state_dict_from_url(url, map_location="cpu", weights_only=True, progress=False)
    except Exception as error:
        raise UsageError(
            f"the weights of {arch} could not be had ({reason(error)}). On a machine with network get {url}, put the file "
            f"into {torch.hub.get_dir()}/checkpoints or pass model.backbone.checkpoint=FILE; or run with --random for random "
            "weights."
        ) from error


def _unchunked(state: dict[str, Tensor], net: nn.Module) -> dict[str, Tensor]:
    return {_CHUNKED.sub(r"blocks.\1.", name): value for name, value in state.items()}
