"""What sharding holds and sends: metered bytes by role and peaks equal the formulas, and what is freed is gone."""

import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest
import torch
from sharding_kit import SIZE, AdamW, account_here, assert_parity, mine, model_of, owned, train

from course_lib.cluster import Topology, simulate
from course_lib.estimate import memory
from course_lib.folders import ROOT
from course_lib.model.transformer import Config, build, loss
from course_lib.parallel.sharding import (
    FullySharded,
    MasterOptimizer,
    Row,
    Zero,
    bytes_per_param_sent,
    gathered_peak,
    hybrid_bytes,
    step_bytes,
    two_levels,
)
from tests.tables import each_of

BF16, SINGLE = torch.bfloat16, torch.float32
CONFIG = Config(layers=5, hidden=48, positions="learned")
ROLES = {"parameters": ("weights",), "gradients": ("grads", "main_grads"), "optimizer state": ("master", "moments")}


def cut(comm, stage, letter, config=CONFIG, **choices):
    """The model in a convention's dtypes, and its optimizer."""
    model = build(config)
    if letter != "D":
        model = model.to(BF16)
    if letter == "C":
        choices |= {"grad_dtype": SINGLE}
    elif letter == "D" and stage == 3:
        choices |= {"gather_dtype": BF16, "reduce_dtype": SINGLE}
    z = (
        FullySharded(comm, model, list(model.blocks), **choices)
        if stage == 3
        else Zero(comm, model, stage, 40_000, **choices)
    )
    return z, AdamW(list(z.shards())) if letter in "DF" else MasterOptimizer(z.shards(), AdamW)


def run_steps(comm, stage, letter, size=SIZE, config=CONFIG, **choices):
    """Bytes by role when gradients are there, the second step's peak, and the elements of the rows."""
    account = account_here()
    z, optimizer = cut(comm, stage, letter, config, **choices)
    for _ in range(2):
        account.reset_peak()
        tokens, targets = mine(comm, 0, config, size)
        error = loss(z(tokens), targets)
        error.backward()
        before = account.roles()
        z.finish()
        del error
        roles = before if stage == 1 else account.roles()
        peak, saved = account.peak_bytes, account.peak_roles()
        optimizer.step()
        z.zero_grad()
        if stage < 3:
            z.gather()
    return roles, peak, saved, [row.flat.elements for row in z.rows]


@pytest.mark.parametrize("ranks", [2, pytest.param(7, marks=pytest.mark.slower)])
@each_of("letter", ["B", "C", "D", "F"])
@each_of("stage", [1, 2, 3])
def test_state_by_role_is_that_of_the_convention_and_the_stage(stage, letter, ranks):
    for roles, _, _, rows in simulate(partial(run_steps, size=ranks), ranks, (stage, letter), account=True).results:
        want = memory.zero_by_bucket(sum(rows), stage, ranks, letter)
        padding = 16 * ranks * len(rows) + 8 * len(rows)  # of parts, and the optimizer's count of steps
        for role, buckets in ROLES.items():
            expected = sum(want.get(bucket, 0) for bucket in buckets)
            assert expected <= roles[role] <= expected + padding, role


def test_so_a_parameter_takes_4_and_12_over_n_then_2_and_14_over_n_then_16_over_n_bytes():
    for stage, per in ((1, 4 + 12 / 4), (2, 2 + 14 / 4), (3, 16 / 4)):
        roles, _, _, rows = simulate(run_steps, 4, (stage, "B"), account=True).results[0]
        assert sum(roles[role] for role in ROLES) / sum(rows) == pytest.approx(per, rel=0.01)


@each_of("ranks", [2, 4])
@each_of("prefetch", [0, 1, 2])
def test_at_the_peak_a_rank_holds_its_parts_the_units_at_work_and_one_units_gradients(ranks, prefetch):
    config = Config(layers=6, hidden=128, positions="learned", vocab=50, seq_len=8)
    run = simulate(partial(run_steps, size=ranks, config=config, prefetch=prefetch), ranks, (3, "B"), account=True)
    for roles, peak, at, rows in run.results:
        state = sum(roles[role] for role in ROLES)
        unit = max(rows) * 2
        gathered = gathered_peak(rows, ranks, 2, prefetch)
        # not all gradients are there yet
        here = state + at["gradients"] - roles["gradients"] + at["saved for backward"]
        extra = peak - here - gathered
        assert extra == pytest.approx(2 * unit, rel=0.1), (
            "the unit's gradients, and the buffer in which they are reduced"
        )
    whole = sum(rows) * 2
    assert gathered_peak(rows, ranks, 2, prefetch) < 0.6 * whole


