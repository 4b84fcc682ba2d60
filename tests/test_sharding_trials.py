"""The runs that chapter 08 looks at are what it says of them."""

import pytest
import torch

from course_lib.cluster import simulate
from course_lib.model import text
from course_lib.model.transformer import Config, build, loss
from course_lib.parallel import sharding
from course_lib.parallel.sharding import FullySharded, Zero
from tests.tables import each_of


def gradients(model):
    inputs, targets = text.batch(0, 4, 16)
    loss(model(inputs), targets).backward()
    return [each.grad for each in model.parameters()]


def test_a_units_weights_are_gone_outside_its_work_and_the_gradients_are_the_same():
    model = sharding.only_at_work(build(Config()))
    units = (model.embedding, *model.blocks, model.head)
    weights = [each for unit in units for each in unit.parameters()]
    assert all(each.isnan().all() for each in weights)
    assert all(map(torch.equal, gradients(model), gradients(build(Config()))))
    assert all(each.isnan().all() for unit in units[1:] for each in unit.parameters())


def kind_of(comm, stage):
    model = sharding.cut_model(comm, stage)
    return type(model), getattr(model, "stage", None), sum(each.numel() for each in model.parameters())


@each_of("stage, kind", [(1, Zero), (2, Zero), (3, FullySharded)])
def test_a_model_is_cut_as_its_stage_says(stage, kind):
    assert all(found[0] is kind for found in simulate(kind_of, 2, args=(stage,)).results)


@each_of("choices", [{"prefetch": 0}, {"reshard_after_forward": False}])
def test_a_model_is_cut_with_the_choices_of_the_chapters_table(choices):
    def chosen(comm):
        model = sharding.cut_model(comm, 3, **choices)
        return {"prefetch": model.prefetch, "reshard_after_forward": model.reshard}

    usual = {"prefetch": 1, "reshard_after_forward": True}
    assert simulate(chosen, 2).results == [usual | choices] * 2


def test_a_replica_is_no_cut_at_all():
    found, _, whole = simulate(kind_of, 2, args=(0,)).results[0]
    assert found is sharding.equivalence.DataParallel
    assert whole == sum(each.numel() for each in build(sharding.equivalence.SMALL).parameters())


@each_of("stage", [0, 3])
def test_live_bytes_of_a_step_have_its_three_phases_and_a_shard_holds_less(stage):
    config = Config(vocab=64, layers=4, hidden=96, seq_len=16)
    text.batch(0, 1, 8)
    roles, ends = simulate(sharding.live_bytes, 2, args=(stage, config)).results[0]
    whole = 4 * sum(each.numel() for each in build(config).parameters())
    assert list(ends) == ["forward", "backward", "step"] and 0 < ends["forward"] < ends["backward"] < ends["step"]
    moments = roles["optimizer state"][0]
    assert moments == pytest.approx(2 * whole if stage == 0 else whole, rel=0.05), (
        "they are there before the step that is looked at"
    )
    assert len({len(values) for values in roles.values()}) == 1
