"""Recordings of real jobs explained: values known by construction, hostile and broken files, and real dumps."""

import gzip
import json
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from course_app import cli, recordings
from course_app.recordings import report as reports_module
from course_app.recordings import untrusted_file
from course_chapters.ch14.exercises.judges import blame_the_rank
from course_lib.folders import ROOT
from course_lib.messages import Trouble
from course_lib.operate.faults import who_hangs
from tests.tables import each_of

GiB = 2**30


def said(report: recordings.Report) -> str:
    return "\n".join([each.what for each in report.findings] + report.notes)


def course(capsys: pytest.CaptureFixture, *arguments: object) -> tuple[int, str, str]:
    code = cli.run(["explain", *map(str, arguments)])
    return code, *capsys.readouterr()


class Calls:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch hostile-was-here",)


@each_of("protocol", [2, 3, 4, 5])
def test_a_pickle_is_read_as_pickle_reads_it_or_refused_before_it_imports_something(protocol):
    plain = {"a": [1, -3, 2**70, 2.5, "x" * 300, None, True, (), (1, 2), (1, 2, 3, 4), {}, []], 7: {"b": ["s"] * 3}}
    assert recordings.unpickled(pickle.dumps(plain, protocol=protocol)) == plain
    for hostile in (Calls(), each_of, Path("a"), [{"segments": Calls()}]):
        with pytest.raises(Trouble, match="It was not loaded"):
            recordings.unpickled(pickle.dumps(hostile, protocol=protocol))
    assert not Path("hostile-was-here").exists()


BAD = [
    ("empty.json", b"", "is empty"),
    ("zeros", bytes(4096), "is empty"),
    ("truncated.pickle", pickle.dumps({"segments": [{"device": 0}]})[:-9], "ends early or is damaged"),
    ("two_gigabytes.pickle", b"\x80\x04\x8d" + (2**31).to_bytes(8, "little") + b"abc.", "ends early or is damaged"),
    ("hostile.pickle", pickle.dumps({"entries": Calls()}), "imports posix.system"),
    ("key.pickle", b"\x80\x04}](K\x01es.", "ends early or is damaged"),
    ("marks.pickle", b"\x80\x04" + b"(" * 5000 + b".", "longer or deeper"),
    ("other.pickle", pickle.dumps({"model": [1, 2]}), "another kind (keys model)"),
    ("deep.json", b'{"traceEvents":' + b"[" * 200_000, "nested too deeply"),
    ("cut.json", b'{"traceEvents": [{"ph": "X", "na', "ends in the middle"),
    ("wrong.json", b'{"traceEvents": [{"ph": }]}', "is no valid JSON"),
    ("digits.json", b'{"traceEvents": [' + b"9" * 5000 + b"]}", "is no valid JSON"),
    ("other.json", b'{"weights": 3}', "another kind (keys weights)"),
    ("no_kernel.json", b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}]}', "none of them a GPU kernel"),
    ("nan.json", b'{"traceEvents": [{"ph":"X","cat":"kernel","name":"k","ts":NaN,"dur":-1}]}', "0 usable events"),
    ("no_list.json", b'{"traceEvents": 5}', "int, not a list"),
    ("version_3.json", b'{"version": "3.1", "entries": [], "pg_config": {}}', "version 3.1"),
    ("none.pickle", pickle.dumps({"segments": []}), "has no segment"),
    ("cut.json.gz", gzip.compress(b'{"traceEvents": []}' * 99)[:-12], "ends early or is damaged"),
    ("bomb.json.gz", gzip.compress(bytes(2**21), 9), "unpacks to more"),
    ("archive.pt", b"PK\x03\x04" + bytes(99), "is a zip archive"),
    ("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(range(32)) * 9, "is binary"),
]


def test_each_bad_file_gets_a_sentence_and_the_others_their_report(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted_file, "MOST_BYTES", 2**20)
    for name, content, _ in BAD:
        (tmp_path / name).write_bytes(content)
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(2**31)
    (tmp_path / "good.log").write_text("ValueError: bad batch 17\n")
    code, out, err = course(capsys, tmp_path)
    assert code == 1 and "The job failed first: ValueError: bad batch 17" in out and "Traceback" not in err
    for name, _, words in [*BAD, ("large.json", b"", "has 2.1 GB")]:
        (line,) = [line for line in err.splitlines() if f"{os.sep}{name} " in line]
        assert words in line, line
    assert err.count("Way out: ") == len(BAD) + 1
    assert not Path("hostile-was-here").exists()


