"""Chapter 20's local SGD and DiLoCo: against plain loops in one process, the meter and real processes."""

import copy
import re
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.distributed.run import get_args_parser

from course_chapters.ch20 import diloco, diloco_run, job_files, nccl_settings, quorum, quorum_film
from course_chapters.ch20.diloco import CONFIG, WAYS, Plan
from course_lib.cluster import simulate
from course_lib.cluster.collectives import ring_cost
from course_lib.cluster.errors import Unfinished
from course_lib.messages import Trouble
from course_lib.model import text, training, transformer
from course_lib.model.optimizer import SGD, AdamW
from course_runs import evidence, nccl_variables
from course_runs.evidence_checks import verdict
from course_runs.real_ranks import launch
from tests.tables import each_of

SHORT = Plan(workers=3, inner=2, steps=6, batch=2)


def run(plan):
    return simulate(diloco.train, plan.workers, (plan, True), topology=diloco.SLOW)


def plain(plan):
    """DiLoCo without communication: the workers one after another, the formulas of the paper."""
    models = [transformer.build(CONFIG) for _ in range(plan.workers)]
    optimizers = [(AdamW if plan.adam else SGD)(list(model.parameters()), lr=plan.rate) for model in models]
    shared = [each.detach().clone() for each in models[0].parameters()]
    velocity = None
    for step in range(plan.steps):
        tokens, targets = text.batch(step, plan.workers * plan.batch, CONFIG.seq_len)
        for worker, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            rows = slice(worker * plan.batch, (worker + 1) * plan.batch)
            optimizer.zero_grad()
            training.accumulate(model, tokens[rows], targets[rows])
            optimizer.step()
        if (step + 1) % plan.inner == 0:
            own = [list(model.parameters()) for model in models]
            outer = [sum(s - m[i].detach() for m in own) / len(own) for i, s in enumerate(shared)]
            velocity = (
                outer if velocity is None else [plan.momentum * v + g for v, g in zip(velocity, outer, strict=True)]
            )
            ahead = [g + plan.momentum * v for g, v in zip(outer, velocity, strict=True)]
            shared = [s - plan.outer_rate * g for s, g in zip(shared, ahead, strict=True)]
            for parameters in own:
                for parameter, new in zip(parameters, shared, strict=True):
                    parameter.data.copy_(new)
    return torch.cat([each.flatten() for each in shared])


@each_of("plan", [SHORT, replace(SHORT, momentum=0.5, outer_rate=1.0), replace(SHORT, momentum=0.0, inner=3)])
def test_diloco_is_the_plain_loop_of_the_paper(plan):
    for worker in run(plan).results:
        torch.testing.assert_close(worker.shared[-1], plain(plan), atol=2e-6, rtol=1e-5)


def test_local_sgd_with_one_inner_step_is_the_synchronous_run():
    plan = replace(SHORT, inner=1, adam=False, rate=0.1, outer_rate=1.0, momentum=0.0)
    together, local = (run(each).results for each in (replace(plan, inner=0), plan))
    for one, other in zip(together, local, strict=True):
        torch.testing.assert_close(one.path[-1], other.shared[-1], atol=1e-6, rtol=1e-5)
        assert one.losses == pytest.approx(other.losses, abs=1e-6)


def test_fragments_send_as_many_numbers_in_turns():
    names = [name for name, _ in transformer.build(CONFIG).named_parameters()]
    assert {diloco.fragment_of(name, 2) for name in names if "blocks.1" in name} == {1}
    assert {diloco.fragment_of(name, 1) for name in names} == {0}
    whole, parts = (run(replace(SHORT, fragments=count)).results[0] for count in (1, 2))
    assert parts.sent == whole.sent and len(parts.drift) == 2 * len(whole.drift)


@each_of("way", list(WAYS))
def test_bytes_and_seconds_follow_from_the_formulas(way):
    plan = replace(WAYS[way], steps=20)
    found = simulate(diloco.train, 4, (plan,), topology=diloco.SLOW)
    numbers = sum(each.numel() for each in transformer.build(CONFIG).parameters())
    turns = plan.steps if not plan.inner else plan.steps // plan.inner
    assert found.results[0].sent == turns * numbers
    assert found.meter.bytes_sent[0] == pytest.approx(2 * 3 / 4 * 4 * turns * numbers, rel=1e-3)
    level = diloco.SLOW.levels[0]
    said = plan.steps * diloco.step_seconds(plan, 4 * numbers, level.latency, level.bandwidth)
    if plan.delay:  # the last exchange has no step to hide behind
        said += ring_cost(4 * numbers / plan.fragments, 4, level.latency, level.bandwidth).seconds
    assert found.seconds == pytest.approx(said, rel=0.01)


