"""`./course run serve`: what it refuses, a load from end to end, and Ctrl-C."""

import asyncio
import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys

import httpx
import pytest

from course_lib.folders import ROOT
from course_lib.messages import Trouble
from course_lib.model import text
from course_runs import evidence, serve, serve_load, serve_model, verify
from course_runs.serving import load
from course_runs.serving.engine import Iteration, Limits
from tests.tables import each_alone

LIMIT = 120  # s; twenty times what a run here takes on an idle machine
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}


@each_alone(
    "words, says",
    ("--load -3", "--load has -3 requests per second"),
    ("--load 5,0", "--load has 0 requests"),
    ("--load nan", "--load has nan"),
    ("--load inf", "--load has inf"),
    ("--load fast", "--load is 'fast'"),
    ("--requests 0", "requests is 0"),
    ("--prompt 9-3", "prompt is 9 to 3 tokens"),
    ("--prompt many", "--prompt is 'many'"),
    ("--output 0-3", "output is 0"),
    ("--disconnect 30", "disconnect is 30.0"),
    ("--pages 0", "pages is 0"),
    ("--budget 4", "budget is 4 tokens an iteration, less than max_batch=16"),
    ("--port 99999", "--port is 99999"),
    ("--every 0", "--every is 0 s"),
    ("--device tpu", "no device 'tpu'"),
    ("--load 1 --prompt 300", "longest request has 380 tokens"),
    ("--load 1 --pages 4", "all pages together hold 64"),
)
def test_words_that_cannot_be_are_refused_before_anything_starts(words, says, capsys):
    assert serve.main(words.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("serve: ") and says in said and "Way out:" in said


def test_an_unknown_model_and_a_taken_port_are_refused(capsys):
    assert serve.main(["--model", "gpt-4"]) == 2
    assert "There is no model 'gpt-4' to serve" in capsys.readouterr().err

    async def taken():
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        async with server:
            given = serve.arguments(["--model", "1m", "--port", str(server.sockets[0].getsockname()[1])])
            with pytest.raises(Trouble, match="cannot be used: Address already in use"):
                await serve.serve(given)

    asyncio.run(taken())


def test_the_story_model_is_trained_once_and_the_same_afterwards(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(serve_model, "STEPS", 2)
    first = serve_model.load("story", folder=tmp_path)
    assert "learns the course's text, 2 steps" in capsys.readouterr().out
    again = serve_model.load("story", folder=tmp_path)
    assert not capsys.readouterr().out and len(list(tmp_path.iterdir())) == 1
    assert all((a == b).all() for a, b in zip(first.parameters(), again.parameters(), strict=True))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """One small run with load: what it said, its evidence and the gates of that."""
    folder = tmp_path_factory.mktemp("serve")
    flags = {
        "model": "1m", "load": "15,40", "requests": 10, "output": "4-8", "prompt": "8-24", "shared": 16, "max-batch": 2,
        "budget": 32, "disconnect": 0.2, "every": 1, "name": "run",
    }  # fmt: skip
    words = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = serve.main([*words, "--verify", "--out", str(folder)])
    assert code == 0, said.getvalue()
    return said.getvalue(), *verify.verified(folder / "run.json")


def test_a_run_predicts_each_rate_before_it_measures_it_and_prints_both(loaded):
    said, content, _ = loaded
    assert (
        said.index("an iteration takes")
        < said.index("predicted capacity")
        < said.index("15 requests/s, 10 requests; predicted")
    )
    table = said[said.index("requests/s      pred") :].splitlines()
    assert [line.split()[0] for line in table[1:3]] == ["15", "40"] and len(table[1].split()) == 15
    assert "without an answer: 0; pages in use: 0" in said and "Little's law at 15" in said
    right, total = map(int, re.search(r"(\d+) of (\d+) replies are those", said).groups())
    assert right == total == content["measured"]["rows"][0]["answered"]


def test_the_evidence_of_a_run_is_whole_and_follows_from_raw_times(loaded):
    _, content, gates = loaded
    assert gates and all(gate.ok for gate in gates), gates
    assert content["measured"]["clean"]
    assert sum(content["measured"]["outcomes"].values()) == content["measured"]["received"]
    assert len(content["raw"]["rows"]) == len(content["predicted"]["rows"]) == 2
    raw = content["raw"]["rows"][0]["requests"]
    raw[3]["times"] = [1 + time for time in raw[3]["times"]] or [1.0, 2.0]
    raw[4]["status"] = load.OK if raw[4]["status"] != load.OK else load.CUT
    assert not all(gate.ok for gate in verify.gates(content))


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent as a signal")
def test_ctrl_c_finishes_what_was_accepted(tmp_path):
    words = ["--model", "1m", "--port", "0", "--max-batch", "1", "--budget", "8", "--grace", str(LIMIT)]
    process = subprocess.Popen(
        [sys.executable, "-m", "course_runs.serve", *words], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        url = re.search(r"http://\S+/v1", process.stdout.readline()).group()
        ask = {"model": "1m", "prompt": "Ada", "max_tokens": 40, "stream": True, "temperature": 0}
        with httpx.stream("POST", f"{url}/completions", json=ask, timeout=LIMIT, trust_env=False) as response:
            lines = response.iter_lines()
            assert next(lines).startswith("data: ")
            process.send_signal(signal.SIGINT)
            rest = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        assert rest[-1]["usage"]["completion_tokens"] == 40 and rest[-1]["choices"][0]["finish_reason"] == "length"
        said, _ = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "finishing 1 accepted requests" in said and "requests received: 1 (1 answered); without an answer: 0" in said


def test_the_load_is_in_evidence_kinds_and_a_plan_differs_from_rate_to_rate():
    assert "serving" in evidence.KINDS
    given = serve.arguments(["--load", "5", "--groups", "1"])
    first, second = (serve.plan(given, 5.0, number) for number in (0, 1))
    assert first[0].prompt[:32] != second[0].prompt[:32] and len(first) == 150


def test_warm_up_fits_any_server():
    for limits in (Limits(context=256), Limits(context=256, pages=3, max_batch=2, budget=2, queue=0)):
        rows = serve_load.warm_up(limits, 0)
        room = min(limits.context, limits.pages * limits.page_size)
        assert all(len(each.prompt) + each.max_tokens <= room for each in rows)
        assert set("".join(each.prompt for each in rows)) <= set(text.vocabulary())


def test_averages_weigh_iterations_by_their_seconds():
    rows = [(Iteration(0, 0, 1, 5, (), 1, 0, 4), 3.0), (Iteration(0, 0, 3, 5, (), 3, 2, 9), 1.0)]
    assert serve_load.use(rows) == {"batch": 1.5, "busy_requests": 8.0, "pages": 9, "seconds": 4.0}


def test_help_has_the_flags_and_examples(capsys):
    with pytest.raises(SystemExit, match="0"):
        serve.arguments(["--help"])
    said = capsys.readouterr().out
    assert "--disconnect" in said and "examples:\n  course run serve  " in said and "curl http://127.0.0.1:8000" in said
