"""The launch files as far as a machine without their clouds can check them: their form, and every flag they use."""

import importlib
import os
import re
import shlex
import subprocess

import yaml

from course_lib.folders import ROOT
from tests.tables import each_alone, each_of

CLOUD = ROOT / "course_runs/cloud"
SCRIPTS = sorted(CLOUD.glob("*.sbatch"))
COMMANDS = re.compile(r"-m course_runs\.(\w+)((?: [^\n|&;]+)?)")


def commands(text):
    joined = text.replace("\\\n", " ")
    return [
        (program, shlex.split(rest))
        for line in joined.splitlines()
        if not line.lstrip().startswith("#")
        for program, rest in COMMANDS.findall(line)
    ]


@each_of("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_a_shell_script_that_slurm_will_end(path):
    done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    options = dict(
        line.removeprefix("#SBATCH --").partition("=")[::2]
        for line in path.read_text().splitlines()
        if line.startswith("#SBATCH")
    )
    assert {"nodes", "gpus-per-node", "time", "ntasks-per-node", "output"} <= set(options)
    hours, minutes, _ = (int(part) for part in options["time"].split(":"))
    assert 0 < 60 * hours + minutes <= 60


@each_of("path", [*SCRIPTS, *sorted(CLOUD.glob("*.yaml"))], ids=lambda path: path.name)
def test_every_flag_is_one_that_the_program_takes(path):
    choice = "-m course_runs.torch_choice"  # it takes no flags
    found = commands(path.read_text(encoding="utf-8").replace(choice, ""))
    assert found
    for program, words in found:
        module = importlib.import_module(f"course_runs.{program}")
        given = module.arguments([re.sub(r"\$\{?\w+\}?", "1", word) for word in words])
        assert given.out


def test_torchruns_own_flags_exist():
    from torch.distributed.run import get_args_parser

    known = {flag for action in get_args_parser()._actions for flag in action.option_strings}
    for path in SCRIPTS:
        for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
            if "torch.distributed.run" in line and not line.startswith("#"):
                mine = line.split("torch.distributed.run", 1)[1].split(" -m ", 1)[0]
                assert set(re.findall(r"--[\w-]+", mine)) <= known


def test_the_layout_of_two_nodes_is_that_of_its_ranks():
    from course_runs import layouts

    text = (CLOUD / "two_nodes.sbatch").read_text(encoding="utf-8")
    (layout,) = re.findall(r"--layout (\S+)", text)
    nodes, each = (int(re.findall(rf"--{name} (\d+)", text)[0]) for name in ("nnodes", "nproc-per-node"))
    assert layouts.parse(layout, nodes * each).fsdp == each, "sharded inside a server, replicated across"


def test_the_cloud_file_has_the_fields_that_skypilot_knows_and_says_how_the_machine_ends():
    text = (CLOUD / "sky.yaml").read_text(encoding="utf-8")
    task = yaml.safe_load(text)
    assert set(task) <= {"name", "resources", "num_nodes", "workdir", "envs", "setup", "run", "file_mounts"}
    assert re.fullmatch(r"[A-Z]\w*:\d+", task["resources"]["accelerators"])
    assert "--down" in text


def test_a_spot_machine_that_is_taken_away_is_replaced_and_its_training_goes_on_from_a_bucket():
    task = yaml.safe_load((CLOUD / "sky_spot.yaml").read_text(encoding="utf-8"))
    assert task["resources"]["use_spot"] and task["resources"]["job_recovery"]["max_restarts_on_errors"] > 0
    ((mount, bucket),) = task["file_mounts"].items()
    assert bucket["name"] == "${BUCKET}" and "BUCKET" in task["envs"] and bucket["mode"] == "MOUNT"
    assert f"--out {mount}/" in task["run"] and goes_on(task["run"])


def goes_on(text):
    """Whether the training of a launch file is one that a second start finishes: the step it ends at, checkpoints,
    --resume."""
    ((_, words),) = [each for each in commands(text) if each[0] == "train"]
    return {"--until", "--save-every", "--resume", "--out"} <= set(words) and "--steps" not in words


def test_a_job_that_is_queued_again_keeps_its_log_and_hears_of_its_end_in_time():
    text = (CLOUD / "requeue.sbatch").read_text(encoding="utf-8")
    assert goes_on(text)
    for option in ("--requeue", "--open-mode=append", "--signal=TERM@180"):
        assert f"#SBATCH {option}\n" in text


SRUN = """#!/bin/bash
out=train-7
[ -z "$SAVES" ] || { mkdir -p $out/checkpoints/$SAVES && sleep 0.02 && echo '{}' > $out/checkpoints/$SAVES/complete; }
[ -z "$FINISHES" ] || echo '{}' > $out/run.json
exit $CODE
"""


@each_alone(
    "code, saves, finishes, restarts, requeued",
    (143, "00000100", "", "0", True),
    (1, "00000100", "", "9", True),
    (1, "00000100", "", "10", False),
    (1, "", "", "0", False),
    (0, "00002000", "yes", "0", False),
    (1, "00002000", "yes", "0", False),
    ids=["saved", "lost after a save", "too often", "nothing new", "done", "done, then torn down badly"],
)
def test_only_a_try_that_saved_something_new_is_queued_again(code, saves, finishes, restarts, requeued, tmp_path):
    for name, text in (("srun", SRUN), ("scontrol", '#!/bin/bash\necho "$@" > asked\n')):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    old = tmp_path / "train-7" / "checkpoints" / "00000001" / "complete"  # of an earlier try
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    os.utime(old, (1e9, 1e9))
    slurm = {
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_JOB_ID": "7",
        "SLURM_RESTART_COUNT": restarts,
        "SLURM_CPUS_PER_TASK": "32",
    }
    fake = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "CODE": str(code), "SAVES": saves, "FINISHES": finishes}
    done = subprocess.run(["bash", str(CLOUD / "requeue.sbatch")], env={**os.environ, **slurm, **fake}, check=False)
    assert done.returncode == code
    assert (tmp_path / "asked").exists() == requeued
    assert not requeued or (tmp_path / "asked").read_text() == "requeue 7\n"
