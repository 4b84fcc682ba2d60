"""What is wrong with an argument: with a tensor that is to be sent or filled, with another rank, with what a rank gets
a copy of."""

from collections.abc import Sequence

import numpy as np
import torch

from course_lib.cluster.collective import OPS, Meta
from course_lib.cluster.dtypes import DTYPES, PLAIN, Array


def checked_peer(op: str, peer: object, me: int, size: int) -> int:
    """The other end of a message from or to rank `me`; ValueError says why it cannot be that rank."""
    if isinstance(peer, bool) or not isinstance(peer, (int, np.integer)):
        raise ValueError(f"{op}: the other rank is {peer!r}; it must be an integer from 0 to {size - 1}.")
    if peer == me:
        raise ValueError(f"{op}: rank {peer} is this rank itself; copy the tensor instead, or pick another rank.")
    if not 0 <= peer < size:
        hint = "; on a ring, count modulo comm.size" if peer < 0 else ""  # a rank above the last has other causes
        raise ValueError(f"{op}: rank {peer} does not exist among {size} ranks (0 to {size - 1}){hint}.")
    return int(peer)


def checked_tensor(value: Array, op: str, writes: bool) -> torch.Tensor:
    """The tensor that an operation works on, without autograd; ValueError says what is wrong with the argument."""
    if isinstance(value, np.ndarray):
        if writes and not value.flags.writeable:
            raise ValueError(f"{op}: the numpy array is read-only; receive into a copy of it.")
        try:
            value = torch.from_numpy(value)
        except TypeError as error:
            raise ValueError(f"{op}: a numpy array of {value.dtype} cannot travel: {error}") from None
    if not isinstance(value, torch.Tensor):
        shown = repr(value)
        raise ValueError(
            f"{op} takes a tensor (or a numpy array), not {type(value).__name__} {shown[:40]}; wrap numbers: "
            f"torch.tensor([…])."
        )
    if value.layout is not torch.strided or value.is_meta:
        raise ValueError(
            f"{op}: a tensor of layout {value.layout} on device {value.device} cannot travel; give a dense "
            f"one with data."
        )
    if value.device.type != "cpu":
        raise ValueError(f"{op}: the tensor is on {value.device}; the metered cluster works on cpu tensors.")
    if value.dtype not in PLAIN or value.is_quantized:
        raise ValueError(
            f"{op}: tensors of {value.dtype} cannot travel, as on gloo; send their bytes: tensor.view(torch.uint8)."
        )
    if (
        writes
        and 0 in value.stride()
        and value.numel() > 1
        and any(s == 0 and n > 1 for s, n in zip(value.stride(), value.shape, strict=True))
    ):
        raise ValueError(
            f"{op}: the tensor is expanded, several of its elements share memory; receive into a full one."
        )
    return value.detach() if value.requires_grad else value


def size_text(data: torch.Tensor) -> str:
    """A tensor's kind in words."""
    return f"{DTYPES[data.dtype]} in shape {tuple(data.shape)}"


def reduction(call: str, op: object, dtype: torch.dtype) -> str:
    """The name of a reduction: a word, or torch.distributed's ReduceOp."""
    name = op if isinstance(op, str) else str(op).rsplit(".", 1)[-1]
    name = name.upper()
    if name not in OPS:
        raise ValueError(f"{call}: op={op!r} is not one of {', '.join(OPS)}.")
    if name == "AVG" and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"{call}: op=AVG of {DTYPES[dtype]} would round; use SUM and divide, or a floating dtype.")
    if DTYPES[dtype].startswith("float8"):
        raise ValueError(f"{call}: {DTYPES[dtype]} cannot be reduced, as on gloo; convert to bfloat16 first.")
    if name in ("BAND", "BOR", "BXOR") and (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"{call}: op={name} of {DTYPES[dtype]}; bitwise operations take integers or bool.")
    if dtype is torch.bool and name in ("SUM", "PRODUCT"):
        raise ValueError(f"{call}: op={name} of bool; use MAX for any, MIN for all, or integers.")
    if dtype.is_complex and name in ("MAX", "MIN"):
        raise ValueError(f"{call}: op={name} of {DTYPES[dtype]}: complex numbers have no order.")
    return name


def meta(data: torch.Tensor) -> Meta:
    """A tensor's dtype and shape."""
    return DTYPES[data.dtype], tuple(data.shape)


def checked_list(
    op: str, name: str, tensors: Sequence[Array] | None, size: int, like: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The tensors of a list with one for each of `size` ranks, all of the shape and dtype of `like`."""
    if tensors is None or len(tensors) != size:
        raise ValueError(f"{op}: {name} must hold {size} tensors, one for each rank, and holds {len(tensors or ())}.")
    found = tuple(checked_tensor(item, op, writes=op != "scatter") for item in tensors)
    for index, item in enumerate(found):
        if item.shape != like.shape or item.dtype != like.dtype:
            raise ValueError(
                f"{op}: {name}[{index}] is {size_text(item)} and the tensor {size_text(like)}; all must be alike. "
                "For uneven parts use all_to_all_single, or pad."
            )
    return found


def check_ratio(op: str, large_name: str, large: torch.Tensor, small_name: str, small: torch.Tensor, size: int) -> None:
    """ValueError unless the large tensor holds `size` times the elements of the small one."""
    if large.dtype != small.dtype or large.numel() != small.numel() * size:
        raise ValueError(
            f"{op}: {large_name} is {size_text(large)} and {small_name} {size_text(small)}; of {size} ranks, "
            f"{large_name} must have the same dtype and {size} times the elements of {small_name}. Pad where it "
            "does not divide."
        )


def checked_splits(name: str, data: torch.Tensor, sizes: Sequence[int] | None, size: int) -> tuple[int, ...]:
    """How many rows of an all_to_all_single go to, or come from, each of `size` ranks; equal parts without `sizes`."""
    rows = data.shape[0] if data.dim() else 0
    if sizes is None or len(sizes) == 0:
        if not data.dim() or rows % size:
            raise ValueError(
                f"all_to_all_single: {name} has {rows} rows, which {size} ranks do not divide; give {name}_split_sizes."
            )
        return (rows // size,) * size
    counts = tuple(int(n) for n in sizes)
    if len(counts) != size or min(counts) < 0 or sum(counts) != rows:
        raise ValueError(
            f"all_to_all_single: {name}_split_sizes={list(counts)} must be {size} counts that add up to {name}'s "
            f"{rows} rows."
        )
    return counts
