"""The shipped instances: what each says, where its data are looked for, and small copies in the real layouts."""

from __future__ import annotations

import importlib.util
import shutil
import tarfile
import threading
from functools import partial, wraps
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest
import tiny_sets
import torchvision

import benchkit
from benchkit.conf.build import build
from benchkit.conf.find import benchmark_names, find_benchmark
from benchkit.errors import UsageError
from benchkit.export.job import Job
from benchkit.store.outputs import Outputs

INSTANCES = [name for name in benchmark_names() if "obtain" in find_benchmark(name).layer.values]
COPIES = {  # builder of a small copy; items per split and classes that it has, counted by hand; root below the home
    "imagenette": (tiny_sets.imagenette, {"val": 6, "train": 6}, 2, "imagenette2-320"),
    "imagenet1k": (tiny_sets.imagenet, {"val": 6, "train": 6}, 2, "imagenet"),
    "cifar10": (tiny_sets.cifar10, {"test": 5, "train": 20}, 10, ""),
    "cifar100": (tiny_sets.cifar100, {"test": 3, "train": 6}, 100, ""),
    "flowers102": (tiny_sets.flowers102, {"test": 4, "train+val": 8}, 102, ""),
    "pets": (tiny_sets.pets, {"test": 3, "trainval": 6}, 3, ""),
    "dtd": (tiny_sets.dtd, {"test": 3, "train+val": 6}, 3, ""),
    "food101": (tiny_sets.food101, {"test": 3, "train": 4}, 2, ""),
    "cub200": (tiny_sets.cub200, {"test": 6, "train": 6}, 3, "CUB_200_2011"),
    "cars": (tiny_sets.cars, {"test": 3, "train": 4}, 3, ""),
    "eurosat": (tiny_sets.eurosat, {"test": 6, "train": 24}, 3, ""),
    "places365": (lambda root, m: tiny_sets.places365(root / "places365", m), {"val": 2, "train-standard": 3}, 2,
                  "places365"),
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home of data."""
    monkeypatch.setenv("BENCHKIT_DATA", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def fetch_data() -> ModuleType:
    path = Path(__file__).parents[1] / "scripts" / "fetch_parts" / "data.py"
    spec = importlib.util.spec_from_file_location("fetch_data", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", INSTANCES)
def test_says_what_it_is_and_how_to_get_it(name):
    said = find_benchmark(name).layer.values
    assert all(said[key].strip() for key in ("title", "obtain", "layout"))
    assert "http" in said["obtain"]
    assert "licen" in f"{said.get('licence', '')} {said['obtain']}".lower() or said["licence"]
    conf = build("color_histogram", name)
    assert (conf.title, conf.obtain, conf.layout) == (said["title"], said["obtain"], said["layout"])


@pytest.mark.parametrize("name", COPIES)
def test_without_data_it_says_how_to_get_them(name, home):
    with pytest.raises(UsageError) as caught:
        Job(build("color_histogram", name), Outputs(home), None)
    said = find_benchmark(name).layer.values
    message = str(caught.value)
    assert said["obtain"] in message
    assert said["layout"] in message
    assert "\n" not in message


@pytest.mark.parametrize("name", COPIES)
class TestCopy:
    """A dozen images in the real layout, found without data.root."""

    def test_is_found_where_it_is_looked_for(self, name, home, monkeypatch):
        make, _, _, below = COPIES[name]
        truth = make(home, monkeypatch)
        conf = build("color_histogram", name)
        assert Path(conf.data.settings.root) == home / below
        assert not conf.user_root  # the tag needs no folder's name
        job = Job(conf, Outputs(home.parent / "outputs"), None)
        assert job.tag == "color_histogram"
        if "" in truth:
            assert sorted([*job.test.items, *job.train.items]) == sorted(truth[""])
            return
        evaluated, *trained = (truth[s] for s in (conf.data.settings.split, *conf.data.settings.train_split.split("+")))
        assert job.test.items == sorted(evaluated)
        assert job.train.items == sorted(item for each in trained for item in each)
        labels = {item: job.dataset.classes[int(job.dataset.target(item)["label"])] for item in job.test.items}
        assert labels == evaluated

    def test_fetch_data_counts_it(self, name, home, monkeypatch, fetch_data, capsys):
        make, counts, classes, below = COPIES[name]
        make(home, monkeypatch)
        assert fetch_data.main([name]) == 0
        shown = ", ".join(f"{split} {count}" for split, count in counts.items())
        assert f"{name}: found; {home / below}: {shown} items, {classes} classes\n" in capsys.readouterr().out

    def test_fetch_data_misses_a_file(self, name, home, monkeypatch, fetch_data, capsys):
        make, counts, _, _ = COPIES[name]
        make(home, monkeypatch)
        if name in ("imagenette", "imagenet1k", "eurosat"):  # whatever lies there is what there is: a split, or all
            shutil.rmtree(next(p for p in home.rglob("*") if p.name in ("val", "2750")))
        elif name.startswith("cifar"):
            next(p for p in home.rglob("test*") if p.is_file()).unlink()
        else:
            next(iter(sorted(home.rglob("*.jpg")))).unlink()
        assert fetch_data.main([name]) == 1
        out = capsys.readouterr().out
        assert f"{name}: not as it should be; " in out
        assert find_benchmark(name).layer.values["layout"] in out
        if not name.startswith(("cifar", "imagenet", "eurosat")):
            assert f"1 of {sum(counts.values())} image files are missing, the first is {home}" in out

    def test_fetch_data_says_how_to_get_it(self, name, home, fetch_data, capsys):
        assert fetch_data.main([name]) == 1
        out = capsys.readouterr().out
        said = find_benchmark(name).layer.values
        assert f"{name}: absent; to obtain: " in out
        assert said["obtain"] in out
        assert said["licence"] in out
        assert len(out.splitlines()) == 2


def test_every_instance_of_this_family_has_a_copy_here():
    assert {name for name in INSTANCES if find_benchmark(name).family == "classification"} == set(COPIES)


def test_a_user_s_root_goes_first(home, tmp_path):
    tiny_sets.cub200(home)
    tiny_sets.cub200(tmp_path / "mine")
    root = tmp_path / "mine" / "CUB_200_2011"
    conf = build("color_histogram", "cub200", [f"data.root={root}"])
    assert conf.data.settings.root == str(root)
    assert conf.user_root


def test_another_data_set_gets_no_root(home):
    tiny_sets.cub200(home)
    assert build("color_histogram", "cub200", ["data.name=scenes"]).data.settings.root is None


def test_families_look_for_nothing(home):
    (home / "classification").mkdir()
    assert build("color_histogram", "classification").data.settings.root is None


def test_the_home_is_data_here_unless_said(home, monkeypatch):
    monkeypatch.delenv("BENCHKIT_DATA")
    tiny_sets.cub200(Path("data"))
    assert build("color_histogram", "cub200").data.settings.root == str(Path("data/CUB_200_2011"))


def test_moving_the_data_changes_no_tag(home, monkeypatch):
    tiny_sets.cub200(home)
    outputs = home.parent / "outputs"
    first = benchkit.run("color_histogram", "cub200", outputs=outputs, say=lambda _: None)
    assert first.record["tag"] == "color_histogram"
    assert first.record["data"]["overlaps"] == ["imagenet-1k"]
    home.rename(home.parent / "moved")
    monkeypatch.setenv("BENCHKIT_DATA", str(home.parent / "moved"))
    assert benchkit.run("color_histogram", "cub200", outputs=outputs, say=lambda _: None).record == first.record


class TestTrainSplit:
    """Pets name theirs trainval; heads that learn nothing have no use for it."""

    def job(self, home: Path, *arguments: str) -> Job:
        tiny_sets.pets(home)
        return Job(build("color_histogram", "pets", arguments), Outputs(home.parent / "outputs"), None)

    def test_a_head_that_learns_reads_it(self, home):
        job = self.job(home)
        assert job.train.name == "trainval"

    def test_a_head_that_learns_nothing_drops_it(self, home):
        job = self.job(home, "model.head.name=zeroshot")
        assert job.train is None
        assert job.conf.data.settings.train_split == "none"

    def test_a_user_who_names_it_is_told(self, home):
        for key in ("data.train_split", "benchmarks.pets.data.train_split"):
            with pytest.raises(UsageError, match=r"data\.train_split=trainval has no use"):
                self.job(home, "model.head.name=zeroshot", f"{key}=trainval")


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder without a word."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch):
    """A small CIFAR-10 behind an address, as the library expects it there."""
    known = torchvision.datasets.CIFAR10
    tiny_sets.cifar10(tmp_path / "there", monkeypatch)
    archive = tmp_path / "there" / known.filename
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "there" / known.base_folder, known.base_folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "there")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(known, "url", f"http://127.0.0.1:{server.server_port}/{known.filename}")
    monkeypatch.setattr(known, "tgz_md5", tiny_sets.md5(archive))
    yield archive
    server.shutdown()
    server.server_close()


class TestDownload:
    def test_what_may_be_downloaded(self, served, home, fetch_data, capsys):
        assert fetch_data.main(["cifar10"]) == 1
        assert "bash scripts/fetch_data cifar10 --download" in capsys.readouterr().out
        assert not list(home.iterdir())
        assert fetch_data.main(["cifar10", "--download"]) == 0
        assert "cifar10: found" in capsys.readouterr().out
        assert fetch_data.main(["cifar10"]) == 0

    def test_another_checksum(self, served, home, fetch_data, capsys):
        served.write_bytes(served.read_bytes() + b"\0")
        assert fetch_data.main(["cifar10", "--download"]) == 1
        out = capsys.readouterr().out
        assert "cifar10: absent; the download failed (RuntimeError: File not found or corrupted.)" in out
        assert not (home / "cifar-10-batches-py").exists()

    def test_no_network(self, home, monkeypatch, fetch_data, capsys):
        for known in (torchvision.datasets.CIFAR10, torchvision.datasets.CIFAR100):
            monkeypatch.setattr(known, "url", "http://127.0.0.1:9/x.tar.gz")
        assert fetch_data.main(["cifar10", "cifar100", "--download"]) == 1
        lines = capsys.readouterr().out.splitlines()
        failed = [line for line in lines if "the download failed" in line]
        assert [line.split(":")[0] for line in failed] == ["cifar10", "cifar100"]
        assert lines[-1] == f"0 of 2 found below {home}"

    def test_what_may_not(self, home, fetch_data, capsys):
        assert fetch_data.main(["imagenet1k", "cub200", "cars", "places365", "--download"]) == 1
        assert capsys.readouterr().out.count("it is to be got by hand") == 4

    @pytest.mark.parametrize("name", [n for n in COPIES if "download" in find_benchmark(n).layer.values])
    def test_the_library_has_a_downloader(self, name, home, monkeypatch, fetch_data):
        """Its class takes exactly what the instance says, and lays the data where they are looked for."""
        said = find_benchmark(name).layer.values["download"]
        known, calls = getattr(torchvision.datasets, said["dataset"]), []
        COPIES[name][0](home, monkeypatch)
        plain = known.__init__

        @wraps(plain)  # so that it takes what the library's own takes
        def init(self, root, **how):
            calls.append(how.pop("download"))
            plain(self, root, **how)  # raises where an argument or the place is another

        monkeypatch.setattr(known, "__init__", init)
        monkeypatch.setattr(fetch_data, "look", lambda _: (fetch_data.ABSENT, ""))
        problem = fetch_data.fetch(find_benchmark(name))
        assert problem == ""
        splits = [s for split in COPIES[name][1] for s in split.split("+")]
        assert calls == [True] * (1 if name == "eurosat" else len(splits))


def test_an_unknown_instance(fetch_data, capsys):
    with pytest.raises(SystemExit) as caught:
        fetch_data.main(["cifar11"])
    assert caught.value.code == 2
    assert "cifar10" in capsys.readouterr().err
