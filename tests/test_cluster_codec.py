"""The codec: plain data survives the trip exactly, everything else is refused in words."""

import contextlib
import math
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_grader.remote_ranks import trusted_pickle
from course_grader.remote_ranks.codec import DTYPES, BadFrame, Limits, NotPlainData, decode, encode, plain
from tests.conftest import printed
from tests.tables import each_of

both_ways = pytest.mark.parametrize(
    ("write", "read"), [(encode, decode), (trusted_pickle.pack, trusted_pickle.unpack)], ids=["to the judge", "from it"]
)

keys = (
    st.none()
    | st.booleans()
    | st.integers(-5, 2**80)
    | st.text(max_size=6)
    | st.tuples(st.integers(0, 3), st.text(max_size=2))
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=20,
)


def alike(one, two):
    if type(one) is not type(two):
        return False
    if isinstance(one, torch.Tensor):
        return (
            one.dtype == two.dtype
            and one.shape == two.shape
            and torch.equal(one.view(torch.uint8), two.view(torch.uint8))
        )
    if isinstance(one, dict):
        return list(one) == list(two) and all(alike(one[key], two[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(map(alike, one, two))
    return one == two or (isinstance(one, float) and math.isnan(one) and math.isnan(two))


@both_ways
@given(values)
def test_plain_data_survives_the_trip(write, read, value):
    assert alike(read(write(value)), value)


@both_ways
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3), (300, 301)], ids=str)
def test_tensors_of_every_dtype_survive_and_share_no_memory(write, read, name, shape):
    tensor = torch.randint(0, 2, shape, dtype=torch.uint8).to(getattr(torch, name))
    back = read(write([tensor]))[0]
    assert back.dtype == tensor.dtype and back.shape == tensor.shape and encode(back) == encode(tensor)
    assert not tensor.numel() or back.data_ptr() != tensor.data_ptr()


@both_ways
def test_views_and_graphs_travel_as_their_values(write, read):
    view = torch.arange(12.0).reshape(3, 4).t()[1:, ::2]
    for tensor in (view, view.clone().requires_grad_() * 2):
        assert torch.equal(read(write(tensor)), tensor.detach()) and not read(write(tensor)).requires_grad