def test_what_is_no_file_or_has_no_end_is_refused(capsys, tmp_path, monkeypatch):
    assert "is not there" in course(capsys, tmp_path / "none")[2]
    assert "no files directly in it" in course(capsys, tmp_path)[2]
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in course(capsys, tmp_path / "pipe")[2]
    monkeypatch.setattr(reports_module, "MOST_ITEMS", 1000)
    with pytest.raises(Trouble, match="too many entries"):
        recordings.explain_snapshots({"s": {"segments": [{"blocks": [{"size": 1}] * 30}] * 99}})


def frames(file: str, name: str, line: int) -> list[dict[str, object]]:
    """A stack: a frame of torch's, and the line of train.py that called it."""
    torch = {"filename": f"/x/site-packages/torch/{file}", "name": name, "line": 1}
    return [torch, {"filename": "/home/me/train.py", "name": "main", "line": line}]


def call(
    rank: int, number: int, name: str = "nccl:all_reduce", *, at: float = 0.0, **more: object
) -> dict[str, object]:
    """One entry as FlightRecorder writes it; `at` in seconds."""
    entry = {"process_group": ("0", "default_pg"), "collective_seq_id": number, "p2p_seq_id": 0, "op_id": number}
    entry |= {"profiling_name": name, "input_sizes": [[8]], "output_sizes": [[8]], "state": "completed"}
    entry |= {"time_created_ns": int(at * 1e9), "is_p2p": False, "retired": True, "timeout_ms": 600000}
    return entry | {"frames": frames("distributed/distributed_c10d.py", "all_reduce", 40 + rank)} | more


def dumps(*ranks: Sequence[dict[str, object]], **groups: str) -> dict[str, dict[str, object]]:
    config = {name: {"name": name, "desc": "", "ranks": members} for name, members in groups.items()}
    config["0"] = {"name": "0", "desc": "default_pg", "ranks": str(list(range(len(ranks))))}
    same = {"version": "2.10", "pg_config": config}
    return {f"nccl_trace_rank_{rank}": {**same, "entries": list(entries)} for rank, entries in enumerate(ranks)}


PAIRS = {"1": "[0, 1]", "2": "[0, 1]"}
OPEN = {"state": "started", "retired": False}
ABSENT = [[call(r, 1), *([call(r, 2, **OPEN)] if r != 1 else [])] for r in range(3)]
OTHER = [[call(r, 1, "nccl:broadcast" if r == 2 else "nccl:all_reduce", **OPEN)] for r in range(3)]
CROSSED = [[call(r, 1, process_group=("12"[r], ["tp", "dp"][r]), **OPEN)] for r in range(2)]
SEND = call(0, 0, "nccl:send 0->1", is_p2p=True, **OPEN)
HANGS = {  # the dumps, the ranks to blame, words of the report
    "missing": (dumps(*ABSENT), [1], "waits in no call: look there first. Its last call is all_reduce"),
    "different": (dumps(*OTHER), [2], "rank 2 called broadcast of 8 elements"),
    "order": (dumps(*CROSSED, **PAIRS), [0, 1], "ranks 0 and 1 entered their groups in different orders"),
    "stuck": (dumps([call(0, 5, **OPEN)], [call(1, 5, **OPEN)]), [], "Every rank of the group is in the call"),
    "missing ": (dumps([SEND], [call(1, 1)]), [1], "rank 1 (message at train.py:40), rank 0 waits for rank 1"),
}


@each_of("kind", HANGS)
def test_a_hang_is_told_by_kind_and_rank(kind):
    files, ranks, words = HANGS[kind]
    report = recordings.explain_dumps(files)
    assert report.numbers["hang"] == {"kind": kind.strip(), "ranks": ranks} and words in said(report)
    again = recordings.explain_dumps(json.loads(json.dumps(files)))  # the JSON form has lists for tuples
    assert again.numbers == report.numbers and said(again) == said(report)


def test_who_hangs_agrees_with_the_worked_answer():
    for seed in range(3):
        for name, (groups, records) in blame_the_rank._hangs(random.Random(seed), 6).items():
            assert who_hangs(groups, records) == blame_the_rank.right(groups, records), name


