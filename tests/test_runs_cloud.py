"""The launch files as far as a machine without their clouds can check them: their form, and every flag they use."""

import importlib
import re
import shlex
import subprocess

import pytest
import yaml

from course_lib.install import ROOT

CLOUD = ROOT / "course_lib/runs/cloud"
SCRIPTS = sorted(CLOUD.glob("*.sbatch"))
COMMANDS = re.compile(r"-m course_lib\.runs\.(\w+)((?: [^\n|&;]+)?)")


def commands(text):
    joined = text.replace("\\\n", " ")
    return [
        (program, shlex.split(rest))
        for line in joined.splitlines()
        if not line.lstrip().startswith("#")
        for program, rest in COMMANDS.findall(line)
    ]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_a_shell_script_that_slurm_will_end(path):
    done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    options = dict(
        line.removeprefix("#SBATCH --").split("=", 1)
        for line in path.read_text().splitlines()
        if line.startswith("#SBATCH")
    )
    assert {"nodes", "gpus-per-node", "time", "ntasks-per-node", "output"} <= set(options)
    hours, minutes, _ = (int(part) for part in options["time"].split(":"))
    assert 0 < 60 * hours + minutes <= 60


@pytest.mark.parametrize("path", [*SCRIPTS, CLOUD / "sky.yaml"], ids=lambda path: path.name)
def test_every_flag_is_one_that_the_program_takes(path):
    found = commands(path.read_text(encoding="utf-8"))
    assert found
    for program, words in found:
        module = importlib.import_module(f"course_lib.runs.{program}")
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
    from course_lib.runs import layouts

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
