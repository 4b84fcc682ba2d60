"""An answer called several times, and what its calls changed although the caller still needs it.

Real training calls a function thousands of times, with the caller's own tensors. A function that clears its arguments,
seeds the shared generators, switches gradients off or keeps something of every call is right once and does harm from
then on.
"""

import os
import random
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest

from course_grader.exercises.values import copied, is_tensor, unchanged
from course_grader.worker.plain_values import Given, plain

CALLS = 12  # at most, of an answer in one such run, which gets the time of as many runs
_CONTAINERS = (list, dict, set)
_DEEP, _MANY = 3, 1_000  # levels and items of what a learner's variables hold that are counted
_HOOKS = ("_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks", "_global_backward_pre_hooks")


def called_again(
    call: Callable[[Given], object], answer: object, given: Given, earlier: Sequence[Given]
) -> list[object]:
    """[what the last call gives, {what the calls changed: which}]; the first calls get each of `earlier`, the last two
    `given`, at last in the objects of the call before these two.

    What can be changed: "arguments" (the number of the argument), "results" (those of an earlier call), "settings" (in
    words), "generators" (those that were seeded; drawing from one is no change), and "memory" (the variable that holds
    more after each call).
    """
    drawn, settings = _generators(), _settings()
    found, mine = {"arguments": "", "settings": ""}, given

    def called(one: Given, filled: Given | None = None) -> object:
        nonlocal mine
        mine = filled or _copied(one)  # two cases may share their tensors
        result = call(mine)
        now = _settings()
        found["arguments"] = found["arguments"] or first_changed(one, mine)
        found["settings"] = found["settings"] or next((name for name in settings if now[name] != settings[name]), "")
        return result

    try:
        results = [(result, plain(result)) for result in map(called, earlier)]
        last = mine
        _seed(1)
        called(given)
        ends, held = _generators(), _held(answer)
        kept = all(unchanged(was, plain(now)) for now, was in results)
        _seed(2)
        value = plain(called(given, _refilled(last, given)))
        found |= {
            "results": "" if kept else "a result",
            "generators": next((name for name, end in _generators().items() if end == ends.get(name)), ""),
            "memory": next((name for name, size in _held(answer).items() if size > held.get(name, size)), ""),
        }
    finally:
        _restore(drawn)
    return [value, {what: which for what, which in found.items() if which}]


def _copied(given: Given) -> Given:
    return Given(*copied((given.args, given.kwargs)))


def _refilled(old: Given, new: Given) -> Given:
    """The arguments `new` in the objects of `old` where these are alike, as loops write into the same tensors."""
    written = _written((old.args, old.kwargs), copied((new.args, new.kwargs)))
    assert isinstance(written, tuple)
    filled = Given(*written)
    alike = unchanged(new.args, filled.args) and unchanged(new.kwargs, filled.kwargs)
    return filled if alike else _copied(new)  # objects that share memory cannot be filled one by one


def _written(old: object, new: object) -> object:
    torch = sys.modules.get("torch")
    if type(old) is not type(new):
        return new
    if type(old) is tuple and type(new) is tuple:
        return tuple(_written(*pair) for pair in zip_longest(old[: len(new)], new))
    if type(old) is list and type(new) is list:
        old[:] = [_written(*pair) for pair in zip_longest(old[: len(new)], new)]
        return old
    if type(old) is dict and type(new) is dict:
        filled = {key: _written(old.get(key), each) for key, each in new.items()}
        old.clear()
        old.update(filled)
        return old
    if torch is None or type(new) is not torch.Tensor or not (is_tensor(old) and is_tensor(new)):
        return new
    if old.requires_grad or new.requires_grad or (old.shape, old.dtype) != (new.shape, new.dtype):
        return new
    return old.copy_(new)


# ----------------------------------------------------------------------------------------------------------- arguments


def first_changed(given: Given, mine: Given) -> str:
    """The first argument that is no longer as it was given, by number or name; "" for none."""
    calls = [(given.args, mine.args)]
    match given.args, mine.args:
        case (int(), [tuple(), *_] as rows), (_, [*own]) if len(rows) == len(own):  # a row: the arguments of one call
            pairs = zip(rows, own, strict=True)
            calls = [(one, two) for one, two in pairs if isinstance(one, tuple) and isinstance(two, tuple)]
    for one, two in calls:
        for number, (was, now) in enumerate(zip(one, two, strict=False), 1):
            if not unchanged(was, now):
                return f"number {number}" if type(was) is not list else "a list"
    return next((name for name, was in given.kwargs.items() if not unchanged(was, mine.kwargs.get(name))), "")


# ------------------------------------------------------------------------------------------- generators and settings


def _generators() -> dict[str, object]:
    """The states of the generators that all code of a process shares."""
    states: dict[str, object] = {"Python's random": random.getstate()}
    if torch := sys.modules.get("torch"):
        states["torch"] = torch.get_rng_state().numpy().tobytes()
    return states


def _seed(number: int) -> None:
    random.seed(number)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(number)


def _restore(states: Mapping[str, object]) -> None:
    pythons, torchs = states["Python's random"], states.get("torch")
    assert isinstance(pythons, tuple)
    random.setstate(pythons)
    if (torch := sys.modules.get("torch")) and isinstance(torchs, bytes):
        torch.set_rng_state(torch.frombuffer(bytearray(torchs), dtype=torch.uint8))


def _settings() -> dict[str, object]:
    """What all code of a process shares and a function should leave alone, in words."""
    found: dict[str, object] = {"the current folder": os.getcwd(), "the environment variables": dict(os.environ)}
    if torch := sys.modules.get("torch"):
        found["torch's default dtype"] = torch.get_default_dtype()
        found["whether torch records gradients"] = torch.is_grad_enabled()
        module = torch.nn.modules.module
        found["torch's hooks on all modules"] = [len(getattr(module, name, ())) for name in _HOOKS]
    return found


# -------------------------------------------------------------------------------------------------------------- memory


def _held(answer: object) -> dict[str, int]:
    """How many items the containers hold that outlive a call: global variables, defaults, closures, attributes of
    functions."""
    found: dict[str, int] = {}
    for function in answer if isinstance(answer, tuple) else (answer,):
        space = getattr(function, "__globals__", {})
        for name, value in [(getattr(function, "__name__", "answer"), function), *space.items()]:
            if isinstance(value, types.FunctionType):
                for part, inside in _of_a_function(value):
                    found[f"{part} of {name}"] = _items(inside)
            elif isinstance(value, _CONTAINERS) or _is_own(value):
                found[name] = _items(value)
    return found


def _of_a_function(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    yield "a default argument", function.__defaults__ or ()
    yield "an attribute", function.__dict__
    yield "a closure", [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]


def _is_own(value: object) -> bool:
    """Whether this is an object of a class that the notebook defines."""
    return type(value).__module__ == "__main__" and not isinstance(value, type)


def _items(value: object, depth: int = 0) -> int:
    """The number of items in a container and in those inside it."""
    if _is_own(value):
        value = getattr(value, "__dict__", {})
    if depth > _DEEP or not isinstance(value, (*_CONTAINERS, tuple)):
        return 0
    inside = list(value.values() if isinstance(value, dict) else value)[:_MANY]
    return len(value) + sum(_items(each, depth + 1) for each in inside)
