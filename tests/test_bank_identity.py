"""What meets the features that are banked, and what never does; when a finished tag is left alone."""

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
from PIL import Image

import benchkit
from benchkit.datasets.scenes import Scenes
from benchkit.errors import BenchkitError, UsageError
from benchkit.export import export
from benchkit.provenance.record import read_record
from benchkit.store.features import TagFeatures
from benchkit.store.table import Table

HERE = Path(__file__).parent
SMALL = ["data.side=32", "data.n_train=24", "data.n_test=24", "model.batch_size=4"]
PROBES = 10  # two black images tell what the module returns, two batches of four whether it is the same module
MODULE = "{name: module, path: tiny_models.TinyNet, size: 32, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}"
VIT = "{name: timm, arch: test_vit.r160_in1k, pretrained: false}"
RESNET = "{name: timm, arch: test_resnet.r160_in1k, pretrained: false}"
Export = Callable[..., object]


@pytest.fixture
def run(tmp_path: Path) -> Export:
    """Export one benchmark; the outcome or the error."""

    def work(backbone: str, tag: str, *settings: str, benchmark: str = "retrieval", **options: object) -> object:
        conf = tmp_path / "model.yaml"
        conf.write_text(f"model: {{backbone: {backbone}}}\n")
        given = {"outputs": tmp_path / "outputs", "say": str, "tag": tag, **options}
        said = {setting.partition("=")[0] for setting in settings}
        arguments = [*(small for small in SMALL if small.partition("=")[0] not in said), *settings]
        return export(conf, benchmark, arguments=arguments, **given)[0]

    return work


def banks(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "outputs" / "features").iterdir())


# What meets an old bank


def test_a_second_benchmark_on_the_same_images_forwards_none(run: Export) -> None:
    assert run(MODULE, "a", "model.head.strength=1", benchmark="classification").forwards == 48
    tiny_models.forwarded.clear()
    assert run(MODULE, "a").forwards == 0
    assert sum(tiny_models.forwarded) <= PROBES  # no image of the data


