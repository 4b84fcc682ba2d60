"""What torch's types leave open: a gradient that is there, and an object with a method of its own."""

from collections.abc import Callable

from torch import Tensor


def gradient(tensor: Tensor) -> Tensor:
    """The gradient of a tensor that a backward pass has reached."""
    assert tensor.grad is not None
    return tensor.grad


def set_methods(owner: object, **methods: Callable[..., object]) -> None:
    """Give one object methods of its own, in place of those of its class."""
    for name, method in methods.items():
        setattr(owner, name, method)
