"""What a rented GPU would meet first, without one: fused optimizers, memory, message sizes, minutes, the oldest
torch."""

import ast
import inspect
import io
import pickle
import re
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import fake_gpu
import gpu_lines
import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import Shard, distribute_tensor

from course_chapters.ch03 import measured_roofline as roofline
from course_lib.estimate.facts import chip, device
from course_lib.folders import ROOT
from course_lib.messages import Trouble
from course_lib.model import text, transformer
from course_lib.model.checkpoint import BackgroundSaver, CheckpointStore, resume
from course_lib.model.checkpoint.pieces import Piece
from course_lib.model.ledger import expecting, recording
from course_lib.parallel.tensor import rng
from course_runs import (
    collectives,
    context,
    eight_bits,
    evidence,
    evidence_checks,
    failure_drill_worker,
    matmul,
    min_torch,
    op_timer,
    options,
    parallel,
    peaks,
    predict,
    preflight,
    process_group,
    rates,
    reading,
    serve_arguments,
    sizes,
    stepping,
    store,
    tour,
    tracing,
    train,
    verify,
)
from course_runs.layouts import RunLayout
from course_runs.parallel import local
from course_runs.real_ranks import launched_rank
from tests.tables import each_of

FREE = 79.1 * 2**30  # bytes that an 80 GB H100 has left once torch has begun