def test_another_head_forwards_none_and_decodes_none(run: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(MODULE, "a", "model.head.strength=1", benchmark="classification").forwards == 48

    def image(self: Scenes, view: str) -> np.ndarray:
        raise AssertionError(f"{view} was decoded")

    monkeypatch.setattr(Scenes, "image", image)
    end = run(MODULE, "b", "model.head.name=knn", benchmark="classification")
    assert (end.state, end.forwards) == ("finished", 0)


def test_a_new_layer_forwards_once_more_and_adds_only_its_key(tmp_path: Path, run: Export) -> None:
    sizes = ["data.size=32", "model.random=true"]
    assert run(VIT, "a", *sizes).forwards == 24
    old = set(banks(tmp_path)[0].glob("part-*.h5"))
    assert run(VIT, "b", *sizes, "model.features.layers=[1,final]").forwards == 24
    assert len(banks(tmp_path)) == 1
    new = set(banks(tmp_path)[0].glob("part-*.h5")) - old
    for part in new:
        with Table(part, "bank") as table:
            assert [c for c in table.columns if c != "reason"] == ["features/cls@1"]
    assert run(VIT, "c", *sizes, "model.features.layers=[1]").forwards == 0


def test_a_checkpoint_of_equal_content_under_another_path(tmp_path: Path, run: Export) -> None:
    weights = tmp_path / "one.pt"
    torch.save(tiny_models.TinyNet(5).state_dict(), weights)
    assert run(MODULE, "a", f"model.backbone.checkpoint={weights}").forwards == 24
    moved = shutil.copy(weights, tmp_path / "two.pt")
    assert run(MODULE, "a", f"model.backbone.checkpoint={moved}").state == "unchanged"
    assert run(MODULE, "b", f"model.backbone.checkpoint={moved}").forwards == 0


def test_other_workers_and_device_meet_it(run: Export) -> None:
    run(MODULE, "a")
    assert run(MODULE, "b", "data.num_workers=1", "model.device=cpu").forwards == 0


# What never does


@pytest.mark.parametrize(
    "setting",
    [
        "model.preprocess.mean=[0.5,0.5,0.5]",
        "model.preprocess.std=[0.5,0.5,0.5]",
        "model.preprocess.interpolation=bilinear",
        "model.precision=bf16",
        "model.batch_size=8",
        "data.size=16",
        "data.resize_short=40",
        "data.resize=squash",
        "data.decoder=pil",
        "model.backbone.kwargs.seed=1",
    ],
)
def test_settings_that_make_another_bank(tmp_path: Path, run: Export, setting: str) -> None:
    run(MODULE, "a")
    assert run(MODULE, "b", setting).forwards == 24
    assert len(banks(tmp_path)) == 2
    error = run(MODULE, "a", setting)
    assert isinstance(error, UsageError)
    assert setting.partition("=")[0].split(".")[-1] in str(error)


def test_other_weights_behind_an_unchanged_path(tmp_path: Path, run: Export) -> None:
    weights = tmp_path / "weights.pt"
    torch.save(tiny_models.TinyNet(5).state_dict(), weights)
    stat = weights.stat()
    run(MODULE, "a", f"model.backbone.checkpoint={weights}")
    torch.save(tiny_models.TinyNet(6).state_dict(), weights)
    assert weights.stat().st_size == stat.st_size
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as unpacking an archive leaves it
    error = run(MODULE, "a", f"model.backbone.checkpoint={weights}")
    assert "checkpoint.sha256" in str(error)
    assert run(MODULE, "b", f"model.backbone.checkpoint={weights}").forwards == 24
    assert len(banks(tmp_path)) == 2


def test_another_checkpoint_with_the_size_and_time_of_the_first(tmp_path: Path, run: Export) -> None:
    paths = [tmp_path / "one.pt", tmp_path / "two.pt"]
    for seed, path in enumerate(paths):
        torch.save(tiny_models.TinyNet(seed).state_dict(), path)
        os.utime(path, ns=(10**18, 10**18))
    run(MODULE, "a", f"model.backbone.checkpoint={paths[0]}")
    assert isinstance(run(MODULE, "a", f"model.backbone.checkpoint={paths[1]}"), UsageError)


CODE = """
import torch
class Base(torch.nn.Module):
    def forward(self, image):
        return helper(self.conv(image))
def helper(x):
    return x.relu()
class Net(Base):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 4, 4)
        torch.nn.init.constant_(self.conv.weight, 0.1)
        torch.nn.init.zeros_(self.conv.bias)
"""


@pytest.mark.parametrize(
    ("old", "new"), [("helper(self.conv(image))", "helper(self.conv(image)) * 2"), ("x.relu()", "x.tanh()")]
)
def test_changed_forward_code_with_equal_weights(
    tmp_path: Path, run: Export, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    source = tmp_path / "changing_model.py"
    source.write_text(CODE)
    sys.modules.pop("changing_model", None)
    importlib.invalidate_caches()
    backbone = (
        "{name: module, path: changing_model.Net, size: 32, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}"
    )
    assert run(backbone, "a").forwards == 24
    source.write_text(CODE.replace(old, new) + "# so that the size differs\n")
    importlib.invalidate_caches()
    importlib.reload(sys.modules["changing_model"])
    assert "code.changing_model" in str(run(backbone, "a"))
    assert run(backbone, "b").forwards == 24
    assert len(banks(tmp_path)) == 2


def test_a_model_given_as_an_object_is_compared_by_its_weights(tmp_path: Path) -> None:
    how = {
        "preprocess": {"size": 32, "mean": [0.5] * 3, "std": [0.5] * 3},
        "arguments": SMALL,
        "outputs": tmp_path / "outputs",
        "say": str,
    }
    model = tiny_models.TinyNet()
    first = benchkit.run(model, "retrieval", **how)
    assert first.fresh
    assert not benchkit.run(tiny_models.TinyNet(), "retrieval", **how).fresh
    with torch.no_grad():
        model.conv.weight.mul_(-1)
    with pytest.raises(UsageError, match="overwrite"):
        benchkit.run(model, "retrieval", **how)
    assert benchkit.run(model, "retrieval", **how, overwrite=True).summaries != first.summaries


# Equal bits


def features(folder: Path) -> dict[str, bytes]:
    with TagFeatures(folder) as table:
        key = table.meta["keys"][0]
        return {name: row.tobytes() for name, row in zip(table.names, table.read(key), strict=True)}


@pytest.mark.parametrize("backbone", [MODULE, VIT, RESNET])
def test_features_do_not_depend_on_neighbours_position_or_number(tmp_path: Path, run: Export, backbone: str) -> None:
    random = [] if backbone == MODULE else ["model.random=true", "data.size=64"]
    few = features(run(backbone, "a", *random, "data.n_test=13", outputs=tmp_path / "few").folder)
    many = features(run(backbone, "a", *random, "data.n_test=23", outputs=tmp_path / "many").folder)
    assert len(few) == 13
    assert few == {name: many[name] for name in few}


@pytest.fixture
def threads() -> Iterator[None]:
    """Restores their number."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("backbone", [VIT, RESNET])
def test_features_do_not_depend_on_threads_in_large_batches(tmp_path: Path, run: Export, backbone: str) -> None:
    found = []
    for count in (1, 2):
        torch.set_num_threads(count)
        given = ["model.random=true", "data.size=64", "model.batch_size=32"]
        found.append(features(run(backbone, "a", *given, outputs=tmp_path / str(count)).folder))
    assert found[0] == found[1]


@pytest.mark.usefixtures("threads")
def test_rows_made_with_other_threads_are_another_platform(tmp_path: Path, run: Export) -> None:
    """Their last bits may differ in small batches: no error, but marked."""
    given = ["model.random=true", "data.size=64"]
    for count in (1, 2):
        torch.set_num_threads(count)
        run(RESNET, "a", *given, outputs=tmp_path / str(count))
    (first,), (second,) = ([*(tmp_path / n / "features").iterdir()] for n in "12")
    for part in second.glob("part-*.h5"):
        shutil.copy(part, first)
    end = run(RESNET, "b", *given, outputs=tmp_path / "1")
    assert (end.state, end.forwards) == ("finished", 0)
    found = read_record(end.folder)["features"]
    assert found["mixed_platforms"]
    assert found["duplicate_rows"] == 24


# Finished tags are left at once

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["torchvision"] = sys.modules["timm"] = None
from benchkit.commands.export import main
sys.exit(main())
"""


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes of noise, three images each in train and test."""
    generator = np.random.default_rng(0)
    for split in ("train", "test"):
        for label in ("cat", "dog"):
            folder = tmp_path / "photos" / split / label
            folder.mkdir(parents=True)
            for number in range(3):
                pixels = generator.integers(0, 255, (40, 48, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    return tmp_path / "photos"


def rerun(tmp_path: Path, *settings: str) -> subprocess.CompletedProcess:
    """The command again, where torch cannot be imported."""
    command = [sys.executable, "-c", WITHOUT_TORCH, "--conf", tmp_path / "model.yaml", "--benchmark", "retrieval"]
    command += ["--outputs", tmp_path / "outputs", "--tag", "a", *SMALL[3:], *settings]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_a_finished_tag_is_recognised_without_torch(tmp_path: Path, photos: Path) -> None:
    weights, conf = tmp_path / "weights.pt", tmp_path / "model.yaml"
    torch.save(tiny_models.TinyNet(5).state_dict(), weights)
    conf.write_text(
        "model: {backbone: {name: module, path: tiny_models.TinyNet, size: 32, mean: [0, 0, 0], std: [1, 1, 1], "
        f"checkpoint: {weights}}}}}\n"
    )
    given = [*SMALL[3:], f"data.root={photos}"]
    end = export(conf, "retrieval", arguments=given, tag="a", outputs=tmp_path / "outputs", say=str)[0]
    assert not isinstance(end, BenchkitError), end

    def check(status: int, word: str, *settings: str) -> None:
        done = rerun(tmp_path, *settings)
        assert done.returncode == status, done.stderr
        assert word in done.stdout + done.stderr

    same = f"data.root={photos}"
    check(0, "nothing has changed", same)
    for path in [weights, *photos.rglob("*.png")]:
        path.touch()
    check(0, "nothing has changed", same)
    moved = tmp_path / "moved"
    shutil.copytree(photos, moved)
    check(0, "nothing has changed", f"data.root={moved}", "model.device=cpu", "data.num_workers=1")
    check(2, "precision", same, "model.precision=bf16")
    picture = next((photos / "test").rglob("*.png"))
    old = picture.read_bytes()
    Image.new("RGB", (48, 40), "red").save(picture)
    check(2, "dataset_id", same)
    picture.write_bytes(old)
    check(0, "nothing has changed", same)
    torch.save(tiny_models.TinyNet(6).state_dict(), weights)
    check(2, "checkpoint.sha256", same)


def test_a_backbone_is_built_once_in_an_export_and_anew_in_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Pooled and dense benchmarks of one model are two banks of one backbone; of another size it is another backbone."""
    from benchkit.backbones import color_histogram

    built, build = [], color_histogram.build
    monkeypatch.setattr(
        color_histogram, "build", lambda *given, **how: built.append(how["size"]) or build(*given, **how)
    )
    small = ["data.n_train=24", "data.n_test=24", "data.side=32", "benchmarks.retrieval.data.size=64"]
    for tag in ("one", "two"):
        ends = export(
            "color_histogram", ["feature_quality", "depth", "retrieval"], arguments=small, tag=tag, outputs=tmp_path
        )
        assert {getattr(end, "state", str(end)) for end in ends} == {"finished"}
    assert built == [None, 64, None, 64]
