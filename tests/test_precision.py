"""Numbers in few bits: equal to torch's casts wherever torch has one, and what follows from rounding holds for any
input."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.model import precision
from course_lib.model.precision import Format, encode, number_format, round_to, torch_dtype
from tests.tables import each_of

SMALL = ("fp16", "bf16", "fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1")
NATIVE = ("fp32", "fp16", "bf16", "fp8_e5m2", "fp8_e4m3")
ALL = tuple(precision.formats())


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal to the bit, zeros' signs included; NaN equals NaN."""
    a, b = a.double(), b.double()
    signs = torch.signbit(a) == torch.signbit(b)
    return bool(((a.isnan() & b.isnan()) | ((a == b) & signs)).all())


def cast(x: torch.Tensor, name: str) -> torch.Tensor:
    """torch's cast; to E4M3 without the saturation that some versions of torch apply."""
    given = x.to(torch_dtype(name)).double()
    return torch.where(x.abs() > 464, torch.nan, given) if name == "fp8_e4m3" else given


def neighbors(x: torch.Tensor) -> torch.Tensor:
    """fp32 values, and those just above and below."""
    x = x.float()
    return torch.cat([x, torch.nextafter(x, torch.tensor(math.inf)), torch.nextafter(x, torch.tensor(-math.inf))])


def bit_pattern_values(name: str) -> torch.Tensor:
    """What torch reads in every bit pattern of 8 or 16 bits, in order."""
    bits = number_format(name).bits
    codes = torch.arange(2**bits)
    return codes.to({8: torch.uint8, 16: torch.uint16}[bits]).view(torch_dtype(name)).double()


# --------------------------------------------------------------------------------------------- formats


@each_of("name", [n for n in NATIVE if n != "fp32"])
def test_every_bit_pattern_reads_as_in_torch_and_is_written_back(name):
    form, codes = number_format(name), torch.arange(2 ** number_format(name).bits)
    assert same(form.decode(codes), bit_pattern_values(name))
    numbers = ~form.decode(codes).isnan()
    assert torch.equal(encode(form.decode(codes), form)[numbers], codes[numbers])
    assert form.decode(encode(torch.tensor(math.nan), form)).isnan()


@each_of("name", NATIVE)
def test_limits_are_torchs(name):
    form, info = number_format(name), torch.finfo(torch_dtype(name))
    assert (form.max, form.eps, form.min_normal, form.bits) == (info.max, info.eps, info.tiny, info.bits)
    assert form.min_subnormal == info.smallest_normal * info.eps


def test_limits_of_the_formats_that_torch_does_not_compute_in_are_the_published_ones():
    assert [number_format(name).max for name in ("fp6_e3m2", "fp6_e2m3", "fp4_e2m1")] == [28.0, 7.5, 6.0]
    assert number_format("fp4_e2m1").values().tolist()[7:] == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert number_format("tf32").bits == 19 and number_format("tf32").eps == 2**-10


@each_of("name", SMALL)
def test_values_are_all_different_and_symmetric_and_encode_to_codes_in_order(name):
    form = number_format(name)
    values = form.values()
    assert torch.equal(values, -values.flip(0)) and values[-1] == form.max
    positive = values[values > 0]
    assert positive[0] == form.min_subnormal and torch.equal(encode(positive, form), torch.arange(len(positive)) + 1)
    gaps = [form.spacing(x) for x in positive[:-1].tolist()]
    assert torch.equal(positive[1:] - positive[:-1], torch.tensor(gaps, dtype=torch.float64))


@pytest.mark.parametrize("name", ALL)
@given(bits=st.integers(0, 2**32 - 1))
def test_reading_and_writing_a_code_is_a_round_trip(name, bits):
    form = number_format(name)
    code = torch.tensor(bits % 2**form.bits)
    value = form.decode(code)
    assert value.isnan() or (encode(value, form) == code and same(round_to(value, form), value))


