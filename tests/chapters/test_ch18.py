"""Chapter 18's library: kernels recorded from a step, fusion, captured steps, compiled functions, traces."""

import json

import pytest
import torch

from course_app.recordings.kernel_trace import explain_traces
from course_chapters.ch18 import capture, compiled, fusion, kernels, launch_film, plots, published, trace
from course_lib.model.accounting import Accounting
from course_lib.model.transformer import Config, build
from tests.tables import each_of


def small_step():
    model = build(Config(vocab=32, layers=1, hidden=32, heads=4, seq_len=16))
    tokens = torch.zeros(2, 16, dtype=torch.int64)
    return lambda: model(tokens).sum().backward()


def test_a_recorded_step_has_the_matmuls_of_the_accounting_and_no_views():
    with Accounting() as account:
        small_step()()
    recorded = kernels.record(small_step())
    matmuls = kernels.by_kind(recorded)
    assert matmuls["matmul"][1] + matmuls.get("attention", (0, 0.0))[1] == account.flops
    assert not {"view", "transpose", "t", "expand", "detach"} & {each.name for each in recorded}


def test_the_meta_device_records_what_a_real_one_does():
    real, shape = torch.randn(1, 8, 64, requires_grad=True), {"hidden": 64, "heads": 4}
    block = kernels.Block(kernels.Config(layers=1, seq_len=8, attention="manual", **shape))
    names = [each.name for each in kernels.record(lambda: block(real).sum().backward())]
    assert [each.name for each in kernels.layer_kernels(8, dtype=torch.float32, **shape)] == names
    with pytest.raises(ValueError, match="kernels exist for float32"):
        kernels.layer_kernels(8, dtype=torch.int8)
    with pytest.raises(ValueError, match="heads"):
        kernels.layer_kernels(8, hidden=64, heads=7)


def test_fusion_keeps_the_arithmetic_and_every_dependency_and_never_moves_more():
    before = kernels.layer_kernels(64, hidden=256, heads=4)
    after = fusion.fuse(before)
    assert sum(each.flop for each in after) == sum(each.flop for each in before)
    assert sum(each.nbytes for each in after) < sum(each.nbytes for each in before) and len(after) < len(before) / 2
    assert [each for each in after if each.kind == "matmul"] and sorted(
        name for each in after for name in each.parts
    ) == sorted(each.name for each in before)
    made, ever = set(), {tensor for each in after for tensor in each.writes}
    for each in after:
        assert not (set(each.reads) & ever) - made, "a kernel reads what a later one writes"
        made |= set(each.writes)


def test_the_end_of_a_block_becomes_one_kernel_with_four_tensors():
    inputs = compiled.block_inputs(64, 1024)
    chain = kernels.record(lambda: compiled.block_end(*inputs))
    (fused,) = fusion.fuse(chain)
    assert fused.nbytes == 4 * inputs[0].nbytes + inputs[3].nbytes < sum(each.nbytes for each in chain) / 3


@each_of(
    "seconds, launch, gap, graph, total, idle",
    [
        ([2.0, 2.0, 2.0], 5.0, 0.0, False, 17.0, 11.0),
        ([2.0, 2.0, 2.0], 5.0, 0.0, True, 11.0, 5.0),
        ([9.0, 9.0], 1.0, 0.5, False, 19.5, 1.5),
        ([], 1.0, 0.0, False, 0.0, 0.0),
    ],
)
def test_a_queue_runs_kernels_when_they_are_launched_and_the_device_is_free(seconds, launch, gap, graph, total, idle):
    line = kernels.timeline(seconds, launch, gap, graph)
    assert (line.seconds, line.idle) == (total, idle)


def test_a_queue_refuses_negative_times():
    with pytest.raises(ValueError, match="launch"):
        kernels.timeline([1.0], -1.0)


def test_a_captured_training_step_trains_like_the_plain_one_bit_for_bit():
    launches, pool, equal = capture.trained_twice(steps=5)
    assert equal and launches > 100 and pool > 0


def test_a_capture_refuses_what_a_graph_cannot_hold_and_says_why():
    said = {words: capture.refused(lambda step=step: step(torch.ones(4))) for words, step in plots.CAPTURED.items()}
    assert [not why for why in said.values()] == [True] * 3 + [False] * 4
    assert "wait for the host" in said["`x.sum().item()`"] and "size depends on values" in said["`x[x > 0]`"]
    with capture.Graph() as graph, pytest.raises(capture.CaptureError, match="has not ended"):
        graph.replay()