def test_coalesced_calls_old_calls_and_single_dumps_blame_nobody():
    parts = [call(0, 7, "nccl:all_gather", op_id=at, **OPEN) for at in (1, 2)]
    assert recordings.explain_dumps(dumps(parts, parts)).numbers["hang"]["kind"] == "stuck"
    gloo = [call(0, at, "gloo:all_reduce", state="scheduled") for at in range(1, 9)]
    report = recordings.explain_dumps(dumps(gloo, gloo[4:]))
    assert not report.numbers["waits"] and "has finished" in said(report)
    report = recordings.explain_dumps(dict(list(HANGS["missing"][0].items())[:1]))
    assert "There is no dump of ranks 1 and 2" in said(report) and "hang" not in report.numbers


@each_of("skew, timed, slow", [(0.0, False, 2), (1.0, True, 2), (1.0, False, None)])
def test_the_slow_rank_is_told_with_its_ratio_unless_clocks_hide_it(skew, timed, slow):
    own, step = [0.1, 0.1, 0.2], 0.2  # s before each call; it ends when its last rank is there
    more = [{"duration_ms": 1e3 * (step - each)} if timed else {} for each in own]
    ranks = [[call(r, at, at=at * step + own[r] + skew * r, **more[r]) for at in range(12)] for r in range(3)]
    report = recordings.explain_dumps(dumps(*ranks))
    assert report.numbers.get("slow") == (slow and {"rank": slow, "ratio": pytest.approx(2.0)})
    assert ("clocks differ" in said(report)) is (slow is None)


def event(name: str, start: float, end: float, cat: str = "kernel", tid: int = 7) -> dict[str, object]:
    """A complete event; times in seconds."""
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": tid, "ts": start * 1e6, "dur": (end - start) * 1e6}


def step_events(at: float = 0.0, compute: float = 0.040) -> list[dict[str, object]]:
    """A step of 80 ms: computing from 0 s, communication from 30 ms to 60 ms."""
    talk = event("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", at + 0.030, at + 0.060)
    name = f"ProfilerStep#{round(at / 0.08)}"  # marked on both streams
    marks = [event(name, at, at + 0.080, "gpu_user_annotation"), event(name, at, at + 0.060, "gpu_user_annotation", 20)]
    return [marks[0], event("gemm", at, at + compute), talk, marks[1]]


def test_exposed_hidden_and_idle_time_are_those_of_the_construction():
    events = [*step_events(), *step_events(0.080)]
    report = recordings.explain_traces({"rank0.json": {"traceEvents": events, "distributedInfo": {"rank": 3}}})
    wanted = {"step": 0.080, "compute": 0.040, "exposed": 0.020, "hidden": 0.010, "idle": 0.020}
    assert report.numbers["seconds_per_step"] == {3: pytest.approx(wanted, abs=1e-6)}
    assert "10 ms are hidden behind computing and 20 ms exposed (25 % of the time)" in said(report)
    pair = [{**events[1], "ph": "B"}, {"ph": "E", "pid": 0, "tid": 7, "ts": events[1]["ts"] + events[1]["dur"]}]
    bad = [{**event("gemm", 0, 1), "ts": value} for value in (float("nan"), "1", None, 10**400)]
    bad.append({**event("gemm", 0, 1), "dur": -5.0})
    again = recordings.explain_traces({"a.json": [*bad, *pair, events[0], *events[2:]]})
    assert again.numbers["seconds_per_step"] == {0: pytest.approx(wanted, abs=1e-6)}
    assert "5 events left out" in said(again)


def test_on_a_cpu_operations_with_only_operations_inside_compute():
    events = [
        event("aten::linear", 0.0, 0.5, "cpu_op"),  # of a DTensor: it waits for a collective
        event("c10d::wait", 0.1, 0.2, "cpu_op"),
        event("aten::addmm", 0.3, 0.5, "cpu_op"),
        event("aten::copy_", 0.31, 0.32, "cpu_op"),
        event("gloo:all_reduce", 0.1, 0.4, "user_annotation", tid=8),
    ]
    (parts,) = recordings.explain_traces({"a": events}).numbers["seconds_per_step"].values()
    assert (parts["compute"], parts["exposed"], parts["hidden"]) == pytest.approx((0.2, 0.2, 0.1))


