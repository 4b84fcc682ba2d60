"""Ranks of one machine find each other whatever its name, its addresses and its environment are."""

import os
import shutil
import socket
import subprocess
import sys
import time

import pytest

from course_lib.folders import ROOT
from course_lib.messages import Trouble
from course_runs import launcher, preflight, process_group, torchrun, worker_start
from tests.patience import patience

LEFT = {
    "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "nowhere", "MASTER_PORT": "1", "PET_NNODES": "4",
    "TORCHELASTIC_RUN_ID": "x",
}  # fmt: skip
SWEEP = "collectives --kinds all_reduce --smallest 1e4 --largest 4e4 --seconds 0.05 --device cpu --nproc"


def odd_host(*commands):
    """A command line that runs shell commands on a host of its own: no network but loopback, and a name without an
    address."""
    return ["unshare", "--user", "--map-root-user", "--net", "--uts", "sh", "-ec", "; ".join(commands)]


@pytest.fixture(scope="module")
def namespaces():
    """Skip where this system lets nobody have a host name of one's own."""
    if not shutil.which("unshare") or subprocess.run(odd_host("hostname nowhere", "ip link set lo up")).returncode:
        pytest.skip("no namespaces of one's own here")


@pytest.mark.parametrize("commands", [(), ("ip address del 127.0.0.1/8 dev lo",)], ids=["IPv4", "IPv6 only"])
def test_ranks_meet_on_a_host_whose_name_has_no_address(namespaces, commands):
    run = f"exec {sys.executable} -P -m course_app run {SWEEP} 2"
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        odd_host("hostname nowhere", "ip link set lo up", *commands, run),
        capture_output=True,
        text=True,
        timeout=patience(200),  # torchrun's own way takes longer, and fails in the end
        cwd=ROOT,
        env={**os.environ, **LEFT, **proxies},
    )
    assert done.returncode == 0 and "all_reduce             40,000 B" in done.stdout, done.stdout + done.stderr
    assert "run: ignores LOCAL_RANK, MASTER_ADDR, MASTER_PORT, PET_NNODES, RANK, TORCHELASTIC_RUN_ID" in done.stdout


def test_one_process_does_not_wait_for_ranks_of_another_launcher(monkeypatch):
    for name, value in LEFT.items():
        monkeypatch.setenv(name, value)
    ended = torchrun.run("collectives", SWEEP.split()[1:-1], 1, timeout=patience(60), say=None)
    assert ended.ok, ended.lines


def test_the_doctor_sees_a_name_without_an_address_and_a_launchers_variables():
    named = preflight.name_line("nowhere", True)
    assert named.state == "warn" and "nowhere has no address" in named.found
    assert "--local-addr 127.0.0.1" in named.way_out and "/etc/hosts" in named.way_out
    assert preflight.name_line("here", False).state == "ok"
    left = preflight.launcher_line(launcher.left_over({"RANK": "0", "PET_NNODES": "2", "PATH": "/bin"}))
    assert (left.state, left.found) == ("warn", "PET_NNODES, RANK set by another launcher")
    assert preflight.launcher_line([]).state == "ok"


def test_the_search_for_a_name_takes_no_longer_than_it_may(monkeypatch):
    assert not launcher.unknown_name("localhost") and launcher.unknown_name("name without an address")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: time.sleep(patience(3)) or [])
    start = time.monotonic()
    assert launcher.unknown_name("slow", wait=0.1) and time.monotonic() - start < patience(2)


def test_a_rank_whose_others_never_come_is_told_in_words(monkeypatch, capsys):
    address = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "no such name", "MASTER_PORT": "1"}
    for name, value in address.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Trouble, match="Rank 1 of 2 did not meet the others at no such name:1") as trouble:
        process_group.join("cpu", "gloo", timeout=1.0)
    assert "--local-addr 127.0.0.1" in trouble.value.way_out
    assert "MASTER_ADDR=no such name has no address here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ending", "code", "said"), [("os.kill(os.getpid(), 9)", -9, "9 (SIGKILL)"), ("sys.exit(3)", 3, "")]
)
def test_a_failed_process_is_told_without_torchruns_traceback(ending, code, said, tmp_path, capsys):
    program = tmp_path / "fails.py"
    program.write_text(f"import os, sys, time\nif os.environ['RANK'] == '1':\n    {ending}\ntime.sleep(60)\n")
    kept = []

    def starter(*arguments, **more):
        kept.append(torchrun.run(*arguments, **more))
        return kept[0]

    assert worker_start.start(str(program), [], 2, worker_start.Limits(), starter=starter) == 1
    out, err = capsys.readouterr()
    assert not [word for word in ("Traceback", "ChildFailedError", "torchrun", "elastic") if word in out + err]
    assert said in err
    assert f"exitcode: {code}" in "\n".join(kept[0].lines), "who reads how a run ended finds the code of each process"
