"""Products of 8-bit numbers in a real run: what is rounded, by which scale, and where the hardware is missing."""

import pytest
import torch
from torch import nn

from course_lib.messages import Trouble
from course_runs import eight_bits
from course_runs.model import build
from course_runs.sizes import size
from tests.tables import each_of

KINDS = [(eight_bits.IN, eight_bits.IN), (eight_bits.BACK, eight_bits.IN)]


def seen_through(x, kind):
    """`x` as it is in 8 bits, in fp32."""
    scale = eight_bits.scale_of(x, kind)
    return eight_bits.rounded(x, scale, kind).float() / scale


@each_of("kinds", KINDS, ids=["forward", "backward"])
@each_of("shape", [(16, 32, 16), (20, 33, 17), (1, 5, 3)])
def test_a_product_is_that_of_the_rounded_matrices(kinds, shape):
    torch.manual_seed(3)
    m, k, n = shape
    a, b = torch.randn(m, k) * 300, torch.randn(k, n) / 4000
    want = seen_through(a, kinds[0]) @ seen_through(b, kinds[1])
    near = {"rtol": 1e-5, "atol": 1e-5 * want.abs().max().item()}
    torch.testing.assert_close(eight_bits.product(a, b, *kinds), want, **near)
    scales = [eight_bits.scale_of(x, kind) for x, kind in zip((a, b), kinds, strict=True)]
    small = [eight_bits.rounded(x, *each) for x, *each in zip((a, b), scales, kinds, strict=True)]
    torch.testing.assert_close(eight_bits.by_hardware(*small, *scales, torch.float32), want, **near)
    assert eight_bits.product(a.bfloat16(), b.bfloat16(), *kinds).dtype is torch.bfloat16


@each_of("kind", [eight_bits.IN, eight_bits.BACK])
@each_of("size", [1e-30, 1e-3, 1.0, 7e4])
def test_the_scale_is_a_power_of_two_that_uses_the_top_of_the_format(kind, size):
    scale, most = eight_bits.scale_of(torch.tensor([size, -size / 3]), kind).item(), torch.finfo(kind).max
    assert most / 2 < size * scale <= most and torch.frexp(torch.tensor(scale)).mantissa == 0.5


def test_zeros_stay_zeros():
    assert not eight_bits.product(torch.zeros(4, 4), torch.randn(4, 4), *KINDS[0]).any()


def test_a_product_is_exact_where_the_scales_multiplied_are_beyond_fp32():
    small = torch.full((4, 4), 2.0**-60)  # scales of 2^68
    assert torch.equal(eight_bits.product(small, small, *KINDS[0]), torch.full((4, 4), 4 * 2.0**-120))


def test_a_blocks_matrices_are_rounded_forward_and_backward_and_keep_their_names():
    plain, small = (build(size("1m").config(), torch.device("cpu")) for _ in range(2))
    eight_bits.convert(small)
    assert [name for name, _ in plain.named_parameters()] == [name for name, _ in small.named_parameters()]
    assert isinstance(small.head, nn.Linear) and not isinstance(small.head, eight_bits.Linear8)
    x = torch.randint(0, 64, (2, 16))
    for model in (plain, small):
        model(x).float().logsumexp(-1).mean().backward()
    for (name, one), other in zip(plain.named_parameters(), small.parameters(), strict=True):
        apart = (one.grad - other.grad).norm() / one.grad.norm()
        assert apart < 0.3, name  # E5M2 rounds by up to an eighth, and each layer rounds again
    assert any(
        not torch.equal(one.grad, other.grad) for one, other in zip(plain.parameters(), small.parameters(), strict=True)
    )


@pytest.mark.parametrize(("capability", "name"), [((8, 0), "A100"), ((8, 6), "A10")])
def test_a_gpu_without_8_bit_products_is_refused_with_what_to_do(monkeypatch, capability, name):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    with pytest.raises(Trouble, match=f"{name} has compute capability {capability[0]}.{capability[1]}") as raised:
        eight_bits.require(torch.device("cuda", 0))
    assert "leave out --fp8" in raised.value.way_out
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    eight_bits.require(torch.device("cuda", 0))
    eight_bits.require(torch.device("cpu"))