@each_of("compute, slow", [((0.04, 0.04, 0.06), 2), ((0.04, 0.04, 0.041), None)])
def test_the_slow_rank_of_traces_is_the_one_whose_own_work_is_long(compute, slow):
    traces = {}
    for rank, seconds in enumerate(compute):
        steps = [step_events(0.08 * at, seconds) for at in range(4)]
        for step in steps:  # the others wait in the collective, so that none is idle
            step[2]["dur"] = step[0]["ts"] + 80e3 - step[2]["ts"]
        traces[f"rank{rank}.json"] = [each for step in steps for each in step]
    report = recordings.explain_traces(traces)
    assert report.numbers.get("slow", {}).get("rank") == slow
    assert slow is None or report.numbers["slow"]["ratio"] == pytest.approx(1.5)


def test_a_snapshot_is_told_by_role_line_peak_and_failure():
    held = [(4, "nn/linear.py", "__init__"), (8, "optim/adamw.py", "step"), (2, "nn/functional.py", "forward")]
    blocks = [{"size": n * GiB, "state": "active_allocated", "frames": frames(*at, 10 + n)} for n, *at in held]
    blocks.append({"size": 6 * GiB, "state": "inactive", "frames": []})
    trace = [{"action": kind, "size": 3 * GiB, "addr": 1} for kind in ("alloc", "free_requested", "free_completed")]
    trace.append({"action": "oom", "size": 7 * GiB, "device_free": GiB, "frames": frames("a", "b", 3)})
    segment = {"device": 1, "total_size": 20 * GiB, "blocks": blocks}
    report = recordings.explain_snapshots({"s": {"segments": [segment], "device_traces": [[], trace]}})
    numbers = report.numbers["GPU 1"]
    assert (numbers["in_use"], numbers["reserved"], numbers["peak"]) == (14 * GiB, 20 * GiB, 17 * GiB)
    assert numbers["by_role"] == {"optimizer state": 8 * GiB, "weights": 4 * GiB, "activations": 2 * GiB}
    assert (numbers["largest_free"], numbers["failed"]) == (6 * GiB, [7 * GiB])
    assert "train.py:18 8.59 GB (57 %)" in said(report) and "fragmented allocator" in [f.fault for f in report.findings]
    growing = [{"action": kind, "size": size} for kind, size in (("alloc", 100), ("alloc", 9), ("free_completed", 9))]
    segment = {"total_size": 4000, "blocks": [{"size": 4000, "state": "active_allocated"}]}
    report = recordings.explain_snapshots({"s": {"segments": [segment], "device_traces": [growing * 20]}})
    assert "graph kept" in [each.fault for each in report.findings]


WATCHDOG = (
    "[rank{0}]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={1}, OpType={2}, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600060 milliseconds before "
    "timing out."
)
OUT_OF_MEMORY = (
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 3 has a total capacity of "
    "79.25 GiB of which 1.50 GiB is free. Including non-PyTorch memory, this process has 77.75 GiB memory in use. Of "
    "the allocated memory 60.00 GiB is allocated by PyTorch, and 16.00 GiB is reserved by PyTorch but unallocated."
)
OLDER = (
    "Tried to allocate 2.00 GiB (GPU 0; 6.00 GiB total capacity; 781.59 MiB already allocated; 1.00 GiB free; 1.24 GiB"
)
ENDED = "slurmstepd: error: *** {} ON n7 CANCELLED AT 2026-11-27T19:35:36 {}***"
LOGS = [
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some", "a process of step 4711.0 was killed"),
    (
        "slurmstepd: error: Detected 2 oom-kill event(s) in step 37.batch cgroup.",
        "a process of step 37.batch was killed",
    ),
    ("srun: error: n3: task 6: Out Of Memory", "The first end that srun reports: n3: task 6: Out Of Memory."),
    (ENDED.format("JOB 12", "DUE TO TIME LIMIT "), "at its time limit (2026-11-27T19:35:36)"),
    (ENDED.format("STEP 12.0", "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS "), "A node failed"),
    (ENDED.format("STEP 12.0", ""), "was cancelled at 2026-11-27T19:35:36"),
    ("\n".join(WATCHDOG.format(r, 8, "ALLREDUCE") for r in (0, 1, 3)), "Rank 2 reported no timeout: look there first"),
    (
        "\n".join(WATCHDOG.format(r, 808 - (r == 1), "ALLGATHER" if r == 1 else "ALLREDUCE") for r in range(3)),
        "Not all were in the same call: rank 1 in ALLGATHER number 807",
    ),
    (
        OUT_OF_MEMORY,
        "Rank 3, GPU 3 is full: 4.29 GB were asked for, and 1.61 GB of 85.1 GB were free. PyTorch had 17.2",
    ),
    (OLDER, "GPU 0 is full: 2.15 GB were asked for, and 1.07 GB of 6.44 GB were free"),
    ("[1] NVRM: Xid (PCI:0000:4e:00): 79, pid=1, GPU has fallen off the bus.", "A GPU has a fault (79)"),
    ("node-0:12:40 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.4<0>", "uses TCP, not InfiniBand"),
    ("[rank0]: RuntimeError: Connection closed by peer\n[rank1]: ValueError: no", "Rank 1 failed first: ValueError"),
    (
        "[rank1]: ValueError: bad sample 17\n[rank0]: RuntimeError: Connection closed by peer\n"
        "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n"
        "  exitcode  : 1 (pid: 2396)\n  error_file: <N/A>\n=======",
        "Rank 1 failed first: ValueError: bad sample 17 (exit code 1)",
    ),
    ("step 1 loss 2.3\nstep 2 loss 2.2", "No known failure is in this text"),
    ('{"level": "error"}\n{"msg": "loss=nan"}', "The loss is nan"),
]


