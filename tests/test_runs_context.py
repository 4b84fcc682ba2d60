"""Attention over ranks that share a sequence: every device's kernels agree, and gathering keys changes nothing."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from course_lib.parallel.context import zig_zag
from course_runs import context
from tests.tables import each_of

WIDTH = 18  # no multiple of 8, which a GPU's flash kernel wants


def tensors(queries=8, keys=8):
    torch.manual_seed(2)
    return torch.randn(2, 4, queries, WIDTH), *torch.randn(2, 2, 4, keys, WIDTH)


@each_of("causal", [False, True])
def test_the_plain_tile_is_the_fused_one(causal):
    q, k, v = tensors(keys=8 if causal else 24)
    grad = torch.randn_like(q)
    fused, plain = context._cpu(q, k, v, causal), context._plain(q, k, v, causal)
    for one, other in zip(fused, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-6)
    for one, other in zip(
        context._cpu_backward(grad, q, *fused, k, v, causal),
        context._plain_backward(grad, q, *plain, k, v, causal),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=5e-6)


@each_of("causal", [False, True])
def test_a_gpus_tile_has_the_shapes_of_its_inputs_at_any_width_of_a_head(causal):
    q, k, v = (each.to("meta", torch.bfloat16) for each in tensors())
    out, log_sum = context._gpu(q, k, v, causal)
    assert out.shape == q.shape and out.dtype is torch.bfloat16 and log_sum.shape == q.shape[:-1]
    grads = context._gpu_backward(torch.empty_like(q), q, out, log_sum, k, v, causal)
    assert [each.shape for each in grads] == [q.shape, k.shape, v.shape]


def test_each_device_has_its_kernels():
    def picked(device, dtype):
        return context.kernels(SimpleNamespace(device=torch.device(device), dtype=dtype))[0]

    assert picked("cpu", torch.float32) is picked("cpu", torch.bfloat16) is context._cpu
    assert picked("cuda", torch.bfloat16) is context._gpu and picked("cuda", torch.float32) is context._plain


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_tiles_of_all_ranks_are_causal_attention_of_the_whole(ranks, monkeypatch):
    q, k, v = tensors(4 * ranks, 4 * ranks)
    want = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    for rank, own in enumerate(zig_zag(4 * ranks, ranks)):
        monkeypatch.setattr(context.Context, "gather", lambda self, kv: torch.stack((k, v)))
        out = context.Context(rank, ranks).attend(q[:, :, own], k[:, :, own], v[:, :, own])
        torch.testing.assert_close(out, want[:, :, own], rtol=1e-5, atol=2e-6)


def test_dropout_is_refused():
    q, k, v = tensors()
    with pytest.raises(ValueError, match="dropout=0"):
        context.Context(0, 2).attend(q, k, v, dropout=0.1)