@pytest.fixture
def alone():
    """A process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_a_fused_optimizer_takes_plain_tensors_and_those_of_two_meshes(alone):
    two = init_device_mesh("cpu", (1, 1), mesh_dim_names=("fsdp", "tp"))
    start = [torch.randn(4, 4, generator=torch.Generator().manual_seed(n)) for n in range(3)]
    spread = [
        start[0].clone(),
        distribute_tensor(start[1], two["fsdp"], [Shard(0)]),
        distribute_tensor(start[2], two, [Shard(0), Shard(1)]),
    ]
    found = {}
    for name, tensors, fused in (("plain", [t.clone() for t in start], False), ("spread", spread, True)):
        parameters = [torch.nn.Parameter(t) for t in tensors]
        groups = parallel.optimizer_groups(parameters)
        assert len(groups) == (1 if name == "plain" else 3)
        optimizer = torch.optim.AdamW(groups, lr=0.1, fused=fused)
        for p in parameters:
            p.grad = p.detach() * 2
        optimizer.step()
        found[name] = [local(p.detach()) for p in parameters]
    for one, other in zip(found["plain"], found["spread"], strict=True):
        torch.testing.assert_close(one, other)


@each_of("data_ranks, batch", [(1, 4), (2, 8), (4, 8)])
def test_ranks_build_their_own_rows_of_the_batch_and_no_others(data_ranks, batch):
    config = sizes.size("1m").config()
    parts = [stepping.batch_of(3, batch, config, r, data_ranks, torch.device("cpu")) for r in range(data_ranks)]
    for whole, mine in zip(text.batch(3, batch, config.seq_len), zip(*parts, strict=True), strict=True):
        assert torch.equal(whole, torch.cat(mine))


@each_of("gpus", [1, 2, 4, 8])
def test_every_stage_of_the_tour_fits_an_80_gb_gpu(gpus):
    for stage in tour.stages(gpus, False):
        if stage.program == "train":
            job = options.job_of(options.arguments(stage.arguments), stage.nproc, "cuda")
            need = max(sum(predict.memory_bytes(job, number).values()) for number in range(job.layout.pp))
            assert need < 0.8 * peaks.usable(FREE), stage.name


def test_a_sweep_ends_at_the_size_that_it_promises():
    for largest, ranks in ((1e9, 8), (64e6, 2), (1.7e7, 2), (4.1e6, 2)):
        found = collectives.sizes(1e3, largest, ranks)
        assert found == sorted(set(found)) and largest / 1.5 <= found[-1] <= largest
        assert all(nbytes % (4 * ranks) == 0 for nbytes in found)
    assert collectives.sizes(1e3, 1e9, 8)[-1] == 1_000_000_000


def test_the_minutes_that_are_advised_are_those_of_the_plan(capsys):
    said = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "course_runs/cloud/sky.yaml"))
    advised = {int(n) for n in re.findall(r"(?:tour --minutes |MINUTES: .)(\d+)", said)}
    expected = sum(stage.minutes for stage in tour.stages(8, False))
    assert len(advised) == 1 and expected <= min(advised) <= 60
    assert tour.main(["--plan", "--gpus", "8", "--minutes", str(*advised)]) == 0
    assert "less than" not in capsys.readouterr().out
    assert tour.main(["--plan", "--gpus", "8", "--minutes", "45"]) == 0
    assert f"allow {expected:.0f} minutes for all of them" in capsys.readouterr().out


def test_heads_that_are_no_whole_16_bytes_wide_are_filled_up_and_give_the_same():
    q, k, v = (torch.randn(2, 4, 16, 18, requires_grad=True) for _ in range(3))
    want = transformer.attend(q, k, v, "math")
    got = transformer._in_whole_rows(q, k, v, -18 % 4, 0.0)
    torch.testing.assert_close(got, want)
    for one, other in zip(*(torch.autograd.grad(out.square().sum(), (q, k, v)) for out in (got, want)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_before_each_cold_call_the_cache_is_written_over(monkeypatch):
    seen, here = [], process_group.Place(0, 1, 0, 1, torch.device("cuda"), "nccl")
    waste = SimpleNamespace(zero_=lambda: seen.append("flush"))
    with pytest.MonkeyPatch.context() as patched, fake_gpu.gpu(patched):
        patched.setattr(torch, "empty", lambda size, **_: seen.append(size) or waste)
        for cold in (True, False):
            assert len(op_timer.seconds_of(lambda: seen.append("work"), here, 2, cold=cold)) == 2
        patched.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace())
        assert op_timer.cache_bytes(here.device) == 256_000_000
    assert seen == [100 * 2**20, "flush", "work", "flush", "work", 0, "work", "work"]


def test_a_step_asks_the_device_for_no_number(alone, monkeypatch):
    layout, here = RunLayout(), process_group.Place(0, 1, 0, 1, torch.device("cpu"), "gloo")
    config, choices = sizes.size("1m").config(seq_len=16), parallel.Choices(dtype=torch.float32, fused=True)
    mesh = parallel.mesh_of(layout, here)
    stepper = stepping.Stepper(
        parallel.pieces_here(config, layout, mesh, here), config, layout, mesh, here, choices, 2, 1e-3
    )
    for name in ("item", "tolist", "__bool__", "__float__", "__int__", "cpu", "numpy"):
        monkeypatch.setattr(torch.Tensor, name, lambda *_, name=name: pytest.fail(f"{name} waits for a GPU"))
    found = [stepper.launch(number, 1e-3) for number in range(2)]
    monkeypatch.undo()
    assert all(set(map(type, each.values())) == {torch.Tensor} for each in found)
    assert float(found[0]["loss"]) > 0 and float(found[1]["gradient_norm"]) > 0


def test_the_rank_with_the_least_memory_decides_for_all(monkeypatch):
    def least_of_two(tensor, op):
        assert op == dist.ReduceOp.MIN
        tensor.clamp_(max=5e9)

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (int(FREE), int(FREE)))
    monkeypatch.setattr(dist, "all_reduce", least_of_two)
    monkeypatch.setattr(torch, "tensor", lambda value, **_: torch.full((1,), value[0], dtype=torch.float64))
    found = [peaks.memory_of(process_group.Place(0, n, 0, n, torch.device("cuda"), "nccl")) for n in (1, 2)]
    assert found == [peaks.usable(int(FREE)), peaks.usable(5e9)]


def test_a_short_patience_begins_once_all_ranks_have_met(monkeypatch):
    calls = []
    monkeypatch.setattr(dist, "all_reduce", lambda _: calls.append("met"))
    monkeypatch.setattr(dist.distributed_c10d, "_set_pg_timeout", lambda wait: calls.append(wait.total_seconds()))
    failure_drill_worker.hurry(process_group.Place(0, 2, 0, 2, torch.device("cpu"), "gloo"), 5.0)
    assert calls == ["met", 5.0] and failure_drill_worker.START >= 60, "NCCL's own start may take half a minute"


@pytest.mark.parametrize("version", ["2.5.1", "2.6.0+cu124", "2.7.1"])
def test_an_older_torch_is_refused_by_name(version, monkeypatch, capsys):
    monkeypatch.setattr(torch, "__version__", version)
    assert train.main(["--device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert f"This is torch {version}" in said and "2.8 or newer" in said and "Way out:" in said


def test_the_oldest_torch_is_the_one_that_the_project_asks_for():
    least = ".".join(map(str, min_torch.OLDEST))
    min_torch.require(f"{least}.0+cpu")
    assert f'"torch>={least},<3"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f"torch {least}, numpy" in (ROOT / "README.md").read_text(encoding="utf-8")
    with pytest.raises(Trouble):
        min_torch.require("2.7.9")


# --- the lines that only a GPU reaches, on one that is really the CPU


def _train(folder):
    words = (
        "--size 1m --layout single --batch 2 --micro-batches 2 --seq-len 32 --steps 6 --save-every 2 --trace --name one"
    )
    assert train.main([*words.split(), "--out", str(folder)]) == 0


def _matmul(folder):
    assert matmul.main(["--seconds", "0.001", "--out", str(folder), "--name", "matmul"]) == 0


def _links(folder):
    words = "--kinds all_reduce --largest 1e5 --seconds 0.01 --name links"
    assert collectives.main([*words.split(), "--out", str(folder)]) == 0


def _launched(folder):
    job = {"seed": 0, "backend": "nccl", "ranks": 1, "timeout": 20}
    (folder / "job.0").write_bytes(pickle.dumps(job) + pickle.dumps((_one, ())))
    assert launched_rank._result(folder, 0)


def _one(comm):
    return comm.size


def _asked_for_too_much():
    with pytest.raises(Trouble, match="8 processes were asked for, and this machine has 1 GPU"):
        process_group.choose("cuda", "auto", 8)
    with pytest.raises(Trouble, match="NCCL moves data between GPUs only"):
        process_group.choose("cpu", "nccl", 1)
    with pytest.raises(Trouble, match="--backend is 'mpi'"):
        process_group.choose("cuda", "mpi", 1)
    with pytest.MonkeyPatch.context() as none, pytest.raises(Trouble, match="no GPU that torch can see"):
        none.setattr(torch.cuda, "device_count", lambda: 0)
        process_group.choose("cuda", "auto", 1)
    with pytest.MonkeyPatch.context() as several, pytest.raises(Trouble, match="this machine has 2 GPUs"):
        several.setattr(torch.cuda, "device_count", lambda: 2)
        process_group.choose("cuda", "auto", 8)
    with pytest.raises(ValueError, match="this machine has cpu and cuda"):
        roofline._device("tpu")
    with pytest.MonkeyPatch.context() as none, pytest.raises(ValueError, match="only cpu: torch sees no GPU"):
        none.setattr(torch.cuda, "is_available", lambda: False)
        roofline._device("cuda")
    with pytest.MonkeyPatch.context() as none, pytest.raises(Trouble, match="There is no device 'cuda' here"):
        none.setattr(torch.cuda, "is_available", lambda: False)
        serve_arguments.arguments(["--device", "cuda"])


def _peaks():
    """The peaks of a GPU that the facts have, in two dtypes, and of one that they do not have."""
    where = torch.device("cuda")
    found = [peaks.peak_flops(where, dtype, 1.0)[0] for dtype in (torch.bfloat16, torch.float32)]
    with pytest.MonkeyPatch.context() as other:
        other.setattr(torch.cuda, "get_device_name", lambda *_: "NVIDIA RTX 6000 Ada Generation")
        return [*found, peaks.peak_flops(where, torch.bfloat16, 1.0)[0]]


def _met_by_torchrun():
    """What a rank that torchrun starts asks NCCL for; nothing is joined."""
    asked, names = {}, ("backend", "timeout", "device_id")
    with pytest.MonkeyPatch.context() as started:
        for name, value in {"RANK": 5, "WORLD_SIZE": 8, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}.items():
            started.setenv(name, str(value))
        started.setattr(process_group, "_meet", lambda *given: asked.update(zip(names, given, strict=True)))
        asked["place"] = process_group.join("cuda", "auto", 7.0)
    return asked


def _largest_message():
    """How large a message a sweep on a GPU goes up to by itself."""
    with pytest.MonkeyPatch.context() as small:
        asked = []
        small.setattr(collectives, "sizes", lambda *given: asked.append(given) or [1_000])
        assert collectives.main(["--kinds", "all_reduce", "--seconds", "0.001"]) == 0
    return asked[0][1]


def _sharded():
    """The units of a model that FSDP shards over a mesh of GPUs, and those of them that were told to add up and not to
    average."""
    units, told = [], []
    unit = type("Unit", (FSDPModule,), {"set_force_sum_reduction_for_comms": lambda self, on: told.append(self)})

    def sharded(model, **_):
        units.append(model)
        return object.__new__(unit)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("torch.distributed.fsdp.fully_shard", sharded)
        model = SimpleNamespace(blocks={"0": "block 0", "1": "block 1"})
        choices = parallel.Choices(dtype=torch.bfloat16)
        parallel._shard(model, RunLayout(fsdp=2), {"fsdp": SimpleNamespace(device_type="cuda")}, choices)
    return units, told


def _drawn():
    """Numbers that two ranks draw on the GPU within a tensor-parallel region, and one that both draw after it."""
    drawn = []
    for rank in range(2):
        torch.manual_seed(1)
        torch.cuda.manual_seed(1)
        with rng.inside(SimpleNamespace(rank=rank)):
            drawn.append(int(torch.randint(2**31, (), generator=fake_gpu.RANDOM)))
        drawn.append(int(torch.randint(2**31, (), generator=fake_gpu.RANDOM)))
    return drawn


def _saved_random():
    """Two numbers of the GPU's generator, the second after its saved state was restored."""
    state, drawn = resume.capture_rng(), []
    for _ in range(2):
        drawn.append(int(torch.randint(2**31, (), generator=fake_gpu.RANDOM)))
        resume.restore_rng(state)
    return drawn


