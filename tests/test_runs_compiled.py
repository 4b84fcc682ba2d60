"""`--compile` under a layout: the same loss and gradients as without it, or refused at once.

The other ranks are pretended: torch's "fake" group answers every call at once, so that one process compiles a layout of
several. A sum over ranks is then this rank's own part, with and without compilation. `aot_eager` is the compiler
without its C++.
"""

import functools

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from course_lib.messages import Trouble
from course_lib.model.transformer import Config, loss
from course_runs import layouts, options, train
from course_runs.model import build
from course_runs.parallel import Choices, RunMesh, local, spread
from course_runs.process_group import Place

RANKS = 8
CONFIG = Config(vocab=64, layers=2, hidden=32, heads=4, seq_len=16)


@pytest.fixture(scope="module", autouse=True)
def pretended():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    yield
    dist.destroy_process_group()


def spread_model(text, compiled=False):
    layout = layouts.parse(text, RANKS)
    return spread(
        build(CONFIG, torch.device("cpu")),
        layout,
        RunMesh(layout, "cpu"),
        Choices(dtype=torch.float32, compiled=compiled),
    )


def passes(model):
    """Loss, and every gradient by name."""
    tokens = torch.arange(32).view(2, 16)
    value = loss(model(tokens), tokens.roll(1, -1))
    value.backward()
    return value.item(), {name: local(weight.grad) for name, weight in model.named_parameters()}


@pytest.mark.parametrize("text", ["ddp=4,tp=2", "fsdp=4,tp=2,sp", "ddp=2,fsdp=4", "ddp=2,fsdp=2,tp=2"])
def test_compiled_blocks_of_split_matrices_and_of_two_levels_have_the_loss_and_the_gradients_of_others(
    text, monkeypatch
):
    monkeypatch.setattr(
        torch.nn.Module, "compile", functools.partialmethod(torch.nn.Module.compile, backend="aot_eager")
    )
    torch.compiler.reset()
    want, gradients = passes(spread_model(text))
    got, compiled = passes(spread_model(text, compiled=True))
    assert got == pytest.approx(want, rel=1e-5) and set(compiled) == set(gradients)
    for name, gradient in compiled.items():
        torch.testing.assert_close(
            gradient, gradients[name], rtol=1e-4, atol=1e-6, msg=lambda said, name=name: f"{name}: {said}"
        )
        assert gradient.any(), name


def test_another_batch_is_compiled_for_its_own_shape(monkeypatch):
    monkeypatch.setattr(
        torch.nn.Module, "compile", functools.partialmethod(torch.nn.Module.compile, backend="aot_eager")
    )
    torch.compiler.reset()
    plain, model = spread_model("ddp=4,tp=2,sp"), spread_model("ddp=4,tp=2,sp", compiled=True)
    for rows in (2, 4):
        tokens = torch.arange(16 * rows).view(rows, 16) % 64
        values = [loss(each(tokens), tokens.roll(1, -1)) for each in (plain, model)]
        values[1].backward()
        assert values[1].item() == pytest.approx(values[0].item(), rel=1e-5)


@pytest.mark.parametrize("text", ["ddp=2,tp=4", "ddp=2,tp=4,sp"])
def test_the_embedding_hands_on_numbers_and_not_a_sum_under_way(text):
    found = spread_model(text).embedding(torch.arange(32).view(2, 16))
    assert type(found) is torch.Tensor and found.requires_grad


def test_what_torch_cannot_compile_is_refused_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(train, "mesh_of", lambda *_: pytest.fail("something was built"))
    given = options.arguments(["--layout", "tp=4", "--compile", "--checkpointing", "selective"])
    place = Place(rank=0, ranks=4, local_rank=0, local_ranks=4, device=torch.device("cpu"), backend="gloo")
    with pytest.raises(Trouble) as refused:
        train.run(given, place)
    assert "full or none" in refused.value.way_out


def test_only_attention_computed_again_in_split_matrices_is_refused():
    for ranks, texts in layouts.PROVEN.items():
        for text in texts:
            layout = layouts.parse(text.partition(":")[0], ranks)
            for again in ("none", "full", "selective"):
                config = Config(checkpointing=again)
                if layout.tp > 1 and again == "selective":
                    with pytest.raises(Trouble):
                        layouts.check_compiled(layout, config)
                else:
                    layouts.check_compiled(layout, config)