def test_weights_kept_after_the_forward_pass_are_all_there_at_the_peak():
    config = Config(layers=8, hidden=128, positions="learned", vocab=50, seq_len=8)
    go, keep = (
        simulate(
            partial(run_steps, size=4, config=config, reshard_after_forward=each), 4, (3, "B"), account=True
        ).results[0]
        for each in (True, False)
    )
    rows = keep[3]
    more = gathered_peak(rows, 4, 2, kept=True) - gathered_peak(rows, 4, 2)
    assert keep[1] - go[1] == pytest.approx(more, rel=0.35) and gathered_peak(rows, 4, 2, kept=True) >= 2 * sum(rows)


@pytest.mark.parametrize("how", ["fully", "no prefetch", "kept", "small units"])
def test_nothing_looks_at_weights_that_are_freed(monkeypatch, how):
    """What is freed is overwritten first: whoever still looks at it, computes nonsense."""
    free, freed = Row.free, []

    def poisoned(row):
        if row.full is not None:
            freed.append(row.whole().fill_(float("nan")).numel())
        free(row)

    monkeypatch.setattr(Row, "free", poisoned)
    assert_parity(simulate(train, 2, (how, 3, torch.float64)).results[0], 3, torch.float64)
    assert len(freed) > 2 * 3 * 4  # on two ranks, in three steps, four units at the least


def test_gathered_weights_are_gone_outside_a_step_and_between_the_passes():
    def program(comm):
        account = account_here()
        z, _ = cut(comm, 3, "F")
        start = account.live_bytes
        tokens, targets = mine(comm, 0)
        error = loss(z(tokens), targets)
        between = [row.full is not None for row in z.rows]
        error.backward()
        z.finish()
        z.zero_grad()
        del error
        with torch.no_grad():
            z(tokens)
        end = account.live_bytes
        return start, between, end, hasattr(z.module.head, "weight")

    start, between, end, visible = simulate(program, 4, account=True).results[0]
    assert between == [True] + [False] * CONFIG.layers, "the root's, where the backward pass begins, and no other"
    assert end - start == 2 * SIZE * CONFIG.seq_len * 8 and not visible, "tokens and targets, and nothing else"


def test_a_stage_2_replica_never_holds_all_gradients():
    def program(comm, stage):
        account = account_here()
        z, _ = cut(comm, stage, "F")
        most = 0

        def look(_):
            nonlocal most
            most = max(most, account.roles()["gradients"])

        for each in z.names:
            each.register_post_accumulate_grad_hook(look)
        tokens, targets = mine(comm, 0)
        loss(z(tokens), targets).backward()
        z.finish()
        return most / sum(2 * row.flat.elements for row in z.rows)

    assert simulate(program, 8, (1,), account=True).results[0] == pytest.approx(1.0, abs=0.01)
    assert simulate(program, 8, (2,), account=True).results[0] < 0.4


# --- bytes sent


def one_step(comm, stage, letter, micro_batches=1, **choices):
    kept = choices.pop("kept", False)
    choices |= {"init_sync": False} if stage < 3 else {"reshard_after_forward": not kept}
    z, optimizer = cut(comm, stage, letter, **choices)
    for _ in range(micro_batches):
        tokens, targets = mine(comm, 0)
        loss(z(tokens), targets).backward()
    z.finish()
    optimizer.step()
    if stage < 3:
        z.gather()
    return [row.flat.elements for row in z.rows]


VOLUMES = {  # stage, convention, choices -> bytes an element is gathered and reduced in
    "stage 1": (1, "B", {}, 2, 2),
    "stage 2": (2, "B", {}, 2, 2),
    "stage 3": (3, "B", {}, 2, 2),
    "stage 3, kept": (3, "B", {"kept": True}, 2, 2),
    "stage 1, fp32 sums": (1, "B", {"reduce_dtype": SINGLE}, 2, 4),
    "stage 2, fp32 sums": (2, "B", {"reduce_dtype": SINGLE}, 2, 4),
    "stage 3, fp32 sums": (3, "D", {}, 2, 4),
    "stage 3, kept, fp32 sums": (3, "D", {"kept": True}, 2, 4),
    "stage 1, three micro-batches": (1, "F", {"micro_batches": 3}, 2, 2),
    "stage 2, three micro-batches": (2, "F", {"micro_batches": 3}, 2, 2),
    "stage 3, three micro-batches": (3, "F", {"micro_batches": 3}, 2, 2),
}