def _saved_behind(folder):
    """Bytes of pinned memory for two saves of a GPU's tensor, and whether the copies were waited for before `save`
    returned."""
    saver = BackgroundSaver(CheckpointStore(folder), 0, 1, buffers=1)
    values, waited = torch.arange(6.0).as_subclass(fake_gpu.OnGpu), []
    fake_gpu.PINNED.clear()
    for step in (1, 2):
        fake_gpu.Event.waited = False
        saver.save(step, "a", [Piece("w", (6,), 0, values)])
        waited.append(fake_gpu.Event.waited)
        saver.wait()
    return list(fake_gpu.PINNED), waited


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """What ran on the GPU that is not there: the folder of its evidence, what NCCL was asked for, the lines reached."""
    folder, found = tmp_path_factory.mktemp("gpu"), SimpleNamespace(peak=[])
    with pytest.MonkeyPatch.context() as patched, fake_gpu.gpu(patched) as nccl, gpu_lines.traced() as ran:
        patched.setattr(rates.timed, "__defaults__", (0.01,))
        patched.setattr(preflight, "COPIED", 1_000_000)
        patched.setattr(matmul, "SQUARES", {"cuda": (64, 128)})
        patched.setattr(matmul, "MODEL", {"cuda": ((64, 32, 96),)})
        patched.setattr(roofline, "GPU_SIZES", (32, 64, 128, 192, 256))
        _train(folder)
        _matmul(folder)
        _links(folder)
        _launched(folder)
        _asked_for_too_much()
        found.copied = preflight._measured([preflight.Gpu(fake_gpu.Properties().name)])
        found.roofs = roofline.measure("cuda", seconds=0.05, quick=True)
        found.unwaited = roofline.without_waiting("cuda", size=64, repeats=3)
        with recording._device_peak(torch.device("cuda"), found.peak):
            pass
        found.missing = transformer._missing(
            SimpleNamespace(shape=(1, 18), element_size=lambda: 4, device=torch.device("cuda"))
        )
        tile = SimpleNamespace(device=torch.device("cuda"), dtype=torch.bfloat16)
        found.kernels = context.kernels(tile), context.kernels(SimpleNamespace(device=tile.device, dtype=torch.float32))
        found.peaks, found.met, found.largest, found.sharded = (
            _peaks(),
            _met_by_torchrun(),
            _largest_message(),
            _sharded(),
        )
        found.drawn, found.saved_random, found.saved = _drawn(), _saved_random(), _saved_behind(folder / "behind")
        weight = SimpleNamespace(dtype=torch.float32, device=tile.device)
        found.backend = expecting.Backend.of(SimpleNamespace(parameters=lambda: iter([weight])))
        found.default = roofline._device(None)
        found.command = io.StringIO()
        with redirect_stdout(found.command):
            assert train.main(["--layout", "single", "--batch", "2", "--print-command", "megatron"]) == 0
        patched.setenv("COURSE_EVIDENCE", str(folder))
        found.stored = [row for row in store.rows() if row["from"] == "own"]
        found.hardware = reading.hardware_rows("own")
        eight_bits.require(torch.device("cuda"))
        patched.setattr(torch.cuda, "get_device_capability", lambda *_: (8, 0))
        with pytest.raises(Trouble, match="has compute capability 8.0"):
            eight_bits.require(torch.device("cuda"))
    found.folder, found.nccl, found.ran = folder, nccl.asked, ran
    return found