@each_of(
    "wrong, words",
    (lambda: number_format("fp12"), "number format"),
    (lambda: number_format("bf16").decode(torch.tensor([70000])), "whole number from 0 to 65535"),
    (lambda: number_format("bf16").decode(torch.tensor([0.5])), "whole number"),
    (lambda: number_format("bf16").spacing(math.inf), "no next value"),
    (lambda: number_format("fp32").values(), "too many to list"),
    (lambda: Format(name="x", exponent_bits=5, mantissa_bits=2, bias=15, special="odd"), "special is"),
    (lambda: Format(name="x", exponent_bits=11, mantissa_bits=52, bias=1023), "fit into a float64"),
    (lambda: round_to(torch.ones(2, dtype=torch.float16), "bf16"), "give float32 or float64"),
    (lambda: round_to(torch.ones(2), "bf16", "up"), "mode is 'up'"),
    (lambda: round_to(torch.tensor([math.nan]), "fp4_e2m1"), "has no NaN"),
    (lambda: precision.update_threshold(1.0, "bf16", 0), "sign is 0"),
    (lambda: precision.update_threshold(math.nan, "bf16"), "no next value"),
)
def test_bad_input_is_answered_in_words(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()


# --------------------------------------------------------------------------------------------- rounding


@each_of("name", [n for n in NATIVE if n != "fp32"])
def test_values_midpoints_and_their_neighbors_round_as_torch_casts(name):
    values = number_format(name).values()
    beyond = torch.tensor([1.0, 1.01, 1.03, 1.04, 1.1, 2.0]) * number_format(name).max
    beyond = torch.cat([beyond, -beyond, torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0])])
    points = torch.cat([neighbors(values), neighbors((values[1:] + values[:-1]) / 2), neighbors(beyond)])
    assert same(round_to(points.double(), name), cast(points, name))
    assert same(round_to(points, name), cast(points, name)), "the quick way for fp32 agrees"


@each_of("name", NATIVE)
def test_random_numbers_of_every_size_round_as_torch_casts(name):
    coin = torch.Generator().manual_seed(5)
    x = torch.randn(200_000, generator=coin) * torch.exp(torch.randn(200_000, generator=coin) * 12)
    assert same(round_to(x.double(), name), cast(x, name))


@pytest.mark.parametrize("name", ALL)
@given(x=st.floats(width=32, allow_nan=False, allow_infinity=False), seed=st.integers(0, 99))
def test_each_way_of_rounding_gives_one_of_the_two_neighbors(name, x, seed):
    form = number_format(name)
    x = max(-form.max, min(form.max, x))
    exact = torch.tensor(x, dtype=torch.float64)
    low = round_to(exact, form, "zero").item()
    gap = form.spacing(low)
    nearest = round_to(exact, form).item()
    chance = round_to(exact, form, "stochastic", generator=torch.Generator().manual_seed(seed)).item()
    assert abs(low) <= abs(x) < abs(low) + gap and {abs(nearest) - abs(low), abs(chance) - abs(low)} <= {0.0, gap}
    assert abs(nearest - x) <= gap / 2
    assert round_to(exact, form, "zero").item() == round_to(torch.tensor(low, dtype=torch.float64), form).item()


@each_of("name", ["bf16", "fp8_e4m3", "fp4_e2m1"])
@each_of("share", [0.0, 0.1, 0.5, 0.9])
def test_stochastic_rounding_is_right_on_average_and_the_same_for_the_same_seed(name, share):
    form, count = number_format(name), 40_000
    x = torch.full((count,), -(1 + share * form.eps), dtype=torch.float64)
    drawn = [round_to(x, form, "stochastic", generator=torch.Generator().manual_seed(7)) for _ in range(2)]
    assert torch.equal(*drawn)
    assert abs(drawn[0].mean().item() - x[0].item()) <= 4 * form.eps * (share * (1 - share) / count) ** 0.5


def test_overflow_follows_the_format_the_mode_and_saturation():
    huge = torch.tensor([1e6, -1e6, math.inf], dtype=torch.float64)
    assert round_to(huge, "fp16").tolist() == [math.inf, -math.inf, math.inf]
    assert round_to(huge, "fp16", saturate=True).tolist() == [65504, -65504, 65504]
    assert round_to(huge, "fp16", "zero").tolist() == [65504, -65504, math.inf]
    assert round_to(huge, "fp8_e4m3").isnan().all() and round_to(huge, "fp4_e2m1").tolist() == [6, -6, 6]
    assert round_to(torch.empty(0, 3), "bf16").shape == (0, 3)


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp8_e4m3"])
@given(code=st.integers(1, 2**15), sign=st.sampled_from((1, -1)))
def test_an_update_below_the_threshold_is_lost_and_one_above_is_not(name, code, sign):
    form = number_format(name)
    values = form.values()
    weight = values[code % (len(values) - 2) + 1].item()
    threshold = precision.update_threshold(weight, form, sign)
    below, above = (torch.tensor(sign * threshold * share, dtype=torch.float64) for share in (0.999, 1.001))
    held = torch.tensor(weight, dtype=torch.float64)
    if held + above <= form.max and held + above >= -form.max:
        assert precision.lost_updates(held, below, form) and not precision.lost_updates(held, above, form)
    assert not precision.lost_updates(held, torch.tensor(0.0), form), "no update is no lost update"


