"""What passes between an answer and its judge: the arguments of a case one way, plain data the other way."""

from typing import Any

NOT_ANSWERED = "Not answered yet: fill in the cell above and run this one again."
OUTPUT_CAP = 20_000  # characters kept of what an answer prints
_ATOMS = frozenset({type(None), bool, int, float, str})  # types of values that are returned as they are


class Given:
    """What a probe knows about a case: its arguments."""

    __slots__ = ("args", "kwargs")

    def __init__(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self.args = args
        self.kwargs = kwargs


class NotPlain(TypeError):
    """A value that may not be returned to the judge."""


def plain(value: Any, depth: int = 0) -> Any:
    """`value` as plain data: None, bool, int, float, str, list, tuple, dict, tensor; NotPlain otherwise.

    numpy scalars and arrays are converted, for learners who return them.
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if depth > 20:
        raise NotPlain("Your answer is nested more than 20 levels deep; return a flat list or dictionary.")
    if kind is list or kind is tuple:
        items = [each if type(each) in _ATOMS else plain(each, depth + 1) for each in value]
        return items if kind is list else tuple(items)
    if kind is dict:
        return {plain(key, depth + 1): plain(each, depth + 1) for key, each in value.items()}
    module = kind.__module__
    if module == "numpy":
        return plain(value.item() if value.ndim == 0 else value.tolist(), depth)
    if module in ("torch", "torch.nn.parameter") and kind.__name__ in ("Tensor", "Parameter"):
        import torch

        if value.layout is not torch.strided:
            raise NotPlain(f"Your answer returned a tensor with the layout {value.layout}; return a dense tensor.")
        return torch.Tensor.detach(value).as_subclass(torch.Tensor).clone()
    if kind.__name__ == "mappingproxy":
        return plain(dict(value), depth)
    for base, bare in ((float, float.__float__), (int, int.__int__), (str, str.__str__)):
        if issubclass(kind, base):  # such as a number with its source from `course_lib.estimate.facts`
            return bare(value)
    if issubclass(kind, dict):  # such as a defaultdict or a Counter
        return {plain(key, depth + 1): plain(each, depth + 1) for key, each in dict.items(value)}
    if issubclass(kind, tuple):  # a named tuple
        return tuple(plain(each, depth + 1) for each in tuple.__iter__(value))
    raise NotPlain(
        f"Your answer returned a {kind.__name__}; return numbers, text, lists, tuples, dictionaries or tensors of them."
    )