@pytest.mark.parametrize("of", [gpu_lines.lines_of, gpu_lines.branches_of])
def test_nearly_every_line_and_branch_that_only_a_gpu_reaches_is_run(bench, of):
    done, total, missing = gpu_lines.covered(bench.ran, of=of)
    assert total > 60 and done >= 0.95 * total, missing


def test_each_outcome_of_a_condition_is_a_branch_of_its_own(tmp_path):
    path = tmp_path / "sample.py"
    path.write_text(
        "def work(gpu, cold):\n"
        "    if gpu:\n"
        "        if cold:\n"
        "            return 1\n"
        "        return 2 if cold is None else 3\n"
        "    while not gpu:\n"
        "        return 4\n"
    )
    module = {}
    exec(compile(path.read_text(), str(path), "exec"), module)
    found = gpu_lines.branches_of(path)
    assert found == {(2, 7, True), (3, 11, True), (3, 11, False), (5, 20, True), (5, 20, False), (6, 10, False)}
    for given, reached in (
        ((True, True), {(2, 7, True), (3, 11, True)}),
        ((True, None), {(2, 7, True), (3, 11, False), (5, 20, True)}),
        ((True, 0), {(2, 7, True), (3, 11, False), (5, 20, False)}),
        ((False, True), set()),
    ):
        with gpu_lines.traced([path]) as seen:
            module["work"](*given)
        assert seen[str(path)] & found == reached