def test_the_threshold_of_the_opening_example_is_the_published_one():
    """A decrease of a bf16 weight of 1 survives above 2^-9, an increase above 2^-8; neither does at 1e-4."""
    assert [precision.update_threshold(1.0, "bf16", sign) for sign in (-1, 1)] == [2**-9, 2**-8]
    assert precision.lost_updates(torch.ones(2), torch.tensor([1e-4, -1e-4]), "bf16").all()


# --------------------------------------------------------------------------------------------- sums


def tree_sum(terms: list[float], form: Format, draw: st.DrawFn) -> float:
    """The sum in an order of somebody else's choosing: any two partial sums may be next."""
    held = list(terms)
    while len(held) > 1:
        a = held.pop(draw(st.integers(0, len(held) - 1)))
        b = held.pop(draw(st.integers(0, len(held) - 1)))
        held.append(round_to(torch.tensor(a + b, dtype=torch.float64), form).item())
    return held[0]


@settings(max_examples=60)
@given(data=st.data(), name=st.sampled_from(("bf16", "fp16", "fp32", "fp8_e4m3")))
def test_any_order_of_addition_stays_within_the_bound_of_dtype_and_length(data, name):
    form = number_format(name)
    numbers = data.draw(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=24))
    terms = round_to(torch.tensor(numbers, dtype=torch.float64), form)
    bound = precision.sum_bound(terms, form).item()
    exact = math.fsum(terms.tolist())
    for got in (
        tree_sum(terms.tolist(), form, data.draw),
        precision.running_sum(terms, form).item(),
        precision.pairwise_sum(terms, form).item(),
        precision.chunked_sum(terms, form, data.draw(st.integers(1, 30)), form).item(),
    ):
        assert abs(got - exact) <= bound
    assert abs(precision.pairwise_sum(terms, form).item() - exact) <= precision.sum_bound(terms, form, "pairwise")


@each_of("name", ["bf16", "fp16"])
def test_a_running_sum_of_ones_stops_where_the_spacing_reaches_two(name):
    form = number_format(name)
    stop = 2 ** (form.mantissa_bits + 1)
    ones = torch.ones(2 * stop)
    assert precision.running_sum(ones, form) == stop
    assert precision.pairwise_sum(ones, form) == precision.kahan_sum(ones, form) == 2 * stop
    assert precision.chunked_sum(ones, form, stop) == 2 * stop


def test_kahans_sum_has_an_error_that_does_not_grow_with_the_length():
    terms = round_to(torch.rand(4, 3000, generator=torch.Generator().manual_seed(1)), "bf16")
    exact, unit = terms.double().sum(-1), number_format("bf16").unit_roundoff
    assert ((precision.kahan_sum(terms, "bf16") - exact).abs() <= 3 * unit * exact).all()
    assert ((precision.running_sum(terms, "bf16") - exact).abs() > 0.5 * exact).all()


def test_sums_of_nothing_are_zero_and_odd_orders_are_refused():
    nothing = torch.empty(2, 0)
    sums = (precision.running_sum, precision.pairwise_sum, precision.kahan_sum, precision.sum_bound)
    assert all(torch.equal(add(nothing, "bf16"), torch.zeros(2)) for add in sums)
    assert torch.equal(precision.chunked_sum(nothing, "bf16", 4), torch.zeros(2))
    assert precision.sum_bound(torch.ones(300), "bf16") == math.inf, "the bound says nothing about so long a sum"
    with pytest.raises(ValueError, match="order is 'sorted'"):
        precision.additions_in_a_row(4, "sorted")
    with pytest.raises(ValueError, match="every is 0"):
        precision.chunked_sum(torch.ones(3), "bf16", 0)


