"""Confs: what each layer may say, who wins, how values are read, and what every mistake is answered with."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import importlib.machinery
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from benchkit.conf import build as building
from benchkit.conf import diff, find, layers, merge
from benchkit.conf.build import Conf, build, evaluate_settings
from benchkit.conf.help import REQUIRED, describe_settings
from benchkit.conf.layers import read_arguments, read_yaml
from benchkit.conf.model import FeatureSettings, ModelSettings
from benchkit.conf.values import Plain, read_as
from benchkit.errors import UsageError
from benchkit.registry import Component
from benchkit.settings import setting

MODULES = {
    "datasets/fake_scenes.py": """
        class Settings(DataSettings):
            n_scenes: int = setting(10, "how many scenes")
        """,
    "datasets/fake_folder.py": """
        class Settings(DataSettings):
            image_dir: str = setting("images", "folder of the images below the root")
            stems: list[str] | None = setting(None, "names to keep")
        """,
    "backbones/fake_net.py": """
        class Settings:
            arch: str = dataclasses.field(metadata={"help": "the architecture"})
            checkpoint: str | None = setting(None, "a file with weights")
        """,
    "heads/fake_logreg.py": """
        class Settings:
            strength: float = setting(1.0, "inverse regularisation")
            fake_iterations: int = setting(100, "at most so many")
        """,
    "heads/fake_linear.py": """
        class Settings:
            fake_lr: float = setting(0.1, "learning rate")
            fake_iterations: int = setting(7, "at most so many")
        """,
    "heads/fake_dpt.py": """
        class Settings:
            fake_lr: float = setting(0.01, "learning rate")
        """,
    "eval/fake_family.py": """
        class Settings:
            top: int = setting(5, "top-k for 100 % of the items")
            tag: str = setting("a", "a label")
            on: bool = setting(False, "a switch")
            ratio: float | None = setting(None, "a ratio")
            threads: int = setting(1, "threads", identity=False)
        """,
}
FAMILY = """
class build:
    defaults = {
        "data": {"name": "fake_scenes", "n_scenes": 3, "size": 96},
        "model": {"head": {"name": "fake_logreg", "fake_iterations": 50}, "precision": "bf16"},
        "eval": {"top": 4},
    }
    folder = "fake_folder"
"""


class Colour(enum.Enum):
    red = "r"


CONF = """\
title: A net
pretrained_on: [imagenet1k]
source: https://example.org/net
licence: MIT
model:
  backbone:
    name: fake_net
    arch: tiny
