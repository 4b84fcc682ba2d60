"""What context parallelism sends and computes, before anything runs. Arithmetic only: no torch.

Every function gives figures of one rank and one layer; numbers may be numpy arrays and broadcast. `tokens` are those of
the whole sequence (times the sequences of a micro-batch), divided evenly; a rank has tokens / ranks of them.
"""

from typing import NamedTuple

from course_lib.cluster.collectives import ring_share
from course_lib.estimate.units import Numeric


class Traffic(NamedTuple):
    """Bytes and messages that one rank sends for one layer, by pass; a collective counts as one message per other
    rank."""

    forward: Numeric  # bytes
    backward: Numeric  # bytes
    forward_messages: Numeric
    backward_messages: Numeric

    @property
    def nbytes(self) -> Numeric:
        """Both passes together."""
        return self.forward + self.backward


def ring_traffic(
    tokens: Numeric,
    kv_heads: Numeric,
    head_dim: Numeric,
    ranks: Numeric,
    element_bytes: Numeric = 2,
    gradient_bytes: Numeric | None = None,
    recompute: bool = False,
) -> Traffic:
    """Ring attention: ranks − 1 hops of a block of keys and values; backward the same, and as many of their gradients.

    `element_bytes` of a key, value or their copies in the backward pass; `gradient_bytes` of their gradients while they
    are summed, by default as many; keys and values travel in one message. A block's gradient starts at the rank after
    its owner, so ranks − 1 hops bring it home; the owner adds its own share there. With `recompute`, the
    backward pass first turns the ring as the forward pass did.
    """
    gradient_bytes = element_bytes if gradient_bytes is None else gradient_bytes
    hops, turns = ranks - 1, 1 + recompute
    block = 2 * tokens / ranks * kv_heads * head_dim
    back = hops * block * (turns * element_bytes + gradient_bytes)
    return Traffic(hops * block * element_bytes, back, hops, (1 + turns) * hops)


def gather_traffic(
    tokens: Numeric,
    kv_heads: Numeric,
    head_dim: Numeric,
    ranks: Numeric,
    element_bytes: Numeric = 2,
    gradient_bytes: Numeric | None = None,
    regather: bool = True,
) -> Traffic:
    """All-gather of keys and values; backward a reduce-scatter of their gradients, and with `regather` the all-gather
    again.

    Ring collectives: each sends (ranks − 1) blocks. Without `regather` every layer keeps the keys and values of all
    tokens.
    """
    gradient_bytes = element_bytes if gradient_bytes is None else gradient_bytes
    hops = ranks - 1
    block = 2 * tokens / ranks * kv_heads * head_dim
    return Traffic(
        hops * block * element_bytes,
        hops * block * (element_bytes * regather + gradient_bytes),
        hops,
        hops * (1 + regather),
    )


def ulysses_traffic(
    tokens: Numeric, heads: Numeric, kv_heads: Numeric, head_dim: Numeric, ranks: Numeric, element_bytes: Numeric = 2
) -> Traffic:
    """Ulysses: queries, keys and values go from tokens to heads, the output goes back; backward the same in reverse.

    A rank keeps 1 / ranks of its tokens' numbers and sends the others. With fewer KV heads than ranks, a KV head goes
    to several ranks, as if there were one KV head per rank.
    """
    import numpy as np

    wide = 2 * heads + 2 * np.maximum(kv_heads, ranks)
    one = tokens / ranks * head_dim * wide * ring_share(ranks) * element_bytes
    return Traffic(one, one, 4 * (ranks - 1), 4 * (ranks - 1))


def ulysses_fits(heads: int, kv_heads: int) -> list[int]:
    """Every number of ranks that divides the query heads and either divides the KV heads or is a multiple of them."""
    return [n for n in range(1, heads + 1) if heads % n == 0 and (kv_heads % n == 0 or n % kv_heads == 0)]


def attention_flops(pairs: Numeric, heads: Numeric, head_dim: Numeric, backward: bool = False) -> Numeric:
    """FLOPs of attention over `pairs` visible query-key pairs: two products forward, five backward (scores again, and
    four gradients)."""
    return (10 if backward else 4) * pairs * heads * head_dim


def contiguous_imbalance(ranks: Numeric) -> Numeric:
    """The last rank's causal pairs over the mean, for long contiguous parts: (2N − 1) / N."""
    return (2 * ranks - 1) / ranks


def tokens_to_hide(
    heads: Numeric,
    kv_heads: Numeric,
    flops: Numeric,
    bandwidth: Numeric,
    element_bytes: Numeric = 2,
    visible: Numeric = 1.0,
) -> Numeric:
    """The fewest tokens per rank with which a ring step computes at least as long as its block of keys and values
    travels.

    A step computes 4·n²·heads·head_dim·visible FLOPs and sends 2·n·kv_heads·head_dim elements. `visible` is the share
    of a step's query-key pairs that the mask leaves: 1/2 in a causal zig-zag. `flops` in FLOP/s, `bandwidth` in bytes/s
    one way.
    """
    return 2 * kv_heads * element_bytes / bandwidth * flops / (4 * heads * visible)