@each_of("ranks", [1, 3])
@each_of("case", VOLUMES)
def test_bytes_of_a_step_are_exactly_those_predicted(case, ranks):
    stage, letter, choices, gather, reduce = VOLUMES[case]
    run = simulate(partial(one_step, **choices), ranks, (stage, letter))
    told = {"kept": choices.get("kept", False), "micro_batches": choices.get("micro_batches", 1)}
    want = step_bytes(run.results[0], ranks, stage, gather, reduce, **told)
    assert run.meter.bytes_sent == [want] * ranks


TABLE = [  # (all in bf16, sums in fp32): data parallel, stage 1, stage 2, stage 3, stage 3 with weights kept
    (0, False, 4, 8),
    (1, False, 4, 6),
    (2, False, 4, 6),
    (3, False, 6, 8),
    (3, True, 4, 6),
]


@each_of("stage, kept, narrow, wide", TABLE)
def test_stage_3_sends_one_and_a_half_times_what_data_parallelism_sends_and_with_fp32_sums_as_much(
    stage, kept, narrow, wide
):
    assert bytes_per_param_sent(stage, 2, 2, kept) == narrow
    assert bytes_per_param_sent(stage, 2, 4, kept) == wide
    if stage:
        for reduce, per in ((2, narrow), (4, wide)):
            sent = step_bytes([10**6] * 50, 100, stage, 2, reduce, kept=kept, root=False)
            assert sent / 50e6 == pytest.approx(per * 99 / 100, rel=1e-3)
    with pytest.raises(ValueError, match="stage=4"):
        bytes_per_param_sent(4)


def hybrid(comm, shard_ranks, transposed=False):
    near, far = two_levels(comm, shard_ranks)
    if transposed:
        far, near = near, far
    model = model_of()
    z = FullySharded(near, model, list(model.blocks), replicas=far)
    tokens, targets = mine(comm, 0)
    loss(z(tokens), targets).backward()
    z.finish()
    return [row.flat.elements for row in z.rows if row.shard.requires_grad]


def test_two_levels_send_only_reduced_parts_between_nodes():
    wires = Topology.nodes(4, inside=(1e-6, 1e11), across=(1e-5, 1e10))
    levels = {}
    for transposed in (False, True):
        run = simulate(hybrid, 8, (4, transposed), topology=wires)
        levels[transposed] = {name: nbytes for name, (nbytes, _) in run.meter.levels.items()}
    across = list(levels[False])[-1]
    want = 8 * sum(hybrid_bytes(elements, 4, 2, 4) for elements in run.results[0])
    assert levels[False][across] == want
    assert levels[True][across] > 4 * want, "a mesh the wrong way round gathers weights between nodes"
    flat = simulate(one_step, 8, (3, "D"), topology=wires)
    assert sum(nbytes for nbytes, _ in flat.meter.levels.values()) == flat.meter.total_bytes


# --- time: prefetch, and the step on the host


SLOW = Topology.flat(latency=1e-6, bandwidth=2e9, flops=2e10)


def test_prefetch_hides_gathers_behind_computing():
    runs = {
        depth: simulate(partial(one_step, prefetch=depth), 4, (3, "F"), topology=SLOW, account=True)
        for depth in (0, 1, 2)
    }
    shown = {depth: max(run.exposed()) for depth, run in runs.items()}
    assert shown[1] < 0.8 * shown[0] and runs[1].seconds < runs[0].seconds
    assert runs[0].meter.bytes_sent == runs[1].meter.bytes_sent == runs[2].meter.bytes_sent
    peaks = [run.meter.peak_bytes[0] for run in runs.values()]
    assert peaks[0] <= peaks[1] <= peaks[2]


def test_owners_hold_a_fair_share_of_the_optimizers_state():
    def program(comm):
        account = account_here()
        owned(comm, 1, SINGLE)
        return account.peak_roles()["optimizer state"], account.roles()

    sizes = [each.numel() for each in model_of().parameters() if each.requires_grad]
    for held, _ in simulate(program, 3, account=True).results:
        assert held <= 8 * (sum(sizes) / 3 + max(sizes)) + 8 * len(sizes)


def test_arithmetic_loads_no_torch():
    program = "import sys; from course_lib.parallel.sharding import Flat, step_bytes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


def test_recomputation_costs_no_further_gather_and_keeps_activations_small():
    config = replace(CONFIG, checkpointing="full")
    run = simulate(partial(one_step, config=config), 2, (3, "F"))
    assert run.meter.bytes_sent == [step_bytes(run.results[0], 2, 3)] * 2
    all_kept, few = (
        simulate(partial(run_steps, config=each), 2, (3, "F"), account=True).results[0][1] for each in (CONFIG, config)
    )
    assert few < 0.6 * all_kept