# --------------------------------------------------------------------------------------------- softmax


# --------------------------------------------------------------------------------------------- loss scaling


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5))
def test_the_scale_moves_as_torchs_grad_scaler_moves_it(overflows, interval):
    ours = precision.LossScaler(scale=2.0**8, interval=interval, least=2.0**-40, most=2.0**60)
    scale, tracker = torch.tensor(2.0**8), torch.tensor(0, dtype=torch.int32)
    for overflow in overflows:
        ours.update(overflow)
        torch._amp_update_scale_(scale, tracker, torch.tensor(float(overflow)), 2.0, 0.5, interval)
        assert (ours.scale, ours.clean_steps) == (scale.item(), tracker.item())
    assert ours.skipped == sum(overflows)


def test_a_scale_stays_between_its_limits_and_starts_there():
    scaler = precision.LossScaler(scale=2.0, interval=1, least=1.0, most=4.0)
    seen = [scaler.scale for overflow in (False, False, True, True, True) if scaler.update(overflow) is None]
    assert seen == [4.0, 4.0, 2.0, 1.0, 1.0] and scaler.skipped == 3
    for wrong in ({"scale": 0.0}, {"interval": 0}, {"backoff": 2.0}, {"growth": 0.5}, {"scale": math.nan}):
        with pytest.raises(ValueError):
            precision.LossScaler(**wrong)


def test_infinite_and_nan_gradients_are_an_overflow_and_empty_ones_are_none():
    assert precision.has_overflow([torch.ones(2), torch.tensor([math.nan])])
    assert precision.has_overflow([torch.tensor([[-math.inf]])])
    assert not precision.has_overflow([]) and not precision.has_overflow([torch.empty(0), torch.zeros(3)])


# --------------------------------------------------------------------------------------------- 8 bits and fewer


@each_of("block", [None, 4, 32, (2, 8)])
@each_of("scale", ["fp32", "power of two"])
def test_a_block_is_off_by_half_a_spacing_of_its_largest_element(block, scale):
    x = torch.randn(6, 20, generator=torch.Generator().manual_seed(2)) * torch.logspace(-3, 3, 20)
    made = precision.quantize(x, "fp8_e4m3", block, scale)
    back = made.dequantize()
    sizes = made.block
    for i, j in itertools.product(range(0, 6, sizes[0]), range(0, 20, sizes[1])):
        part, got = (t[i : i + sizes[0], j : j + sizes[1]] for t in (x, back))
        # a power of two may leave the largest element saturated
        most = part.abs().max() / (16 if scale == "fp32" else 8)
        assert ((part - got).abs() <= most * 1.0001).all()
    assert made.values.abs().max() <= 448 and same(round_to(made.values, "fp8_e4m3"), made.values)


def test_bytes_count_values_and_scales():
    x = torch.randn(8, 64)
    assert precision.quantize(x, "fp8_e4m3").nbytes == 512 + 4
    assert precision.quantize(x, "fp8_e4m3", 32).nbytes == 512 + 16 * 4
    assert precision.mxfp8(x).nbytes == 512 + 16 and precision.mxfp4(x).nbytes == 256 + 16
    assert precision.nvfp4(x).nbytes == 256 + 32 + 4
    assert precision.quantize(torch.randn(5), "fp4_e2m1", 2).scales.shape == (3,)


def test_an_outlier_harms_its_own_block_only():
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(3))
    x[1, 5] = 1e7
    tensor, blocks = (precision.quantize(x, "fp8_e4m3", block).dequantize() for block in (None, 32))
    rest = torch.ones_like(x, dtype=torch.bool)
    rest[1, :32] = False
    assert (tensor[rest] == 0).all() and ((blocks - x)[rest].abs() <= x[rest].abs() / 14 + 1e-4).all()


def test_nvfp4_has_scales_that_are_e4m3_times_one_number_and_beats_mxfp4():
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(4)) * 1e-4
    made = precision.nvfp4(x)
    assert same(*(round_to(made.scales / made.scales.max() * 448, form) for form in ("fp8_e4m3", "fp16")))
    errors = [(each.dequantize() - x).norm() for each in (made, precision.mxfp4(x), precision.quantize(x, "fp4_e2m1"))]
    assert errors[0] < errors[1] < errors[2]