"""
INSTANCE = """\
family: fake_family
title: An instance
obtain: download it
layout: images/*.jpg
overlaps: [imagenet1k, coco]
data:
  name: fake_folder
  size: 448
eval:
  top: 3
"""


@pytest.fixture(autouse=True)
def _world(tmp_path, monkeypatch):
    """Fake components of each kind beside the real ones, and a configs folder with one instance and two confs."""
    head = (
        "import dataclasses\nfrom benchkit.settings import setting\nfrom benchkit.datasets.base import DataSettings\n"
    )
    for name, body in MODULES.items():
        path = tmp_path / "packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        body = "\n".join(line[8:] for line in body.splitlines())
        end = FAMILY if "eval" in name else "def build(settings): return settings\n"
        path.write_text(f"{head}@dataclasses.dataclass{body}\n{end}")
        kind = path.parent.name
        package = importlib.import_module(f"benchkit.{kind}")
        monkeypatch.setattr(package, "__path__", [*dict.fromkeys([*package.__path__, str(path.parent)])])
        monkeypatch.delitem(sys.modules, f"benchkit.{kind}.{path.stem}", raising=False)
    configs = tmp_path / "configs"
    (configs / "benchmarks").mkdir(parents=True)
    (configs / "benchmarks" / "fake_voc.yaml").write_text(INSTANCE)
    (configs / "net.yaml").write_text(CONF)
    (configs / "net_large.yaml").write_text(CONF)
    monkeypatch.setattr(find, "configs_dir", lambda: configs)
    monkeypatch.chdir(tmp_path)


def conf_file(text: str, name: str = "c.yaml") -> str:
    Path(name).write_text(text)
    return name


def build_with(extra: str = "", *arguments: str, benchmark: str = "fake_family") -> Conf:
    return build(conf_file(CONF + extra), benchmark, arguments)


def refusal(function: Any, *args: Any) -> str:
    with pytest.raises(UsageError) as caught:
        function(*args)
    return str(caught.value)


def refused(extra: str = "", *arguments: str, benchmark: str = "fake_family") -> str:
    return refusal(lambda: build_with(extra, *arguments, benchmark=benchmark))


# values ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (str, "0123", "0123"),
        (str, "1e3", "1e3"),
        (str, "no", "no"),
        (str, "none", "none"),
        (str, "50%", "50%"),
        (str, "a=b", "a=b"),
        (str, "", ""),
        (str | None, "none", None),
        (str | None, "null", None),
        (int, "-12", -12),
        (float, "1e-3", 1e-3),
        (float, "3", 3.0),
        (float, "-inf", float("-inf")),
        (bool, "true", True),
        (bool, "False", False),
        (list[int], "1,2", [1, 2]),
        (list[int], "[1, 2]", [1, 2]),
        (list[str], "a", ["a"]),
        (list[str], "[]", []),
        (list[float] | None, "null", None),
        (tuple[int, int], "3,4", (3, 4)),
        (tuple[float, ...], "3,4,5", (3.0, 4.0, 5.0)),
        (int | str, "7", 7),
        (str | int, "7", 7),
        (int | str, "7x", "7x"),
        (Literal["a", "b"], "b", "b"),
        (Literal[1, 2], "2", 2),
        (Path, "a/b", Path("a/b")),
        (Colour, "red", Colour.red),
        (float | None, "3", 3.0),
        (Any, "last4", "last4"),
        (Any, "11", 11),
        (Any, "3,7", [3, 7]),
        (Any, "0123", "0123"),
        (Any, "1e3", 1000.0),
        (Any, "true", True),
        (Any, "null", None),
    ],
)
def test_text_is_read_by_the_type_of_its_target(hint, text, value):
    read = read_as(hint, Plain(text))
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, True),
        (int, 1.0),
        (int, "12"),
        (int, Plain("1.5")),
        (int, Plain("1e3")),
        (int, Plain("true")),
        (int, Plain("")),
        (float, True),
        (float, "1"),
        (float, Plain("nan")),
        (float, float("nan")),
        (float, Plain("1_0")),
        (bool, 1),
        (bool, Plain("1")),
        (bool, Plain("yes")),
        (bool, Plain("off")),
        (bool, "true"),
        (str, 12),
        (str, True),
        (str, None),
        (int, None),
        (list[float], [True]),
        (list[int], 3),
        (tuple[int, int], [1, 2, 3]),
        (Literal["a", "b"], Plain("c")),
        (Literal[1, 2], True),
        (Literal["a", "b"], ["a"]),
        (Colour, Plain("blue")),
        (int | None, Plain("x")),
        (dict[str, int], Plain("x")),
        (dict[str, int], {"a": 1.5}),
    ],
)
def test_values_of_another_type_are_refused(hint, value):
    with pytest.raises(ValueError, match="expected"):
        read_as(hint, value)


# yaml -----------------------------------------------------------------------------------------------------------------


def test_yaml_remembers_lines_and_keeps_text():
    layer = read_yaml(conf_file("model:\n  features:\n    pool: 0123\n  seed: '5'\n"))
    assert layer.values == {"model": {"features": {"pool": "0123"}, "seed": "5"}}
    assert isinstance(layer.values["model"]["features"]["pool"], Plain)
    assert not isinstance(layer.values["model"]["seed"], Plain)
    assert layer.source("model.features.pool") == "c.yaml:3"
    assert layer.source("model.seed") == "c.yaml:4"
    assert layer.source("model.seed.below") == "c.yaml:4"
    assert layer.source("nothing") == "c.yaml"


def test_yaml_with_bom_windows_line_ends_and_comments():
    Path("w.yaml").write_bytes(b"\xef\xbb\xbf# a conf\r\nmodel:\r\n  seed: 3\r\n\r\n")
    layer = read_yaml("w.yaml")
    assert layer.values == {"model": {"seed": "3"}}
    assert layer.source("model.seed") == "w.yaml:3"


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "~\n"])
def test_an_empty_yaml_says_nothing(text):
    assert read_yaml(conf_file(text)).values == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n- b\n", "c.yaml:1: a conf is keys with values"),
        ("just text\n", "c.yaml:1: a conf is keys with values"),
        ("model:\n  seed: 1\n  seed: 2\n", r"model.seed \(c.yaml:3\): this key is given twice, first at c.yaml:2"),
        ("a: ${oc.env:HOME}\n", r"c.yaml:1: \${...:...} is not resolved"),
        ("a:\n  - 'x ${now:%d} y'\n", r"c.yaml:2: \${...:...} is not resolved"),
        ("${env:A}: 1\n", r"c.yaml:1: \${...:...} is not resolved"),
        ("a: ${oc.env:${b}}\n", "is not resolved"),
        ("a: [1, 2\nb: 3\n", "c.yaml:2: this is not valid YAML"),
        ("a:\n\tb: 3\n", "c.yaml:2: this is not valid YAML"),
        ("a: 1\n---\nb: 2\n", "this is not valid YAML"),
        ("a: !!python/object/apply:os.system [ls]\n", "c.yaml:1: the tag .* is not supported"),
        ("a: !!python/name:os.system ''\n", "c.yaml:1: the tag .* is not supported"),
        ("base: &b {x: 1}\nm:\n  <<: *b\n", r"c.yaml:3: a key must be a plain word; merge keys"),
        ("? [a, b]\n: 1\n", "c.yaml:1: a key must be a plain word"),
        ("a: *nowhere\n", "c.yaml:1: this is not valid YAML"),
        ("a: &a {b: *a}\n", "too many or too deeply nested"),
        ("[" * 5000, "is not valid YAML"),
        ("a: \x07\n", "is not valid YAML"),
    ],
)
def test_yaml_that_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        read_yaml(conf_file(text))


def test_aliases_cannot_multiply_without_bound():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert "too many" in refusal(read_yaml, conf_file("\n".join(lines)))
    assert read_yaml(conf_file("a: &x {b: 1}\nc: *x\n")).values == {"a": {"b": "1"}, "c": {"b": "1"}}


def test_yaml_that_is_no_text():
    Path("l.yaml").write_bytes("model:\n  seed: \xe9".encode("latin-1"))
    assert "l.yaml:2: byte 15 is not UTF-8" in refusal(read_yaml, "l.yaml")
    assert "missing.yaml cannot be read: No such file" in refusal(read_yaml, "missing.yaml")
    Path("big.yaml").write_bytes(b"#" * (layers.MAX_BYTES + 1))
    assert "larger than" in refusal(read_yaml, "big.yaml")


# arguments ------------------------------------------------------------------------------------------------------------


def test_arguments_become_a_layer():
    layer = read_arguments(["data.size=224", "data.size=448", "eval.tag=a=b%", "benchmarks.my.own.family.data.size=3"])
    assert layer.values == {
        "data": {"size": "448"},
        "eval": {"tag": "a=b%"},
        "benchmarks": {"my.own.family": {"data": {"size": "3"}}},
    }
    assert layer.source("data.size") == "command line"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data.size"], "argument 'data.size': settings are given as key=value"),
        (["=3"], "key=value"),
        (["data..size=3"], "key=value"),
        (["data.size =3"], "key=value"),
        (["data.root=${oc.env:HOME}"], "is not resolved"),
        (["data.size=3", "data.size.x=3"], "gives 'size' a value"),
        (["data.size.x=3", "data.size=3"], "takes no value itself"),
    ],
)
def test_arguments_that_are_refused(arguments, message):
    assert message in refusal(read_arguments, arguments)


# finding --------------------------------------------------------------------------------------------------------------


def test_confs_are_found_by_stem_and_path():
    assert find.find_conf("net").name == "net.yaml"
    assert find.find_conf(conf_file(CONF)) == Path("c.yaml")
    assert find.conf_names() == ["net", "net_large"]
    assert "did you mean 'net_large'? " in refusal(find.find_conf, "net_larg")
    message = refusal(find.find_conf, "elsewhere/nett.yaml")
    assert "did you mean 'net'" in message
    assert str(Path("elsewhere/nett.yaml").absolute()) in message


def test_benchmarks_are_instances_families_and_paths():
    assert {"fake_voc", "fake_family"} <= set(find.benchmark_names())
    voc = find.find_benchmark("fake_voc")
    assert (voc.name, voc.family) == ("fake_voc", "fake_family")
    assert find.find_benchmark("fake_family").layer.values == {}
    own = find.find_benchmark(conf_file(INSTANCE, "mine.yaml"))
    assert (own.name, own.family) == ("mine", "fake_family")
    assert "did you mean 'fake_voc'" in refusal(find.find_benchmark, "fake_vok")
    assert "family" in refusal(find.find_benchmark, conf_file("title: x\n", "no.yaml"))
    assert "famly (no.yaml:1): there is no such key; did you mean 'family'" in refusal(
        find.find_benchmark, conf_file("famly: x\n", "no.yaml")
    )
    wrong = conf_file("family: fake_famly\n", "no.yaml")
    assert "family (no.yaml:1): no eval is called 'fake_famly'" in refusal(build, "net", wrong)


def test_the_checkout_has_its_own_configs(monkeypatch):
    monkeypatch.undo()
    package = Path(find.__file__).parent.parent
    assert find.configs_dir() == package.parent / "configs"


# order ----------------------------------------------------------------------------------------------------------------


def test_family_defaults_hold_when_nobody_says_anything():
    conf = build_with()
    assert (conf.data.name, conf.data.settings.n_scenes, conf.data.settings.size) == ("fake_scenes", 3, 96)
    assert (conf.head.name, conf.head.settings.fake_iterations, conf.head.settings.strength) == ("fake_logreg", 50, 1.0)
    assert (conf.model.precision, conf.eval.top, conf.notes) == ("bf16", 4, [])
    assert (conf.benchmark, conf.family, conf.stem, conf.user_root) == ("fake_family", "fake_family", "c", False)


ORDER = [
    ("", (), (448, "bf16", 3)),
    ("  precision: fp16\n", (), (448, "fp16", 3)),
    (
        "  precision: fp16\nbenchmarks:\n  fake_voc:\n    data: {size: 5}\n    model: {precision: fp32}\n"
        "    eval: {top: 2}\n  fake_family:\n    data: {size: 99}\n",
        (),
        (5, "fp32", 2),
    ),
    (
        "benchmarks:\n  fake_voc:\n    data: {size: 5}\n    model: {precision: fp32}\n    eval: {top: 2}\n",
        ("data.size=6", "model.precision=fp16", "eval.top=1"),
        (6, "fp16", 1),
    ),
    ("", ("benchmarks.fake_voc.data.size=8", "data.size=6", "benchmarks.fake_family.data.size=7"), (8, "bf16", 3)),
]


@pytest.mark.parametrize(("extra", "arguments", "expected"), ORDER)
def test_higher_layers_win(extra, arguments, expected):
    conf = build_with(extra, *arguments, benchmark="fake_voc")
    assert (conf.data.settings.size, conf.model.precision, conf.eval.top) == expected


def test_an_instance_tells_about_itself_and_a_conf_about_its_model():
    conf = build("net", "fake_voc")
    assert (conf.title, conf.obtain, conf.layout) == ("An instance", "download it", "images/*.jpg")
    assert conf.overlaps == ["imagenet1k", "coco"]
    assert conf.about == {
        "title": "A net",
        "pretrained_on": ["imagenet1k"],
        "source": "https://example.org/net",
        "licence": "MIT",
    }
    assert conf.stem == "net"


def test_sources_say_where_each_value_was_written():
    conf = build_with("  seed: 3\n", "eval.top=1", benchmark="fake_voc")
    assert conf.sources["model.seed"] == "c.yaml:9"
    assert conf.sources["model.backbone.arch"] == "c.yaml:8"
    assert conf.sources["eval.top"] == "command line"
    assert conf.sources["data.size"].endswith("fake_voc.yaml:8")
    assert conf.sources["model.precision"] == merge.FAMILY


def test_another_component_drops_what_was_set_for_the_old_one_with_one_note():
    conf = build_with("  head: {strength: 3, fake_iterations: 9}\n", "model.head.name=fake_linear")
    assert (conf.head.name, conf.head.settings.fake_iterations) == ("fake_linear", 7)
    assert len(conf.notes) == 1
    assert conf.notes[0].startswith("model.head.name=fake_linear (command line) replaces fake_logreg")
    assert "fake_iterations, strength (c.yaml:9)" in conf.notes[0]
    assert conf.default_head == "fake_logreg"
    assert "model.head.strength" not in conf.sources


def test_another_component_keeps_what_its_own_layer_and_higher_ones_say():
    extra = "  head: {name: fake_linear, fake_lr: 3}\n"
    conf = build_with(extra, "model.head.fake_iterations=2")
    assert (conf.head.settings.fake_lr, conf.head.settings.fake_iterations) == (3.0, 2)
    same = build_with("  head: {name: fake_logreg, strength: 3}\n")
    assert (same.head.settings.fake_iterations, same.notes) == (50, [])
    assert build("net", "fake_voc").notes == []  # what a benchmark's own yaml drops is nobody's surprise


def test_a_dataset_by_another_name_drops_the_old_ones_keys():
    conf = build_with("", "data.name=fake_folder", "data.image_dir=x")
    assert (conf.data.settings.size, conf.data.settings.image_dir) == (None, "x")
    assert "n_scenes, size" in conf.notes[0]


def test_a_root_alone_selects_the_familys_folder_dataset():
    conf = build_with("", "data.root=/data/mine", "data.image_dir=x")
    assert (conf.data.name, conf.data.settings.root, conf.user_root) == ("fake_folder", "/data/mine", True)
    conf = build_with("benchmarks:\n  fake_family:\n    data: {root: /d}\n")
    assert (conf.data.name, conf.user_root) == ("fake_folder", True)


def test_a_root_with_a_name_keeps_the_name():
    conf = build_with("", "data.root=/d", "data.name=fake_scenes")
    assert (conf.data.name, conf.data.settings.n_scenes) == ("fake_scenes", 3)
    conf = build_with("", "data.root=/d", benchmark=conf_file(INSTANCE.replace("fake_folder", "fake_scenes"), "i.yaml"))
    assert (conf.data.name, conf.data.settings.size) == ("fake_scenes", 448)  # an instance knows its own layout


def test_sections_left_empty_say_nothing():
    conf = build(conf_file(CONF + "  features:\n  head:\nbenchmarks:\n"), "fake_family")
    assert conf.head.name == "fake_logreg"
    assert build_with("benchmarks:\n  fake_voc:\n  fake_family:\n    data:\n").data.name == "fake_scenes"


# mistakes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "arguments", "message"),
    [
        ("modle: {}\n", (), "modle (c.yaml:9): there is no such key; did you mean 'model'?"),
        ("data: {size: 3}\n", (), "data (c.yaml:9): a conf names a model; settings of a benchmark belong under "),
        ("eval: {top: 3}\n", (), "belong under benchmarks.<name>.eval"),
        ("layers: last4\n", (), "layers (c.yaml:9): there is no such key; a conf has model"),
        ("layers: last4\n", (), "layers belongs under model.features"),
        (
            "  layers: last4\n",
            (),
            "model.layers (c.yaml:9): there is no such key; layers belongs under model.features.",
        ),
        ("  precison: fp32\n", (), "model.precison (c.yaml:9): there is no such key; did you mean model.precision."),
        ("  features: {layer: 3}\n", (), "model.features.layer (c.yaml:9): there is no such key; did you mean "),
        ("  archh: x\n", (), "did you mean model.backbone.arch"),
        ("  head: {nmae: fake_linear}\n", (), "did you mean model.head.name"),
        ("  head: {fake_lr: 3}\n", (), "'fake_lr' is a setting of the heads fake_dpt, fake_linear, not of fake_logreg"),
        ("  fake_lr: 3\n", (), "fake_lr belongs under model.head (fake_dpt, fake_linear)"),
        ("", ("model.head.fake_lr=3",), "model.head.fake_lr (command line): there is no such key; 'fake_lr' is"),
        ("", ("data.image_dir=3",), "'image_dir' is a setting of the dataset"),
        ("", ("data.top=3",), "top belongs under eval"),
        ("", ("eval.size=3",), "size belongs under data"),
        ("", ("eval.name=3",), "eval.name (command line): there is no such key"),
        ("", ("eval.xyzzy=3",), "eval (fake_family) has top, tag, on, ratio, threads"),
        ("", ("n_scenes=3",), "n_scenes (command line): there is no such key; an argument starts with data, model"),
        ("", ("n_scenes=3",), "n_scenes belongs under data (fake_scenes)"),
        ("", ("modl.seed=3",), "did you mean 'model'"),
        (
            "benchmarks:\n  fake_vok: {}\n",
            (),
            "benchmarks.fake_vok (c.yaml:10): no benchmark is called 'fake_vok': did",
        ),
        ("", ("benchmarks.fake_vok.data.size=3",), "benchmarks.fake_vok (command line): no benchmark is called"),
        ("benchmarks:\n  fake_voc: {dat: {}}\n", (), "benchmarks.fake_voc.dat (c.yaml:10): there is no such key; did"),
        ("benchmarks:\n  fake_voc:\n    n_scenes: 3\n", (), "n_scenes belongs under data (fake_scenes)"),
        ("benchmarks: 3\n", (), "benchmarks (c.yaml:9): this is a section"),
        ("benchmarks: {fake_voc: 3}\n", (), "benchmarks.fake_voc (c.yaml:9): this is a section"),
        ("  head: fake_linear\n", (), "model.head (c.yaml:9): this is a section with keys; write model.head.name="),
        ("", ("model=3",), "model (command line): this is a section with keys"),
        ("  features: last4\n", (), "model.features (c.yaml:9): this is a section with the keys layers, pool"),
        ("  seed: {a: 1}\n", (), "model.seed (c.yaml:9): a whole number is expected, not {'a': '1'}."),
        ("  seed: true\n", (), "model.seed (c.yaml:9): a whole number is expected, not 'true'."),
        ("  compile: yes\n", (), "model.compile (c.yaml:9): true or false is expected, not 'yes'."),
        ("  precision: fp8\n", (), "model.precision (c.yaml:9): one of fp32, bf16, fp16 is expected, not 'fp8'."),
        ("  batch_size: 0\n", (), "batch_size is at least 1"),
        ("  features: {layers: last5}\n", (), "model.features (c.yaml:9): layers are final, last4"),
        ("  preprocess: {mean: [1, 2]}\n", (), "mean has three values, not 2"),
        ("", ("model.head.strength=x",), "model.head.strength (command line): a number is expected, not 'x'."),
        ("", ("eval.on=1",), "eval.on (command line): true or false is expected"),
        ("", ("model.head.name=fake_linea",), "model.head.name (command line): no head is called 'fake_linea'"),
        ("pretrained_on: {a: 1}\n", (), "this key is given twice"),
    ],
)
def test_every_mistake_names_its_place_and_what_mends_it(extra, arguments, message):
    assert message in refused(extra, *arguments)


def test_a_setting_without_default_is_needed():
    conf = conf_file("model: {backbone: {name: fake_net}}\n")
    assert "model.backbone.arch is needed by fake_net and nobody sets it: the arch" in refusal(build, conf, "fake_voc")


def test_a_conf_without_a_backbone():
    assert "model.backbone.name is not set" in refusal(build, conf_file(""), "fake_voc")
    assert build(None, "fake_voc", ["model.backbone.name=fake_net", "model.backbone.arch=x"]).stem == "fake_net"


def test_literal_text_survives():
    conf = build_with("", "eval.tag=${not} 50% {x} $HOME 0123", "model.backbone.arch=1e3")
    assert conf.eval.tag == "${not} 50% {x} $HOME 0123"
    assert conf.backbone.settings.arch == "1e3"
    assert yaml.safe_load(yaml.safe_dump(conf.plain()))["model"]["backbone"]["arch"] == "1e3"


# components at hand ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class OwnSettings:
    width: int = setting(3, "width")


class OwnHead:
    Settings = OwnSettings


def own(kind: str) -> Component:
    return Component(kind, "own", OwnSettings, OwnHead, OwnHead)


def test_components_by_dotted_path():
    module = sys.modules[__name__]
    sys.modules["benchkit_plugin"] = module
    try:
        module.__spec__, spec = importlib.machinery.ModuleSpec("benchkit_plugin", None), module.__spec__
        conf = build_with("  head: {name: benchkit_plugin.OwnHead, width: 4}\n")
    finally:
        module.__spec__ = spec
        del sys.modules["benchkit_plugin"]
    assert (conf.head.name, conf.head.settings.width) == ("benchkit_plugin.OwnHead", 4)
    assert conf.head.component.build is OwnHead


def test_components_as_objects():
    conf = build(None, "fake_family", ["model.backbone.width=5"], {"model.backbone": own("backbones")})
    assert (conf.stem, conf.backbone.settings.width, conf.head.name) == ("own", 5, "fake_logreg")
    everything = {place: own(kind) for place, kind in {**merge.COMPONENTS, "eval": "eval"}.items()}
    conf = build(None, "anything", [], everything)
    assert (conf.benchmark, conf.family, conf.eval.width) == ("anything", "own", 3)
    assert (conf.data.settings.width, conf.notes) == (3, [])
    with pytest.raises(UsageError, match="was given as an object"):
        build("net", "fake_family", [], {"model.backbone": own("backbones")})
    with pytest.raises(UsageError, match="its keys are data"):
        build("net", "fake_family", [], {"backbone": own("backbones")})


# plain, diff, help ----------------------------------------------------------------------------------------------------


def test_plain_is_yaml_in_a_fixed_order_and_gives_the_same_conf_again():
    conf = build_with("  features: {layers: [3, 7]}\n", "eval.ratio=0.00001", benchmark="fake_voc")
    text = yaml.safe_dump(conf.plain(), sort_keys=False)
    assert list(conf.plain()) == ["data", "model", "eval"]
    assert next(iter(conf.plain()["model"])) == "backbone"
    assert list(conf.plain()["model"])[-1] == "head"
    again = yaml.safe_load(text)
    assert again == conf.plain()
    assert evaluate_settings("fake_family", again["eval"], None, "fake_voc") == conf.eval


def test_settings_are_structured_configs_of_omegaconf_too():
    omegaconf = pytest.importorskip("omegaconf").OmegaConf
    conf = build_with("  seed: 4\n")
    plain = {key: value for key, value in conf.plain()["model"].items() if key not in ("backbone", "head")}
    assert omegaconf.to_object(omegaconf.merge(omegaconf.structured(ModelSettings), plain)) == conf.model


def test_differences_are_field_by_field_and_ignore_what_cannot_change_a_result():
    old = build_with("", "eval.threads=1", "model.features.layers=3,7")
    new = build_with("", "eval.threads=9", "eval.top=9", "model.device=cuda", "data.num_workers=4", "model.seed=2")
    found = diff.differences(old.plain(), new.plain(), diff.counts(new))
    assert [(each.key, each.old, each.new) for each in found] == [
        ("model.features.layers", [3, 7], "final"),
        ("model.seed", 0, 2),
        ("eval.top", 4, 9),
    ]
    text = diff.describe(found, "overwrite")
    assert "model.seed was 0, now 2; eval.top was 4, now 9. Give --overwrite" in text
    assert "--overwrite_eval" in diff.describe(found[2:], "--overwrite_eval")
    assert diff.differences(old.plain(), old.plain(), diff.counts(old)) == []


@pytest.mark.parametrize(
    ("old", "new", "equal"),
    [
        (1, 1.0, True),
        ([1, 2], (1.0, 2.0), True),
        (True, 1, False),
        ([True], [1], False),
        (None, 0, False),
        ("1", 1, False),
        ([1], [1, 2], False),
        ({}, {}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {}, False),
    ],
)
def test_one_equals_one_point_zero(old, new, equal):
    assert (diff.differences({"x": old}, {"x": new}) == []) is equal


def test_a_field_on_one_side_only_is_a_difference():
    found = diff.differences({"eval": {"gone": 1}}, {"eval": {"new": 2}})
    assert [str(each) for each in found] == ["eval.new was (not there), now 2", "eval.gone was 1, now (not there)"]


@dataclasses.dataclass
class Inner:
    kept: int = setting(1, "kept")
    progress: bool = setting(True, "progress", identity=False)


@dataclasses.dataclass
class Outer:
    inner: Inner = dataclasses.field(default_factory=Inner)
    paths: dict[str, str] = setting({}, "where things are", identity=False)
    pathsize: int = setting(1, "counts, though its name begins alike")


def test_what_counts_is_found_below_nested_settings_and_dicts():
    counts = diff.counts_of({"eval": Outer})
    assert counts("eval.inner.kept")
    assert counts("eval.pathsize")
    assert not counts("eval.inner.progress")
    assert not counts("eval.paths")
    assert not counts("eval.paths.images")


def test_identity_view_is_what_fingerprints_see():
    first = diff.identity_view(build_with("", "model.features.layers=3", "model.device=cpu", "data.num_workers=4"))
    second = diff.identity_view(build_with("", "model.features.layers=3", "eval.threads=3"))
    assert first == second
    assert "device" not in first["model"]
    assert "root" not in first["data"]
    assert "threads" not in first["eval"]
    assert first["model"]["backbone"] == {"name": "fake_net", "arch": "tiny", "checkpoint": None}
    assert repr(first["model"]["head"]["strength"]) == "1"


def test_help_lists_every_setting_with_its_default():
    lines = {key: (default, text) for key, default, text in describe_settings(ModelSettings, "model")}
    assert lines["model.batch_size"][0] == 32
    assert lines["model.features.layers"] == (
        "final",
        "final, last4, quarters, all, or numbers: blocks or stages from 0",
    )
    conf = build_with()
    assert ("arch", REQUIRED, "the architecture") in describe_settings(type(conf.backbone.settings), "")
    assert "100 %" in describe_settings(type(conf.eval), "eval")[0][2]


# eval -----------------------------------------------------------------------------------------------------------------


def test_eval_settings_come_from_the_files_the_conf_and_arguments():
    conf = conf_file(CONF + "benchmarks:\n  fake_voc:\n    eval: {tag: '7'}\n")
    settings = evaluate_settings("fake_family", {"top": 8, "ratio": 0.5}, conf, "fake_voc", ["eval.ratio=none"])
    assert (settings.top, settings.tag, settings.ratio) == (8, "7", None)
    assert evaluate_settings("fake_family", {}, None, "fake_voc").top == 3
    assert evaluate_settings("fake_family", {}, None, "not_installed_here").top == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data.size=3"], "data (command line): eval reads files"),
        (["model.seed=3"], "change model by exporting again"),
        (["benchmarks.fake_voc.model.seed=3"], "eval reads files"),
        (["eval.tpo=3"], "did you mean eval.top"),
        (["top=3"], "an argument starts with data, model, eval"),
    ],
)
def test_eval_refuses_what_it_cannot_change(arguments, message):
    assert message in refusal(evaluate_settings, "fake_family", {}, None, "fake_voc", arguments)


def test_an_unknown_setting_of_a_stored_conf_names_the_file():
    assert "eval.old (conf.yaml)" in refusal(evaluate_settings, "fake_family", {"old": 3}, None, "fake_voc")


# the model section, the level -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", ["final", "last4", 3, [0, 11], [3, "final"]])
def test_layers_that_can_be_asked_for(layers):
    assert FeatureSettings(layers=layers).layers == layers


@pytest.mark.parametrize("layers", ["last5", -1, [True], [], 1.5, None, [["final"]]])
def test_layers_that_cannot_be_asked_for(layers):
    with pytest.raises(ValueError, match="layers are final"):
        FeatureSettings(layers=layers)


def test_the_conf_package_imports_nothing_heavy():
    code = (
        "import sys, benchkit.conf.build, benchkit.conf.diff, benchkit.conf.help; "
        "print(sorted({'torch', 'numpy', 'h5py', 'omegaconf', 'benchkit.datasets'} & set(sys.modules)))"
    )
    root = Path(building.__file__).parent.parent.parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "[]"