@pytest.mark.slower
@each_of("plan", [SHORT, replace(SHORT, inner=4, steps=8, fragments=2, delay=1, mix=0.5)])
def test_real_processes_train_as_metered_ranks_do(plan):
    real = launch(diloco.train, plan.workers, (plan,)).results
    for one, other in zip(real, run(plan).results, strict=True):
        assert one.losses == pytest.approx(other.losses, abs=1e-5) and one.held_out == pytest.approx(
            other.held_out, abs=1e-5
        )


@each_of(
    "wrong, why",
    [
        ({"inner": 7}, "whole rounds"),
        ({"workers": 0}, "workers is 0"),
        ({"fragments": 11}, "no turn of their own"),
        ({"delay": 10}, "before its next turn"),
        ({"mix": 1.5}, "mix is 1.5"),
    ],
)
def test_what_has_no_meaning_is_refused(wrong, why):
    with pytest.raises(ValueError, match=why):
        Plan(**wrong)


JOB = job_files.Job("pretrain", nodes=4, gpus=8, minutes=90, command="-m course_runs.train --size 1b")


def changed(*path, to):
    """The Job of `JOB` with one place changed, or without it where `to` is None."""
    found = copy.deepcopy(job_files.kubernetes(JOB))
    inner = found
    for step in path[:-1]:
        inner = inner[step]
    inner.pop(path[-1], None) if to is None else inner.update({path[-1]: to})
    return found


POD = ("spec", "template", "spec")


@each_of(
    "job, fault",
    [
        (changed("kind", to="Job"), None),
        (changed("spec", "completionmode", to="Indexed"), "no field of JobSpec"),
        (changed("spec", "template", to=None), "spec.template is missing"),
        (changed("spec", "completions", to="4"), "no integer"),
        (changed("spec", "parallelism", to=3), "wait for pods"),
        (changed("spec", "completionMode", to="NonIndexed"), "no number"),
        (changed("kind", to="CronJob"), "no batch/v1 Job"),
        (changed(*POD, "containers", to=None), "containers is missing"),
        (changed(*POD, "containers", to=[{"image": "x"}]), "name is missing"),
        (changed(*POD, "hostNetwork", to="yes"), "no boolean"),
    ],
)
def test_a_job_of_kubernetes_is_checked_against_the_schema(job, fault):
    faults = job_files.kubernetes_faults(job)
    assert (faults == []) == (fault is None) and (fault is None or any(fault in each for each in faults)), faults


@each_of("wrong, why", [({"name": "A b"}, "lower-case"), ({"nodes": 0}, "nodes is 0"), ({"command": " "}, "is empty")])
def test_a_job_without_meaning_is_refused(wrong, why):
    with pytest.raises(ValueError, match=why):
        replace(JOB, **wrong)


def test_torchrun_knows_every_flag_of_a_job_and_the_shell_the_script(tmp_path):
    known = {flag for action in get_args_parser()._actions for flag in action.option_strings}
    command = JOB.torchrun("0", "host")
    flags = re.findall(r"--[a-z-]+", command.partition(" -m course_runs")[0].partition("run ")[2])
    assert len(flags) == 5 and set(flags) <= known
    script = tmp_path / "job.sh"
    script.write_text(job_files.slurm(JOB))
    shell, *lines = job_files.slurm(JOB).splitlines()
    options = [line for line in lines if line.startswith("#SBATCH --")]
    assert shell == "#!/bin/bash" and lines[: len(options)] == options  # Slurm reads none below the first command
    assert {"#SBATCH --nodes=4", "#SBATCH --gpus-per-node=8", "#SBATCH --time=01:30:00"} <= set(options)
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0


def test_settings_are_named_once_and_left_overs_are_those_of_the_doctor():
    names = [name for name, _, _ in nccl_settings.SETTINGS]
    assert len(set(names)) == len(names)
    searched = {name: "1" for name, _, when in nccl_settings.SETTINGS if when == "search"}
    assert {each.partition("=")[0] for each in nccl_variables.left_over(searched)} >= set(nccl_variables.TUNED) & set(
        searched
    )


