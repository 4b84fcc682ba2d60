"""`course meter`: torchrun scripts on metered ranks, and what is said of scripts that cannot run there."""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from bench.lab import free_port
from course_app import cli
from tests.tables import each_of

HERE = Path(__file__).parent
HEAD = "import os, sys, torch, torch.distributed as dist\nimport state\ndist.init_process_group('gloo')\n"
TRAIN = f"""{HEAD}
class Note:
    pass

rank = int(os.environ["RANK"])
state.rank, Note.rank = rank, rank
assert (dist.get_rank(), dist.get_world_size()) == (rank, int(os.environ["WORLD_SIZE"]))
assert int(os.environ["LOCAL_RANK"]) == rank % int(os.environ["LOCAL_WORLD_SIZE"])
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 32))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(int(sys.argv[sys.argv.index("--steps") + 1])):
    model(torch.randn(4, 32)).sum().backward()
    optimizer.step()
notes = [None] * dist.get_world_size()
dist.all_gather_object(notes, Note())
assert state.rank == rank and all(type(note) is Note for note in notes)
if __name__ == "__main__":
    print("done")
    sys.exit(0)
"""


def _meter(folder, script: str, *options: str) -> int:
    (folder / "state.py").write_text("rank = None\n", encoding="utf-8")
    (folder / "train.py").write_text(script, encoding="utf-8")
    arguments = [*options, str(folder / "train.py"), "--steps", "2"]
    return cli.run(["meter", *arguments])


def _process() -> tuple[object, ...]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return threading.active_count(), environment, sys.argv, list(sys.path), sys.modules["__main__"]


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    before = _process()
    yield
    assert _process() == before
    assert "state" not in sys.modules


def test_a_script_as_torchrun_takes_it(tmp_path, capsys):
    """Each rank has its environment, its `__main__` and its copy of the modules beside the script."""
    assert _meter(tmp_path, TRAIN, "--topology", "2x2xh100", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ranks"] == 4 and found["on"] == "2 x 2 H100 SXM" and found["output"].count("done") == 4
    assert sum(pair["bytes"] for pair in found["pairs"]) == sum(wire["bytes"] for wire in found["wires"].values())
    assert {(pair["from"], pair["to"]): pair["wire"] for pair in found["pairs"]}[1, 2] == "network"
    weights = 4 * (32 * 32 + 32)
    assert all(rank["peak_roles"]["parameters"] == weights for rank in found["by_rank"])
    ring = 2 * 2 * weights * 3 / 4  # of two steps, from rank 3, which neither broadcasts nor is first in a tree
    assert ring <= found["by_rank"][3]["sent"] <= ring + 4096  # and the objects
    assert found["seconds"] > 0 and not found["problem"] and not found["hazards"]


def test_its_text_and_page(tmp_path, capsys):
    """The report names wires, times and roles; the page has them with a timeline, and needs no other file."""
    assert _meter(tmp_path, TRAIN, "--ranks", "2", "--html", str(tmp_path / "run.html")) == 0
    said, page = capsys.readouterr().out, (tmp_path / "run.html").read_text(encoding="utf-8")
    assert all(
        word in said
        for word in ("2 metered ranks", "exposed", "parameters 4.22 kB", "0 -> 1", "train.py, line 15", "done")
    )
    assert "<img" in page and "exposed" in page and "http" not in page.replace("http://www.w3.org", "")


PROGRAMS = {  # each rewritten from what its documentation describes; with the line that sends most
    "toy_ddp": "loss.backward()",
    "gpt_ddp": "loss.backward()",
    "fsdp2": "loss.backward()",
    "pipeline": "schedule.step(x)",
}


def _losses(output: str) -> dict[str, float]:
    return {step: float(loss) for step, loss in re.findall(r"(rank \d step \d) loss (\S+)", output)}


@pytest.fixture(scope="module")
def under_torchrun(tmp_path_factory):
    """The losses of each program on two processes on gloo: all in one start, which takes longer than they do."""
    folder, scripts = tmp_path_factory.mktemp("torchrun"), [f"{HERE}/torchrun_programs/{name}.py" for name in PROGRAMS]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [f"{HERE}/programs_session.py", str(folder), *(f"{script}@{free_port()}" for script in scripts)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(command, check=True, timeout=480, env=environment)
    said = {name: [path.read_text(encoding="utf-8") for path in folder.glob(f"{name}.*")] for name in PROGRAMS}
    assert all(len(ranks) == 2 for ranks in said.values())
    return {name: _losses("".join(ranks)) for name, ranks in said.items()}


@pytest.mark.slower
@each_of("name", PROGRAMS)
def test_a_program_trains_as_under_torchrun(name, under_torchrun, capfd):
    """Unchanged, with the losses of two processes; and all bytes belong to lines of the script."""
    assert cli.run(["meter", "--json", f"{HERE}/torchrun_programs/{name}.py"]) == 0
    found = json.loads(capfd.readouterr().out)
    expected = under_torchrun[name]
    assert len(expected) >= 3 and _losses(found["output"]) == pytest.approx(expected, abs=2e-5)
    most = max(found["lines"], key=lambda line: line["bytes"])
    assert PROGRAMS[name] in most["line"] and most["line"].startswith(f"{name}.py, line ")
    assert sum(line["bytes"] for line in found["lines"]) == sum(rank["sent"] for rank in found["by_rank"])


WORKERS = """
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 2)), num_workers=1)
next(iter(data))
"""


@each_of(
    "script, words",
    ("dist.recv(torch.empty(2), 1 - dist.get_rank())", ("cycle: 0 → 1 → 0", "train.py, line 4")),
    ("dist.all_reduce(torch.ones(2 + dist.get_rank()))", ("shape differs", "rank 0", "rank 1", "line 4")),
    ("torch.ones(2).cuda()", ("take torch.device('cpu')", "line 4")),
    ("torch.cuda.set_device(int(os.environ['LOCAL_RANK']))", ("take torch.device('cpu')", "line 4")),
    (WORKERS, ("num_workers=0", "line 6")),
    ("torch.multiprocessing.spawn(print, nprocs=1)", ("leave starting ranks to torchrun",)),
    ("os.fork()", ("cannot fork",)),
    ("dist.init_process_group('mine')", ("the backend mine is not torch's own",)),
    ("while True: pass", ("longer than 1 s",)),
    ("sys.exit(3)", ("exit code 3",)),
    ("import no_such_module", ("No module named",)),
    ("if", ("invalid syntax",)),
)
def test_what_cannot_run_is_said(script, words):
    """One sentence with the line, exit code 1, and nothing is left."""
    said = StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(said), redirect_stderr(said):
        assert _meter(Path(folder), HEAD + script + "\n", "--ranks", "2", "--timeout", "1") == 1
    assert all(word in said.getvalue() for word in words), said.getvalue()


@each_of(
    "options, words",
    (("--topology", "2xh100xx"), "write it as in 2x4xh100"),
    (("--topology", "2x4xnothing"), "write it as in 2x4xh100"),
    (("--topology", "2x2xh100", "--ranks", "8"), "do not fit"),
)
def test_a_cluster_that_is_not_one(options, words):
    """A topology that cannot be read is refused with the form to write."""
    said = StringIO()
    with redirect_stderr(said):
        assert cli.run(["meter", *options, __file__]) == 1
    assert words in said.getvalue()
