"""A cluster of one machine for tests: this file, linked as sbatch, srun, sacct, scontrol and scancel on PATH.

Jobs are background processes; what is known of them lies in $FAKE_SLURM. It knows what submitit uses: arrays, requeueing.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

HOME = Path(os.environ.get("FAKE_SLURM", "."))
ARRAY = 100  # number of the first job


def install(folder: Path) -> dict[str, str]:
    """The environment in which the commands are this file."""
    (folder / "bin").mkdir()
    for name in COMMANDS:
        script = folder / "bin" / name
        script.write_text(f"#!{sys.executable}\nimport sys, runpy\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
                          f"import fake_slurm\nsys.exit(fake_slurm.COMMANDS[{name!r}](sys.argv[1:]))\n")  # fmt: skip
        script.chmod(0o755)
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "FAKE_SLURM": str(folder)}


def sbatch(argv: list[str]) -> int:
    """Start every task of the array, or the only job; jobs are numbered on."""
    number = ARRAY + len(list(HOME.glob("*.sh")))
    script = HOME / f"{number}.sh"
    script.write_text(Path(argv[-1]).read_text())
    array = re.search(r"--array=0-(\d+)", script.read_text())
    for task in range(int(array[1]) + 1) if array else [None]:
        start(number, task)
    print(f"Submitted batch job {number}")
    return 0


def start(number: int, task: int | None) -> None:
    name = f"{number}" if task is None else f"{number}_{task}"
    own = {"SLURM_JOB_ID": str(number + 1000 * (task or 0)), "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "JOB": name}
    if task is not None:
        own |= {"SLURM_ARRAY_JOB_ID": str(number), "SLURM_ARRAY_TASK_ID": str(task)}
    process = subprocess.Popen(
        ["bash", HOME / f"{number}.sh"],
        env={**os.environ, **own},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    (HOME / f"{name}.pid").write_text(str(process.pid))
    with (HOME / f"{name}.starts").open("a") as starts:
        starts.write("started\n")


def srun(argv: list[str]) -> int:
    """The command, its output in the file that is asked for."""
    output = argv[argv.index("--output") + 1] if "--output" in argv else os.devnull
    job, _, task = os.environ["JOB"].partition("_")
    for sign, value in {"%A": job, "%a": task, "%j": os.environ["JOB"], "%t": "0"}.items():
        output = output.replace(sign, value)
    command = argv[next(n for n, word in enumerate(argv) if word.endswith(("python", "python3", "python3.11"))) :]
    with open(output, "a") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "SLURM_STEP_ID": "0"})
    (HOME / f"{os.environ['JOB']}.child").write_text(str(child.pid))
    return child.wait()


def sacct(argv: list[str]) -> int:
    """Running as long as its process lives."""
    print("JobID|State|NodeList")
    for path in sorted(HOME.glob("*.pid")):
        alive = Path(f"/proc/{path.read_text()}").exists()
        print(f"{path.stem}|{'RUNNING' if alive else 'COMPLETED'}|here")
    return 0


def scontrol(argv: list[str]) -> int:
    """requeue JOB."""
    number, _, task = argv[1].partition("_")
    start(int(number), int(task) if task else None)
    return 0


def scancel(argv: list[str]) -> int:
    """End a job at once."""
    for path in HOME.glob(f"{argv[0]}*.pid"):
        os.killpg(int(path.read_text()), signal.SIGKILL)
    return 0


COMMANDS = {f.__name__: f for f in (sbatch, srun, sacct, scontrol, scancel)}