def test_each_run_asks_nccl_for_its_own_gpu(bench):
    assert {backend for backend, _ in bench.nccl} == {"nccl"}


def test_a_run_on_one_gpu_leaves_whole_evidence_of_it(bench):
    content, found = verify.verified(bench.folder / "one.json")
    seen, measured = content["environment"], content["measured"]
    assert (seen["device"], seen["capability"], seen["nccl"], seen["cuda"]) == (
        fake_gpu.Properties().name,
        "9.0",
        "2.27.5",
        "12.8",
    )
    assert content["setup"]["dtype"] == "bfloat16" and measured["memory_by"] == {"reserved": 3e8}
    assert measured["peak_flops"] == float(device("H100 SXM").dense_flops)
    assert measured["memory_bytes"] == 200_000_000
    assert {gate.name: gate.ok for gate in found}["step time follows from raw times"]
    assert [path.name for path in sorted((bench.folder / "checkpoints").iterdir())] == ["00000004", "00000006"]
    assert (bench.folder / "traces" / "one-rank0.json.gz").stat().st_size > 1000


def test_products_and_collectives_are_timed_by_events_on_a_gpu(bench):
    products, links = (evidence.read(bench.folder / f"{name}.json") for name in ("matmul", "links"))
    assert products["setup"]["dtypes"] == ["bf16", "fp32"] and products["measured"]["peak_flops_bf16"]
    assert all(row["repeats"] >= 5 and min(row["seconds"]) > 0 for row in links["raw"]["rows"])
    assert [line.what for line in bench.copied] == ["copy"]
    assert bench.roofs.cache == fake_gpu.Properties().L2_cache_size and bench.roofs.device == fake_gpu.Properties().name
    assert bench.missing == 2 and len(bench.peak) == 1
    assert bench.largest == 1e9