@each_of("text, words", LOGS)
def test_logs_are_told_in_a_sentence_with_their_numbers(text, words):
    assert words in said(recordings.explain_logs({"job.log": text}))


def test_json_and_page_say_the_same_and_the_page_needs_nothing_else(capsys, tmp_path):
    for name, dump in HANGS["missing"][0].items():
        (tmp_path / name).write_bytes(pickle.dumps(dump, protocol=2))
    (tmp_path / "t<b>.json").write_text(json.dumps({"traceEvents": step_events()}))
    code, out, _ = course(capsys, tmp_path, "--json", "--html", tmp_path / "page.html")
    reports = json.loads(out)["reports"]
    assert code == 0 and [each["kind"] for each in reports] == ["flight recorder", "trace"]
    page = (tmp_path / "page.html").read_text()
    assert page.count("<figure>") == 2 and "t&lt;b&gt;.json" in page and "src=http" not in page.replace('"', "")
    assert all(each["what"] in page for report in reports for each in report["findings"])
    assert "14 faults and checkpoints (course learn 14)." in course(capsys, *tmp_path.glob("nccl*"))[1]


PROGRAM = """
import datetime, os, sys, time, torch, torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.profiler import ProfilerActivity, profile, schedule
@record
def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank, out = dist.get_rank(), sys.argv[1]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(512, 512))
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=3)) as seen:
        for _ in range(5):
            model(torch.ones(64 * (1 + 15 * (rank == 1)), 512)).sum().backward()
            seen.step()
    seen.export_chrome_trace(f"{out}/rank{rank}.json.gz")
    if rank == 0:
        dist.all_reduce(torch.ones(3), async_op=True)
    for kind, dump in (("", "_dump_fr_trace"), (".json", "_dump_fr_trace_json")):
        with open(f"{out}/dump_{rank}{kind}", "wb") as file:
            file.write(getattr(torch._C._distributed_c10d, dump)())
    while len([name for name in os.listdir(out) if name.endswith(".json")]) < 2:
        time.sleep(0.05)
    if rank == 0:
        time.sleep(60)
    raise ValueError("bad batch 17")
main()
"""


@pytest.mark.slower
def test_real_dumps_traces_and_log_of_two_processes(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    more = {"TORCH_FR_BUFFER_SIZE": "2000", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command += ["--nproc-per-node", "2", str(tmp_path / "train.py"), str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **more})
    (tmp_path / "job.log").write_text(ended.stdout + ended.stderr)
    found = recordings.explain([*tmp_path.glob("dump_?"), *tmp_path.glob("rank*.gz"), tmp_path / "job.log"])
    assert not found.refused
    flight, trace, log = found.reports
    assert flight.numbers["hang"] == {"kind": "missing", "ranks": [1]} and "at train.py:" in said(flight)
    assert trace.numbers["steps"] == {0: 3, 1: 3} and trace.numbers["slow"]["rank"] == 1
    assert all(each["compute"] > 0 for each in trace.numbers["seconds_per_step"].values())
    assert log.numbers["root_cause"] == {"rank": 1, "exit_code": 1, "error": "ValueError: bad batch 17"}
    assert recordings.explain(tmp_path.glob("dump_?.json")).reports[0].numbers["hang"] == flight.numbers["hang"]