def test_breaks_and_recompilations_are_counted():
    class Counter(torch.nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    x = torch.ones(3)
    seen = compiled.watched(Counter(), [(x,)] * 3)
    assert seen.graphs == (1, 1, 1) and not seen.broke
    assert [each.tolist() for each in seen.values] == [[count] * 3 for count in (1.0, 2.0, 3.0)]
    broken = compiled.watched(lambda x: x * 2 if x.sum() > 0 else x, [(x,)])
    assert "branching" in broken.broke and broken.values[0].tolist() == [2.0] * 3
    assert "item()" in compiled.watched(lambda x: x * x.sum().item(), [(x,)]).broke
    assert compiled.watched(lambda x: x + 1, [(x,), (x,)]).graphs == (1, 0)


def test_without_a_compiler_the_comparison_goes_on_and_says_so(monkeypatch):
    monkeypatch.setattr(compiled, "has_compiler", lambda: False)
    said: list[str] = []
    found = compiled.compare(said.append)
    assert found.backend == "aot_eager" and found.kernels == 9 and found.compiled > 0
    assert said[0].startswith("No C++ compiler") and len(said) == 2


def gpu_trace() -> dict:
    """A step on two streams: launches, a matmul, a norm, an all-reduce half of which is hidden, and a host's wait."""
    rows = [("cudaLaunchKernel", "cuda_runtime", 0, 5, 1), ("cudaLaunchKernel", "cuda_runtime", 5, 5, 2)]
    rows += [("sm90_xmma_gemm_bf16", "kernel", 10, 100, 1), ("triton_red_fused_mean_0", "kernel", 120, 40, 2)]
    rows += [("ncclDevKernel_AllReduce", "kernel", 140, 60, 3), ("cudaDeviceSynchronize", "cuda_runtime", 20, 150, 4)]
    events = [
        {"ph": "X", "name": name, "cat": kind, "ts": at, "dur": took, "pid": 0, "tid": 0, "args": {"correlation": same}}
        for name, kind, at, took, same in rows
    ]
    return {"traceEvents": events}


def test_a_trace_of_a_gpu_is_taken_apart_as_the_app_explains_it():
    found = trace.anatomy(gpu_trace())
    assert found.device == "GPU" and found.kernels == {"matmul": 1, "reduction": 1, "communication": 1}
    assert found.seconds == pytest.approx(190e-6) and found.idle == pytest.approx(10e-6)
    assert found.host_waits == pytest.approx(150e-6) and found.found_empty == 0.5
    parts = explain_traces({"trace.json": gpu_trace()}).numbers["seconds_per_step"][0]
    assert (found.exposed, found.idle) == (pytest.approx(parts["exposed"]), pytest.approx(parts["idle"]))


def test_a_trace_made_here_is_read_and_another_file_is_refused():
    found = trace.anatomy(json.loads(json.dumps(trace.profiled(small_step()))))
    assert found.device == "CPU" and found.kernels["matmul"] > 20 and 0 < found.idle < found.seconds
    for bad in ({}, {"traceEvents": [1]}, [], "text", {"traceEvents": [{"ph": "X", "name": "x", "ts": 1, "dur": 1}]}):
        with pytest.raises(ValueError, match=r"no trace of torch\.profiler|GPU kernel or an operation"):
            trace.anatomy(bad)


def test_the_film_shows_what_the_queue_did_and_each_way_is_faster():
    for tokens in (64, 1024):
        ways = [launch_film.run(way, tokens, 1024) for way in launch_film.WAYS]
        assert ways[0][1].seconds > ways[1][1].seconds > ways[2][1].seconds
        said = launch_film.draw_launches(launch_film.FRAMES, tokens, 1024).alt
        assert all(f"{len(line)} started" in said for line, _ in ways)
    with pytest.raises(ValueError, match="choose from eager"):
        launch_film.run("lazy", 64, 1024)


def test_published_speedups_are_the_quotients_of_their_rows():
    assert published.speedup("titan eager", "titan compiled") == pytest.approx(6667 / 5762)
    assert published.speedup("stream of 80", "graph of 80") == pytest.approx(260 / 70)
    with pytest.raises(ValueError, match="No measurement called"):
        published.measured("warp")


def test_the_planner_charges_small_kernels_and_launches():
    eager, fused, graph = (plots.mfu(*way) for way in (("eager", 1.4e-3), ("fused", 0.3e-3), ("fused", 0.0)))
    assert eager < fused <= graph < fused + 0.005  # at the plan's size a graph adds nothing