def test_zeros_have_a_scale_and_what_is_not_finite_has_none():
    for make in (precision.mxfp8, precision.mxfp4, precision.nvfp4):
        assert torch.equal(make(torch.zeros(3, 40)).dequantize(), torch.zeros(3, 40))
        with pytest.raises(ValueError, match="infinite or NaN"):
            make(torch.tensor([1.0, math.inf]))
    for wrong, words in (
        ((torch.empty(0), "bf16"), "at least one element"),
        ((torch.ones(4), "bf16", (2, 2)), "each of the 1 dim"),
    ):
        with pytest.raises(ValueError, match=words):
            precision.quantize(*wrong)


def test_a_delayed_scale_follows_the_largest_of_the_last_steps():
    delayed = precision.DelayedScale("fp8_e4m3", history=2, margin=1)
    scales = [delayed.scale]
    for largest in (4.0, 8.0, 2.0, math.inf, 1.0):
        delayed.observe(torch.tensor([0.5, -largest]))
        scales.append(delayed.scale)
    assert scales == [1.0, 56.0, 28.0, 28.0, 28.0, 112.0]
    delayed.observe(torch.empty(0))
    assert delayed.scale == 112.0


# --------------------------------------------------------------------------------------------- the optimizer


def trained(storage: str, steps: int = 12, **kwargs):
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 8)
    optimizer = precision.StoredAdamW(layer.parameters(), 1e-3, storage, **kwargs)
    coin = torch.Generator().manual_seed(1)
    for _ in range(steps):
        for parameter in layer.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=coin)
        optimizer.step()
    return layer, optimizer


def test_fp32_storage_is_torchs_adamw():
    ours, _ = trained("fp32", weight_decay=0.0)
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 8)
    theirs = torch.optim.AdamW(layer.parameters(), 1e-3, betas=(0.9, 0.95), weight_decay=0.0)
    coin = torch.Generator().manual_seed(1)
    for _ in range(12):
        for parameter in layer.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=coin)
        theirs.step()
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(ours.parameters(), layer.parameters(), strict=True))


@each_of("storage", [s for s in precision.STORAGE if s != "fp32"])
def test_what_a_forward_pass_reads_is_always_in_the_format(storage):
    layer, optimizer = trained(storage)
    assert all(same(round_to(p.data, "bf16"), p.data) for p in layer.parameters())
    assert optimizer.updates == 12 * 72 and 0 <= optimizer.lost <= optimizer.updates


def test_a_master_copy_loses_nothing_and_nearest_loses_most_and_kahan_follows_the_master():
    exact, _ = trained("fp32", 200)
    apart = {}
    for storage in precision.STORAGE[1:]:
        layer, optimizer = trained(storage, 200)
        pairs = zip(layer.parameters(), exact.parameters(), strict=True)
        apart[storage] = max((a - b).abs().max().item() for a, b in pairs)
        assert (optimizer.lost == 0) == (storage == "master")
    assert apart["master"] < apart["kahan"] * 2 < apart["nearest"]


def test_bytes_of_each_storage_and_odd_arguments():
    sizes = {storage: trained(storage, 0)[1].bytes_per_parameter for storage in precision.STORAGE}
    assert sizes == {"fp32": 12, "master": 14, "nearest": 10, "stochastic": 10, "kahan": 12}
    assert trained("nearest", 0, moments="bf16")[1].bytes_per_parameter == 6
    with pytest.raises(ValueError, match="storage is 'bf16'"):
        trained("bf16")
    with pytest.raises(ValueError, match="no parameters"):
        precision.StoredAdamW([], 1e-3)
    with pytest.raises(ValueError, match="lr is -1"):
        precision.StoredAdamW([torch.nn.Parameter(torch.ones(2))], -1)


def test_a_parameter_without_a_gradient_stays_and_counts_no_update():
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = precision.StoredAdamW([weight], 1e-3, "nearest")
    optimizer.step()
    assert torch.equal(weight.data, torch.ones(3)) and optimizer.updates == 0


def test_an_empty_tensor_has_no_codes():
    form = number_format("bf16")
    assert encode(torch.empty(0), form).shape == form.decode(torch.empty(0, dtype=torch.int64)).shape == (0,)