def test_a_gpu_is_met_measured_and_named_as_one(bench):
    assert bench.peaks == [float(device("H100 SXM").dense_flops), float(chip("H100 SXM").fp32_flops), 1.0]
    assert bench.met["backend"] == "nccl"
    assert bench.met["device_id"] == bench.met["place"].device == torch.device("cuda:0")
    assert bench.met["timeout"].total_seconds() == 7 and (bench.met["place"].rank, bench.met["place"].ranks) == (5, 8)
    assert bench.kernels == ((context._gpu, context._gpu_backward), (context._plain, context._plain_backward))
    assert bench.default == torch.device("cuda") and bench.backend.mask_bytes == 1
    assert {row["device"] for row in bench.stored} == {fake_gpu.Properties().name} and len(bench.stored) == 3
    assert "--bf16" in bench.command.getvalue()
    (row,) = bench.hardware
    assert "H100" in row["hardware"] and (row["processes"], row["backend"]) == (1, "")


@pytest.mark.parametrize("name", ["one", "matmul"])
def test_no_gate_on_peaks_speaks_against_an_honest_run_on_a_gpu(bench, name):
    content = evidence.read(bench.folder / f"{name}.json")
    found = {gate.name: gate.ok for gate in evidence_checks.gates(content) if "data sheet" in gate.name}
    assert found and all(found.values())
    content["environment"] |= {"device": "NVIDIA A100-SXM4-40GB", "capability": "8.0"}
    assert "the fp32 peak is the data sheet's" not in {gate.name for gate in evidence_checks.gates(content)}


def test_nccl_averages_the_gradients_of_shards_by_itself(bench):
    units, told = bench.sharded
    assert units[:2] == ["block 0", "block 1"] and len(units) == 3 and not told


def test_random_numbers_of_a_gpu_are_each_ranks_own_within_a_region_and_come_back_with_a_checkpoint(bench):
    own, after, others, after_too = bench.drawn
    assert own != others and after == after_too
    assert bench.saved_random[0] == bench.saved_random[1]


def test_a_checkpoint_behind_the_training_is_copied_to_pinned_memory_once_and_waited_for(bench):
    pinned, waited = bench.saved
    assert pinned == [24] and waited == [True, True]


def test_the_fakes_have_the_parameters_and_fields_of_torchs_own():
    for fake in fake_gpu.FUNCTIONS:
        real = inspect.signature(getattr(torch.cuda, fake.__name__))
        assert list(inspect.signature(fake).parameters) == list(real.parameters), fake.__name__
    for fake in (fake_gpu.Event, fake_gpu.Stream):
        real = getattr(torch.cuda, fake.__name__)
        for name, method in vars(fake).items():
            if inspect.isfunction(method) and not name.startswith("_"):
                assert list(inspect.signature(method).parameters) == list(
                    inspect.signature(getattr(real, name)).parameters
                ), name
    stub = ast.parse((Path(torch.__file__).parent / "_C" / "__init__.pyi").read_text(encoding="utf-8"))
    (fields,) = (
        {each.target.id for each in node.body if isinstance(each, ast.AnnAssign)}
        for node in stub.body
        if isinstance(node, ast.ClassDef) and node.name == "_CudaDeviceProperties"
    )
    assert set(vars(fake_gpu.Properties())) <= fields


def test_annotations_that_span_idle_time_are_no_kernels():
    gpu = torch.autograd.DeviceType.CUDA
    assert tracing._is_kernel(SimpleNamespace(device_type=gpu, is_user_annotation=False))
    assert not tracing._is_kernel(SimpleNamespace(device_type=gpu, is_user_annotation=True))
    assert not tracing._is_kernel(SimpleNamespace(device_type=torch.autograd.DeviceType.CPU))
