"""Where steps are shown: a `wandb` and a TensorBoard that are not there keep what a real run on one process gives
them."""

import os
import signal
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch.distributed as dist

from course_lib.messages import Trouble
from course_runs import evidence, loggers, options, retrying, stepping, train
from course_runs.process_group import Place
from tests.tables import each_alone

WORDS = ["--device", "cpu", "--layout", "single", "--batch", "2", "--seq-len", "16"]


class FakeWandb(ModuleType):
    """The part of `wandb` that is used, with its parameters' names; keeps every run."""

    def __init__(self, failure=None):
        super().__init__("wandb")
        self.runs, self.failure = [], failure

    def init(self, project=None, dir=None, id=None, name=None, config=None, resume=None):
        if self.failure:
            raise self.failure
        run = SimpleNamespace(id=id or f"run{len(self.runs)}", rows=[], codes=[], asked={"resume": resume})
        run.asked |= {
            "project": project,
            "dir": dir,
            "name": name,
            "config": config,
            "mode": os.environ.get("WANDB_MODE"),
        }
        run.log = lambda data, step=None: run.rows.append((step, data))
        run.finish = lambda exit_code=None: run.codes.append(exit_code)
        self.runs.append(run)
        return run


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    module = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """Evidence of a short run, whose rates predict the others."""
    folder = tmp_path_factory.mktemp("known")
    assert train.main([*WORDS, "--steps", "2", "--out", str(folder), "--name", "known"]) == 0
    return folder / "known.json"


def run(folder, known, *words):
    return train.main([*WORDS, "--out", str(folder), "--rates", str(known), *words])