@given(st.lists(st.integers(0, 4), min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_a_transposed_tensor_reaches_a_worker_transposed(shape, rng):
    """A hidden case with a non-contiguous tensor is one for a class's worker too; a column of a matrix comes alone."""
    order = rng.sample(range(len(shape)), len(shape))
    tensor = torch.arange(float(math.prod(shape))).reshape(shape).permute(order)
    back = trusted_pickle.unpack(trusted_pickle.pack(tensor))
    assert torch.equal(back, tensor) and back.is_contiguous() == tensor.is_contiguous()
    if tensor.numel():
        assert [step for step, size in zip(back.stride(), back.shape, strict=True) if size > 1] == [
            step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1
        ]
    part = trusted_pickle.unpack(trusted_pickle.pack(tensor[..., :1]))
    assert torch.equal(part, tensor[..., :1]) and part.untyped_storage().nbytes() == part.numel() * 4


@both_ways
def test_what_stands_in_two_places_arrives_twice(write, read):
    row, tensor = [1], torch.ones(2)
    one, two, three, four = read(write([row, row, tensor, tensor]))
    one.append(2)
    three += 1
    assert two == [1] and torch.equal(four, torch.ones(2))


class Sly(dict):
    pass


class Count(int):
    pass


@each_of(
    "value, where",
    (Sly(), "the value is a"),
    (Count(3), "the value is a"),
    ([1, {"a": (2, object())}], "the value[1]['a'][1]"),
    (b"bytes", "bytes"),
    ({1, 2}, "set"),
    (lambda: 1, "function"),
    (torch.nn.Parameter(torch.ones(1)), "Parameter"),
    (torch.ones(1, device="meta"), "meta"),
    (torch.eye(2).to_sparse(), "sparse"),
    ("\ud800", "surrogate"),
    (1 << 10**6, "integer"),
)
def test_anything_else_is_refused_and_named(value, where):
    with pytest.raises(NotPlainData, match=None) as told:
        encode(value)
    assert where in str(told.value)


@each_of(
    "value",
    [Sly(), Count(3), object(), len, torch.nn.Parameter(torch.ones(1)), torch.eye(2).to_sparse()],
    ids=lambda value: type(value).__name__,
)
def test_the_judge_says_nothing_that_carries_behaviour_either(value):
    with pytest.raises(NotPlainData, match=r"the value\[1\] is a"):
        trusted_pickle.pack([1, value])


@both_ways
def test_a_list_that_holds_itself_is_refused(write, read):
    loop = []
    loop.append(loop)
    with pytest.raises(NotPlainData, match="holds itself"):
        write(loop)


def tensor_frame(dtype, shape, raw=b""):
    return b"X" + bytes((dtype, len(shape))) + struct.pack(f"<{len(shape)}q", *shape) + raw


HOSTILE = {
    "empty": b"",
    "unknown mark": b"Q",
    "truncated int": b"I123",
    "text longer than the frame": b"S" + struct.pack("<I", 2**32 - 1) + b"abc",
    "text that is not UTF-8": b"S" + struct.pack("<I", 2) + b"\xff\xfe",
    "list of four billion": b"L" + struct.pack("<I", 2**32 - 1),
    "dict of four billion": b"M" + struct.pack("<I", 2**32 - 1) + b"N" * 10,
    "left over": b"NN",
    "nesting bomb": b"U\x01\x00\x00\x00" * 100_000 + b"N",
    "unhashable key": b"M\x01\x00\x00\x00" + b"L\x00\x00\x00\x00" + b"N",
    "key twice": b"M\x02\x00\x00\x00" + b"NN" * 2,
    "tensor of a negative size": tensor_frame(0, (-1,)),
    "tensor of two to the sixty": tensor_frame(0, (2**30, 2**30)),
    "tensor whose size wraps": tensor_frame(0, (2**62, 4), b"\0" * 8),
    "zero elements, absurd strides": tensor_frame(0, (2**47, 2**47, 0)),
    "tensor of an unknown dtype": tensor_frame(200, (1,), b"\0"),
    "tensor of too many dimensions": tensor_frame(0, (1,) * 200, b"\0" * 4),
    "tensor shorter than it says": tensor_frame(0, (2,), b"\0" * 7),
    "integer too large": b"J" + struct.pack("<I", 2**31) + b"\0" * 100,
    "pickle": b"\x80\x04\x95\x0c\x00\x00\x00",
}


@each_of("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_frames_are_refused_in_words(data):
    with pytest.raises(BadFrame):
        decode(data)


def test_a_bool_tensor_holds_only_true_and_false():
    back = decode(tensor_frame(DTYPES.index("bool"), (3,), b"\x00\x02\xff"))
    assert back.view(torch.uint8).tolist() == [0, 1, 1]


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_any_bytes_give_a_value_or_a_refusal(data):
    with contextlib.suppress(BadFrame):
        decode(data)


@given(values, st.integers(0, 60), st.integers(0, 255))
def test_a_changed_byte_gives_a_value_or_a_refusal(value, at, byte):
    data = bytearray(encode(value))
    data[at % len(data)] = byte
    with contextlib.suppress(BadFrame):
        decode(bytes(data))


def test_limits_hold():
    deep = encode([[[[1]]]])
    with pytest.raises(BadFrame, match="deeper"):
        decode(deep, Limits(depth=3))
    with pytest.raises(BadFrame, match="allowed"):
        decode(encode("x" * 100), Limits(nbytes=50))
    with pytest.raises(BadFrame, match="more"):
        decode(encode([0] * 100), Limits(items=50))


def test_what_is_nearly_plain_can_be_made_plain():
    import numpy as np

    value = plain(
        {"a": np.float32(0.5), "b": [np.int64(3)], "c": torch.nn.Parameter(torch.ones(2)), "d": np.arange(3.0)}
    )
    assert type(value["a"]) is float and type(value["b"][0]) is int and encode(value)


def test_the_codec_can_be_had_without_torch():
    code = "import sys, course_grader.remote_ranks.codec as c; c.decode(c.encode([1])); print('torch' in sys.modules)"
    assert printed(code).strip() == "False"


@each_of(
    "value, told",
    ({k * (2**61 - 1): 0 for k in range(30)}, "same hash"),
    ([2**70] * 2001, "more than 64 bits"),
    ([torch.zeros(())] * 10_001, "tensors"),
)
def test_what_takes_the_reader_long_or_much_memory_is_refused(value, told):
    with pytest.raises(BadFrame, match=told):
        decode(encode(value))


def test_many_keys_and_tensors_that_somebody_may_mean_cross():
    many = {**{n: n for n in range(3000)}, **{(n, -n): n for n in range(300)}, **{n / 7: 0 for n in range(1, 300)}}
    assert decode(encode(many)) == many
    assert len(decode(encode([torch.zeros(())] * 9_000))) == 9_000
