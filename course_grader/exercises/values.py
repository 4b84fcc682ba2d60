"""Plain values: deep copies of arguments; whether a result is a number or near another one, and how a message shows
it."""

import copy
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from operator import is_
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from course_lib.estimate.units import MILLION, number_text

if TYPE_CHECKING:
    import torch

Item = TypeVar("Item")
types_only: ContextVar[bool] = ContextVar("types_only", default=False)  # as in a class, where messages quote nothing
_SHOWN = 100  # letters, or items, of which a message shows the first
_ATOMS = frozenset({int, float, bool, str, bytes, type(None)})  # values that need no copy


def copied(value: Any, memo: dict[int, object] | None = None) -> Any:
    """A deep copy. Plain data take a quarter of `copy.deepcopy`'s time; a list in two places is copied once."""
    kind = type(value)
    if kind in _ATOMS or (kind is tuple and _ATOMS.issuperset(map(type, value))):
        return value
    memo = {} if memo is None else memo
    if kind is tuple:
        items = tuple([each if type(each) in _ATOMS else copied(each, memo) for each in value])
        return value if all(map(is_, items, value)) else items
    if kind is not list and kind is not dict:
        return _tensor_copied(value, memo) if kind.__module__ == "torch" else copy.deepcopy(value, memo)
    if (made := memo.get(id(value))) is not None:
        return made
    if kind is dict:
        table: dict[object, object] = {}
        memo[id(value)] = table
        if _ATOMS.issuperset(map(type, value)) and _ATOMS.issuperset(map(type, value.values())):
            table |= value
            return table
        for key, each in value.items():
            table[copied(key, memo)] = each if type(each) in _ATOMS else copied(each, memo)
        return table
    row: list[object] = []
    memo[id(value)] = row
    if _ATOMS.issuperset(map(type, value)):
        row += value
    else:
        row += [each if type(each) in _ATOMS else copied(each, memo) for each in value]
    return row


def _tensor_copied(value: "torch.Tensor", memo: dict[int, object]) -> object:
    """A deep copy of a tensor. A plain one takes a fifth of `copy.deepcopy`'s time; storages that are shared stay
    shared, in its memo."""
    import torch

    plain = type(value) is torch.Tensor and value.layout is torch.strided and value.device.type == "cpu"
    if not plain or value.requires_grad or value.is_quantized or value.is_conj() or value.is_neg() or vars(value):
        return copy.deepcopy(value, memo)
    if (made := memo.get(id(value))) is not None:
        return made
    storage = value.untyped_storage()
    storages: dict[int, torch.UntypedStorage] = memo.setdefault("torch", {})  # type: ignore[call-overload]
    if (memory := storages.get(storage._cdata)) is None:
        memory = storages[storage._cdata] = storage.clone()
    made = memo[id(value)] = torch.empty(0, dtype=value.dtype)
    return made.set_(memory, value.storage_offset(), value.size(), value.stride())


def is_tensor(value: object) -> "TypeGuard[torch.Tensor]":
    """Whether this is a tensor; torch need not be loaded."""
    return hasattr(value, "element_size")


def tensors_in(value: object) -> "list[torch.Tensor]":
    """The tensors in nested lists, tuples and dictionaries."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for each in value for tensor in tensors_in(each)]
    return [value] if is_tensor(value) else []


def unchanged(was: Any, now: Any) -> bool:
    """Whether plain data are as they were: the same items in the same order, and tensors with the same numbers."""
    kind = type(was)
    if was is now:  # what cannot change is not copied
        return True
    if kind is not type(now):
        return False
    if kind in (list, tuple):
        return len(was) == len(now) and (all(map(is_, was, now)) or all(map(unchanged, was, now)))
    if kind is dict:
        values = was.values(), now.values()
        return list(was) == list(now) and (all(map(is_, *values)) or all(map(unchanged, *values)))
    torch = sys.modules.get("torch")
    if torch and isinstance(was, torch.Tensor):
        was, now = was.detach(), now.detach()
        if was.shape != now.shape or was.dtype != now.dtype:
            return False
        return torch.equal(was, now) or bool(((was == now) | ((was != was) & (now != now))).all())
    return kind not in (bool, int, float, str) or was == now or (was != was and now != now)


def is_number(value: object) -> TypeGuard[float]:
    """Whether this is exactly a finite int or float: no bool, no object that pretends."""
    if type(value) is int:
        return abs(value) < 1e300  # a larger one overflows as soon as it meets a float
    return type(value) is float and math.isfinite(value)


def is_row(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    """Whether this is exactly a list or a tuple."""
    return type(value) in (list, tuple)


def near(got: object, want: float, rel: float) -> bool:
    """Whether `got` is a number within the relative tolerance of `want`, or equal to it if that is 0; where 0 is right,
    within 1e-12."""
    if not rel and want:
        return is_number(got) and got == want  # also of whole numbers that no float holds
    return is_number(got) and math.isclose(got, want, rel_tol=rel, abs_tol=0.0 if want else 1e-12)


def same_value(got: object, want: float | None, rel: float) -> bool:
    """Whether `got` is near `want`, or None where no number is right, or infinite where that is right."""
    if want is None or (type(want) is float and want == math.inf):
        return type(got) is type(want) and got == want
    return near(got, want, rel)


def same_lists(got: object, want: object) -> bool:
    """Whether `got`, whatever it is, equals `want`, a plain value or nested lists of them, with the same types in each
    place."""
    if type(want) is list:
        return type(got) is list and len(got) == len(want) and all(map(same_lists, got, want))
    return type(got) is type(want) and got == want


def times(got: float, want: float) -> str:
    """How far a number is off, as a factor in words."""
    ratio = got / want if want else math.inf
    digits = 1 if types_only.get() else 3
    if abs(ratio - 1) < 5e-4 and not types_only.get():
        return f"off by {100 * abs(ratio - 1):.2g} %"
    return (
        f"{ratio:,.{digits}g} times the right value" if want and 1e-9 < abs(ratio) < 1e9 else "far from the right value"
    )


def quoted(text: str) -> str:
    """A piece of the learner's text as a message quotes it; dots alone while `types_only` is set."""
    return "“…”" if types_only.get() else f"“{text}”"


def describe(value: object) -> str:
    """A returned value in a few words, for messages; its type alone while `types_only` is set."""
    if is_number(value):
        digits = 2 if types_only.get() else 6
        return number_text(value, min(digits, 4)) if abs(value) >= MILLION else f"{value:,.{digits}g}"
    if value is None:
        return "None"
    if types_only.get():
        return f"a value of type {type(value).__name__}"
    try:
        text = repr(value[:_SHOWN]) if isinstance(value, str | bytes) else str(_first(value, [_SHOWN]))
    except ValueError:  # Python prints no integer of more than 4,300 digits
        text = "with a number of thousands of digits"
    return f"{type(value).__name__} {text[:60]}{'…' if len(text) > 60 else ''}"


def _first(value: object, left: list[int]) -> object:
    """The first items of nested lists, as many as are `left`: the rest is not shown, and may be millions."""
    if type(value) is dict:
        return {key: _first(each, left) for key, each in _while_left(value.items(), left)}
    if type(value) is list:
        return [_first(each, left) for each in _while_left(value, left)]
    if type(value) is tuple:
        return tuple(_first(each, left) for each in _while_left(value, left))
    return value


def _while_left(items: Iterable[Item], left: list[int]) -> Iterator[Item]:
    for each in items:
        if not left[0]:
            return
        left[0] -= 1
        yield each