def test_wandb_gets_the_rows_of_the_evidence_and_nothing_without_the_flag(fake, known, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert run(tmp_path, known, "--steps", "2", "--name", "plain") == 0 and fake.runs == []
    before = signal.getsignal(signal.SIGTERM)
    assert run(tmp_path, known, "--steps", "4", "--name", "shown", "--wandb") == 0
    content, (shown,) = evidence.read(tmp_path / "shown.json"), fake.runs
    tokens = content["setup"]["tokens_per_step"]
    assert shown.rows == [
        (row["step"], {name: row[name] for name in loggers.LOGGED} | {"tokens_per_s": tokens / row["seconds"]})
        for row in content["raw"]["steps"]
    ]
    assert len(shown.rows) == 4 and shown.codes == [0] and signal.getsignal(signal.SIGTERM) == before
    assert shown.asked["config"] | {"rates": None} == content["setup"] | {"rates": None}
    assert (shown.asked["project"], shown.asked["name"], shown.asked["dir"], shown.asked["mode"]) == (
        "training-at-scale",
        "shown",
        str(tmp_path),
        "offline",
    )


def test_a_resumed_run_goes_on_in_the_same_chart_and_another_project_is_the_users(fake, known, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    assert run(tmp_path, known, "--steps", "2", "--save-every", "2", "--wandb") == 0
    assert run(tmp_path, known, "--steps", "1", "--resume", "--wandb") == 0
    first, second = fake.runs
    assert (first.asked["resume"], second.asked["resume"], first.id) == (None, "allow", second.id)
    assert first.asked["project"] == "mine" and [step for step, _ in first.rows + second.rows] == [0, 1, 2]


def test_tensorboard_gets_the_same_numbers(known, tmp_path, monkeypatch):
    written, closed = [], []

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, name, number, step):
            written.append((step, name, number))

        def close(self):
            closed.append(self.folder)

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    assert run(tmp_path, known, "--steps", "3", "--name", "shown", "--tensorboard") == 0
    rows = evidence.read(tmp_path / "shown.json")["raw"]["steps"]
    losses = [(step, number) for step, name, number in written if name == "loss"]
    assert losses == [(row["step"], row["loss"]) for row in rows] and len(written) == 3 * (len(loggers.LOGGED) + 1)
    assert closed == [f"{tmp_path}/tensorboard"]


def raises(error):
    def work():
        raise error

    return work


@each_alone(
    "strike, code",
    (raises(RuntimeError("out of memory")), 1),
    (raises(KeyboardInterrupt()), 130),
    (lambda: os.kill(os.getpid(), signal.SIGTERM), 143),
    ids=["error", "ctrl-c", "sigterm"],
)
def test_a_run_that_breaks_off_ends_on_the_board_with_what_it_had_logged(
    fake, known, tmp_path, monkeypatch, strike, code
):
    launch = stepping.Stepper.launch

    def struck(self, number, *more):
        if number == 2:
            strike()
        return launch(self, number, *more)

    monkeypatch.setattr(stepping.Stepper, "launch", struck)
    monkeypatch.setattr(train.Speaker, "due", lambda *_: True)
    with pytest.raises((RuntimeError, KeyboardInterrupt, SystemExit)):
        run(tmp_path, known, "--steps", "9", "--wandb")
    (shown,) = fake.runs
    assert [step for step, _ in shown.rows] == [0, 1] and shown.codes == [code]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL and not dist.is_initialized()


def test_a_run_stopped_by_sigterm_after_saving_ends_on_the_board_too(fake, known, tmp_path, monkeypatch):
    launch = stepping.Stepper.launch

    def struck(self, number, *more):
        if number == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return launch(self, number, *more)

    monkeypatch.setattr(stepping.Stepper, "launch", struck)
    assert run(tmp_path, known, "--steps", "9", "--save-every", "2", "--wandb") == retrying.SAVED
    assert [shown.codes for shown in fake.runs] == [[143]]


@pytest.mark.parametrize("left_over", [None, ModuleType("wandb")], ids=["missing", "a folder that runs left"])
def test_a_missing_package_is_named_before_anything_is_measured(left_over, known, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", left_over)
    assert run(tmp_path, known, "--steps", "1", "--wandb") == 2
    said = capsys.readouterr()
    assert "Weights & Biases is not installed here" in said.err and "pip install wandb" in said.err
    assert "predicted" not in said.out


def test_without_a_key_the_way_out_is_to_log_in_or_to_stay_offline(known, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", FakeWandb(RuntimeError("api_key not configured (no-tty)")))
    assert run(tmp_path, known, "--steps", "1", "--wandb") == 2
    said = capsys.readouterr().err
    assert "did not start: api_key not configured" in said and "WANDB_MODE=offline" in said


def test_a_run_that_is_refused_opens_no_board(fake, known, tmp_path):
    assert run(tmp_path, known, "--wandb", "--batch", "3", "--micro-batches", "2") == 2
    assert fake.runs == []


def test_other_ranks_open_nothing_and_hear_of_rank_0s_trouble(fake, monkeypatch, tmp_path):
    given, setup = options.arguments(["--wandb", "--out", str(tmp_path)]), {"layout": {"name": "ddp=2"}}
    other = Place(1, 2, 1, 2, "cpu", "gloo")
    monkeypatch.setattr(dist, "broadcast_object_list", lambda problem: problem.__setitem__(0, ""))
    board = loggers.Boards(given, other)
    board.begin(setup)
    board.log([dict.fromkeys(loggers.LOGGED, 1.0) | {"step": 0}], 8)
    board.close(0)
    assert fake.runs == [] and list(tmp_path.iterdir()) == []
    first = loggers.Boards(given, Place(0, 2, 0, 2, "cpu", "gloo"))
    first.begin(setup)
    first.close(0)
    assert [shown.asked["name"] for shown in fake.runs] == ["1m ddp=2"]
    monkeypatch.setattr(dist, "broadcast_object_list", lambda problem: problem.__setitem__(0, "no key"))
    with pytest.raises(Trouble, match="no key"):
        board.begin(setup)


def test_until_counts_the_steps_before_a_resume(known, tmp_path, capsys):
    assert run(tmp_path, known, "--until", "2", "--save-every", "2") == 0
    assert run(tmp_path, known, "--until", "5", "--resume", "--save-every", "5", "--name", "more") == 0
    assert [row["step"] for row in evidence.read(tmp_path / "more.json")["raw"]["steps"]] == [2, 3, 4]
    assert run(tmp_path, known, "--until", "5", "--resume") == 2
    assert "Step 5 was the last to train" in capsys.readouterr().err