def test_a_real_run_leaves_evidence_that_agrees_and_forged_ones_do_not(tmp_path, capsys):
    words = ["--workers", "2", "--inner", "2", "--steps", "4", "--batch", "1", "--compare", "--out", str(tmp_path)]
    assert diloco_run.main(words) == 0
    (path,) = tmp_path.iterdir()
    sound = evidence.read(path)
    assert verdict(sound) == "claimed" and "held out" in capsys.readouterr().out
    assert diloco_run.main([*words[:-3], "--out", str(tmp_path / "alone")]) == 0
    (path,) = (tmp_path / "alone").iterdir()
    assert "largest_difference" in sound["measured"].keys() - evidence.read(path)["measured"].keys()

    def forged(part, name, value):
        return {**sound, part: {**sound[part], name: value}}

    losses = sound["raw"]["losses"]
    for false in (
        forged("measured", "last_loss", sound["measured"]["last_loss"] / 2),
        forged("measured", "sent_numbers", sound["measured"]["sent_numbers"] // 2),
        forged("raw", "losses", [losses[0], losses[1][:-1]]),
        forged("raw", "held_out", [2.0, 2.5]),
    ):
        assert verdict(false) == "contradicted"


@each_of(
    "words, code, said",
    [
        (["--dry"], 0, "4 workers"),
        (["--inner", "7"], 2, "whole rounds"),
        (["--workers", "0"], 2, "workers is 0"),
        (["--way", "synchronous", "--dry"], 0, "in every step"),
    ],
)
def test_the_command_says_what_it_would_do_or_why_not(words, code, said, capsys):
    assert diloco_run.main(words) == code
    out = capsys.readouterr()
    assert said in out.out + out.err


@pytest.mark.slower
def test_replicas_come_and_go_and_all_of_them_have_the_weights_of_the_replay():
    lives = [quorum.Life(), quorum.Life(dies=1), quorum.Life(), quorum.Life(joins=2)]
    rounds, weights = quorum.run(lives, steps=4)
    assert [(each.step, each.members, each.copying, each.lost, each.divisor) for each in rounds] == [
        (0, (0, 1, 2), (), (), 3),
        (1, (0, 1, 2), (), (1,), 3),
        (1, (0, 2), (), (), 2),
        (2, (0, 2, 3), (3,), (), 2),
        (3, (0, 2, 3), (), (), 3),
    ]
    assert [each.taken for each in rounds] == [True, False, True, True, True] and list(weights) == [0, 2, 3]
    wanted = quorum.replay(rounds)
    for found in weights.values():
        assert torch.equal(found, weights[0])
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-14)
    assert "divided: step 0 by 3, step 1 by 2, step 2 by 2." in quorum_film.draw_rounds(rounds, 4).alt
    assert "discarded" in quorum_film.draw_rounds(rounds, 2).alt
    with pytest.raises(Trouble, match="1 replica of at least 2"):
        quorum.run(lives[:2], steps=3, least=2)


@pytest.mark.parametrize(("marks", "votes", "words"), [("ab", "11", "differ in weights"), ("aa", "10", "failed")])
def test_a_quorum_stops_where_live_replicas_differ_or_cannot_average(monkeypatch, marks, votes, words):
    """Each replica has asked and voted; none is lost, so another round could not help."""
    monkeypatch.setattr(quorum._Coordinator, "_lives", lambda _, number: True)
    coordinator = quorum._Coordinator([quorum.Life(), quorum.Life()])
    coordinator.processes = {number: SimpleNamespace(is_alive=lambda: True) for number in range(2)}
    for number in range(2):
        coordinator.store.set(f"ask/{number}/0", f"0 {marks[number]}")
        coordinator.store.set(f"vote/0/{number}", votes[number])
    with pytest.raises(Trouble, match=words):
        coordinator.meet(step=0, number=0, least=1)


def test_a_quorum_of_all_takes_the_steps_of_data_parallelism():
    model = transformer.build(training.SMALL).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=quorum.RATE, momentum=quorum.MOMENTUM)
    rounds = [quorum.Round(step, (0, 1, 2), (), taken=True) for step in range(3)]
    for step in range(3):
        rows = [text.batch(step, quorum.BATCH, CONFIG.seq_len, seed=number) for number in range(3)]
        tokens, targets = (torch.cat(each) for each in zip(*rows, strict=True))
        optimizer.zero_grad()
        transformer.loss(model(tokens), targets).backward()
        optimizer.step()
    whole = torch.nn.utils.parameters_to_vector(model.parameters())
    torch.testing.assert_close(quorum.replay(rounds), whole.detach(), rtol=1e-4, atol=1e-7)  # the loss is in fp32


def test_a_run_that_takes_too_long_is_ended_in_words(monkeypatch, capsys):
    def late(*given, **named):
        raise Unfinished("late")

    monkeypatch.setattr(diloco_run, "launch", late)
    assert diloco_run.main([]) == 124 and "no evidence" in capsys.readouterr().err
