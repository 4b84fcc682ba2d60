"""The launch files under Slurm itself: a controller and two servers of its own on loopback, with eight GPUs each that
are not there."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from course_chapters.ch20 import job_files
from course_lib.folders import ROOT
from tests.tables import each_of

pytestmark = pytest.mark.slower

CLOUD = ROOT / "course_runs/cloud"
NODES = ("one", "two")
PATIENCE = 120.0  # s for what takes a few on a quiet machine
CONF = """ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
AuthInfo=socket={home}/munge.sock
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool.%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
MailProg=/bin/true
KillWait=1
SchedulerParameters=sched_interval=1
SlurmdParameters=config_overrides
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=64 RealMemory=4000 Gres=gpu:8
NodeName=two NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=64 RealMemory=4000 Gres=gpu:8
PartitionName=main Nodes=ALL Default=YES
"""


def ports(count):
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in opened]


def wait_for(what, true):
    end = time.monotonic() + PATIENCE
    while not (found := true()):
        assert time.monotonic() < end, what
        time.sleep(0.2)
    return found


class Slurm:
    """A cluster of two servers."""

    def __init__(self, home):
        self.home, self.environment = home, {**os.environ, "SLURM_CONF": str(home / "slurm.conf")}

    def ask(self, *command):
        done = subprocess.run(command, env=self.environment, cwd=self.home, capture_output=True, text=True, timeout=60)
        return (done.stdout + done.stderr).strip()

    def submit(self, script, **variables):
        said = subprocess.run(
            ["sbatch", "--parsable", str(script)],
            env={**self.environment, **variables},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert said.returncode == 0, said.stderr
        return said.stdout.strip()

    def end_jobs(self, user):
        """End what a failed test has left running or in the queue: it would outlive the daemons."""

        def ended():  # its script may be about to queue it again, as it does where it is told of its end
            self.ask("scancel", "--user", user)
            return not self.ask("squeue", "-h")

        wait_for("no jobs", ended)

    def state(self, job):
        return re.search(r"JobState=(\w+)", self.ask("scontrol", "show", "job", job))[1]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """The daemons, until the module's tests are over."""
    home, host = tmp_path_factory.mktemp("slurm"), socket.gethostname().split(".")[0]
    for name in ("state", *(f"spool.{node}" for node in NODES)):
        (home / name).mkdir()
    conf = home / "slurm.conf"
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    conf.write_text(CONF.format(host=host, user=user, home=home, ports=ports(3)))
    for number in range(8):
        (home / f"gpu{number}").touch()
    (home / "gres.conf").write_text(f"Name=gpu File={home}/gpu[0-7]\n")
    (home / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    key = home / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    munge = {"socket": "sock", "pid-file": "pid", "log-file": "log", "seed-file": "seed", "key-file": "key"}
    found = Slurm(home)
    with ExitStack() as stack:

        def daemon(*command):
            out = stack.enter_context(open(home / f"{command[0]}{command[-1].rpartition('/')[2]}.out", "w"))
            running = subprocess.Popen(command, env=found.environment, stdout=out, stderr=subprocess.STDOUT)
            stack.callback(running.wait, 30)
            stack.callback(running.terminate)

        daemon("munged", "--foreground", "--force", *(f"--{flag}={home}/munge.{end}" for flag, end in munge.items()))
        wait_for("munged", (home / "munge.sock").exists)
        daemon("slurmctld", "-D", "-f", str(conf))
        for node in NODES:
            daemon("slurmd", "-D", "-f", str(conf), "-N", node)
        stack.callback(found.end_jobs, user)
        wait_for("idle nodes", lambda: found.ask("sinfo", "-h", "-o", "%D %T") == f"{len(NODES)} idle")
        yield found


def test_slurm_is_installed():
    missing = [name for name in ("munged", "slurmctld", "slurmd", "sbatch", "srun") if shutil.which(name) is None]
    assert missing == [], "apt-get install slurmctld slurmd slurm-client munge"


@each_of("script", sorted(CLOUD.glob("*.sbatch")), ids=lambda path: path.name)
def test_slurm_takes_the_script_as_it_is(slurm, script):
    said = slurm.ask("sbatch", "--test-only", str(script))
    assert "to start at" in said, said


def test_slurm_takes_the_script_of_chapter_20_and_refuses_it_with_a_mistake(slurm):
    script, path = job_files.slurm(job_files.Job("pretrain", 2, 8, 30, "train.py")), slurm.home / "chapter-20.sbatch"
    path.write_text(script)
    said = slurm.ask("sbatch", "--test-only", str(path))
    assert "to start at" in said, said
    for right, wrong in ("--nodes=2", "--nodes=none"), ("--exclusive", "--whole-node"), ("--nodes=2", "--nodes=3"):
        path.write_text(script.replace(right, wrong))
        said = slurm.ask("sbatch", "--test-only", str(path))
        assert "to start at" not in said, wrong


PYTHON = """#!{python}
import os, pathlib, sys
saved = [int(path.parent.name) for path in pathlib.Path().glob("train-*/checkpoints/*/complete")]
last = max(saved) + 8 if saved else 200  # the first try has steps left when it is told of its end, the second a few
def own(word):
    return {{"8": "2", "1b": "1m", "2000": str(last), "100": "1000"}}.get(word, word)
words = [own(word) for word in sys.argv[1:]] + ["--device", "cpu", "--batch", "4"]
print("cores of the step:", os.environ.get("SLURM_CPUS_PER_TASK"), flush=True)
os.environ["PYTHONPATH"] = {root!r}
os.execv({python!r}, [{python!r}, *words])
"""


def test_a_training_that_is_told_of_its_end_saves_and_is_queued_again_and_finishes(slurm):
    python = slurm.home / "python"
    python.write_text(PYTHON.format(python=sys.executable, root=str(ROOT)))
    python.chmod(0o755)
    job = slurm.submit(CLOUD / "requeue.sbatch", COURSE_PYTHON=str(python), OMP_NUM_THREADS="1")
    out, log = slurm.home / f"train-{job}", slurm.home / f"train-{job}.log"

    def said():
        return log.read_text() if log.exists() else ""

    wait_for("some steps", lambda: re.search(r"step +([2-9]|\d\d+)/", said()))
    assert "cores of the step: 32" in said()
    slurm.ask("scancel", "--signal=TERM", job)  # to the steps and not to the script, as --signal=TERM@180 does
    wait_for("its place in the queue", lambda: slurm.state(job) == "PENDING")
    assert list(out.glob("checkpoints/*/complete"))
    slurm.ask("scontrol", "update", f"JobId={job}", "StartTime=now")
    wait_for("its end", lambda: slurm.state(job) in ("COMPLETED", "FAILED"))
    assert slurm.state(job) == "COMPLETED" and (out / "run.json").exists(), said()[-3000:]
