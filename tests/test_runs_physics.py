"""Forged evidence: recorded runs with other times and other devices, sealed again. What physics can contradict, it
does."""

import copy
import struct
from statistics import median

import pytest
import torch

from course_lib.estimate.facts import device
from course_runs import evidence, evidence_checks, forged_examples, peaks, predict, recomputed, store, verify
from course_runs.gate import MEASURED
from course_runs.reading import recorded, recorded_names
from course_runs.ring_bytes import ring_sent
from tests.tables import each_of

H100 = {"device": "NVIDIA H100 80GB HBM3", "gpus": 8, "cuda": "12.8", "capability": "9.0", "torch": "2.13.0+cu128"}


def scaled(content, share):
    """The evidence with every time multiplied by `share`, and all that follows from times."""
    forged = copy.deepcopy(content)
    if content["kind"] == "train":
        forged = copy.deepcopy(forged_examples.times(content, share, everywhere=True))
        known = _faster(forged["setup"]["rates"], share, ("flops", "memory", "wire"), ("alpha", "block", "ends"))
        known["wires"] = {name: (alpha * share, rate / share) for name, (alpha, rate) in known["wires"].items()}
        forged["setup"]["rates"] = known
        forged["measured"] |= {"peak_flops": known["flops"], "mfu": content["measured"]["mfu"]}
        said = forged["predicted"]["step_seconds"]
        forged["predicted"] |= predict.predict(recomputed.job_of(forged), predict.Rates(**known)).as_data()
        next(term for term in forged["measured"]["gap"] if term["of"] == "seconds")["seconds"] -= (
            forged["predicted"]["step_seconds"] - said
        )
        for kind, pairs in forged["raw"].get("intervals", {}).items():
            forged["raw"]["intervals"][kind] = [[start * share, end * share] for start, end in pairs]
    else:
        slow, fast = ("median", "q1", "q3"), ("bus", "algorithm", "flops", "flops_q1", "flops_q3")
        rows = [_faster(row, share, fast, slow) for row in forged["raw"]["rows"]]
        forged["raw"]["rows"] = [{**row, "seconds": [each * share for each in row["seconds"]]} for row in rows]
        names = [name for name in forged["measured"] if name.startswith("best_flops")]
        forged["measured"] = _faster(forged["measured"], share, names, ())
        for line in forged["measured"].get("fits", {}).values():
            line.update(_faster(line, share, ("beta", "bus"), ("alpha",)))
    return evidence.sealed(forged)


def _faster(row, share, rates, times):
    return {
        **row,
        **{name: row[name] / share for name in rates if name in row},
        **{name: row[name] * share for name in times if name in row},
    }


def renamed(content, setup=None, **environment):
    """The evidence with another device's name, sealed again."""
    changed = {"environment": content["environment"] | environment, "setup": content["setup"] | (setup or {})}
    return evidence.sealed({**content, **changed})


def contradicted(content):
    return {gate.name for gate in evidence_checks.gates(content) if not gate.ok}


def memory():
    return int(0.98 * float(device("H100 SXM").memory))


RUNS = ("cpu2/fsdp", "cpu2/trace-ddp", "cpu1/one", "cpu1/matmul", "cpu2/links")


def test_no_gate_contradicts_what_was_recorded():
    for name in recorded_names():
        assert contradicted(recorded(name)) == set(), name
        assert evidence_checks.verdict(recorded(name)) == "claimed"


@each_of("name", RUNS)
def test_a_hundred_times_faster_than_it_was_is_more_than_its_device_can(name):
    forged = scaled(recorded(name), 0.01)
    assert contradicted(forged) & {
        "no faster than the device",
        "float32 no faster than the device",
        "fp32 no faster than the device",
        "no faster than the link",
    }


@each_of("name", RUNS)
def test_a_gpus_name_alone_is_contradicted_by_the_software(name):
    forged = renamed(scaled(recorded(name), 0.01), device=H100["device"])
    assert "the device fits its software" in contradicted(forged)


@each_of("name", RUNS)
def test_a_gpu_beside_a_run_on_the_cpu_does_not_lend_it_its_speed(name):
    forged = renamed(scaled(recorded(name), 0.01), **H100, device_memory=memory())
    assert evidence_checks.verdict(forged) == "contradicted"


@each_of("name, gate", [("cpu1/matmul", "fp32 is that of a GPU"), ("cpu2/links", "the backend fits the device")])
def test_a_slow_gpu_or_one_behind_the_wrong_backend_is_none(name, gate):
    content = recorded(name)
    if content["kind"] == "matmul":
        row = content["raw"]["rows"][0]
        content["raw"]["rows"] = [{**row, "shape": [4096] * 3, "seconds": [1.0] * 5}]
        forged = renamed(content, {"device": "cuda"}, **H100, device_memory=memory())
    else:
        forged = renamed(content, {"backend": "nccl"}, **H100, device_memory=memory())
    assert gate in contradicted(forged)


def _busy(content, times):
    """The steps as a neighbor slowed some of them down, with all that follows."""
    rows = content["raw"]["steps"]
    for number, row in enumerate(rows):
        row["seconds"] *= times if number % 4 == 0 else 1.0
    timed = sorted(row["seconds"] for row in rows[content["setup"]["warm_up"] :])
    taken, measured = median(timed), content["measured"]
    measured["gap"][0]["seconds"] += taken - measured["step_seconds"]
    share = taken / measured["step_seconds"]
    measured |= {"step_seconds": taken, "step_seconds_p10": timed[len(timed) // 10]}
    measured |= {"step_seconds_p90": timed[min(len(timed) * 9 // 10, len(timed) - 1)]}
    measured |= {name: measured[name] / share for name in ("tokens_per_s", "mfu")}


TOLD_OTHERWISE = {
    "percentiles": (
        lambda c: c["measured"].update(step_seconds_p90=1.0),
        "percentiles and losses follow from the steps",
    ),
    "a last loss": (lambda c: c["measured"].update(last_loss=1.0), "percentiles and losses follow from the steps"),
    "more parameters": (lambda c: c["setup"].update(parameters=10**9), "parameters follow from the model"),
    "a quicker prediction": (lambda c: c["predicted"].update(step_seconds=1e-3), "predictions follow from the rates"),
    "a smaller prediction": (
        lambda c: c["predicted"]["memory"].update(weights=1.0),
        "predictions follow from the rates",
    ),
    "other rates": (lambda c: c["setup"]["rates"].update(block=1e-3), "predictions follow from the rates"),
    "another layout's calls": (lambda c: c["measured"]["wire"].update(send=5e4), "calls are those of the layout"),
    "fewer bytes": (
        lambda c: c["measured"].update(wire={"all_gather": 1e5}, wire_bytes=1e5),
        "bytes are those of the layout",
    ),
    "a loss of another model": (
        lambda c: [row.update(loss=2 * row["loss"]) for row in c["raw"]["steps"]],
        "the first loss is that of a guess",
    ),
    "steps that never vary": (lambda c: [row.update(seconds=0.1) for row in c["raw"]["steps"]], "times vary"),
    "a day before its torch": (lambda c: c.update(when="2026-07-07T12:00:00+00:00"), "not before its software"),
    "a year before its GPU": (
        lambda c: (c["environment"].update(H100, torch="1.0"), c.update(when="2019-01-01T00:00:00+00:00")),
        "not before its device",
    ),
    "ten times the tokens": (
        lambda c: (
            c["setup"].update(tokens_per_step=20480),
            c["measured"].update(tokens_per_s=10 * c["measured"]["tokens_per_s"]),
        ),
        "tokens follow from the batch",
    ),
    "more steps": (lambda c: c["setup"].update(steps=400), "steps are those of the setup"),
    "half the peak": (
        lambda c: c["measured"].update(peak_flops=c["measured"]["peak_flops"] / 2, mfu=2 * c["measured"]["mfu"]),
        "the peak is the measured rate",
    ),
    "seconds of another part": (
        lambda c: c["predicted"]["seconds"].update(
            communication=0.0,
            arithmetic=c["predicted"]["seconds"]["arithmetic"] + c["predicted"]["seconds"]["communication"],
        ),
        "predictions follow from the rates",
    ),
    "less saved for backward": (
        lambda c: c["measured"]["memory_by"].update({"saved for backward": 1.0}),
        "memory is that of its parts",
    ),
    "many calls": (lambda c: c["measured"]["wire_calls"].update(all_gather=90), "as many calls as the layout makes"),
    "a norm below 0": (lambda c: c["raw"]["steps"][7].update(gradient_norm=-1.0), "gradient norms are numbers from 0"),
    "more ranks than GPUs": (
        lambda c: (c["environment"].update(H100, gpus=1), c["setup"].update(device="cuda", backend="nccl")),
        "each rank has a GPU",
    ),
}


@each_of("name", TOLD_OTHERWISE)
def test_what_can_be_computed_again_from_a_file_must_be_what_it_says(name):
    harm, gate = TOLD_OTHERWISE[name]
    content = copy.deepcopy(recorded("cpu2/fsdp"))
    harm(content)
    assert gate in contradicted(evidence.sealed(content)) and evidence_checks.verdict(content) == "contradicted"


COUNTS, STEPS = "diagnoses are counted", "rewards and times follow from the steps"
OTHER_KINDS = [  # a file, what is changed in it, and the gate that notices
    ("cpu2/failures", lambda c: c["raw"]["rows"][2].update(kind="none"), COUNTS),
    ("cpu2/failures", lambda c: c["measured"].update(found=9, of=9), COUNTS),
    ("cpu2/failures", lambda c: c["raw"]["rows"][1].update(code=0), "a rank that is lost ends the run with an error"),
    ("cpu2/survive", lambda c: c["raw"]["rows"][0].update(ok=False), "verdicts follow from what was found"),
    ("cpu2/survive", lambda c: c["raw"]["rows"][0].update(found="hung"), COUNTS),
    ("cpu2/survive", lambda c: c["raw"]["harmed"].update(weights="0" * 64), "the weights are compared as they are"),
    ("cpu2/survive", lambda c: c["raw"]["harmed"]["losses"].reverse(), "equal weights have equal losses"),
    ("cpu2/survive", lambda c: c["raw"]["resized"].update(once=False), "every sample once, as the runs say"),
    ("cpu2/posttrain", lambda c: c["measured"].update(last_reward=0.99), STEPS),
    ("cpu2/posttrain", lambda c: c["measured"].update(writing_share=0.1), STEPS),
    ("cpu2/posttrain", lambda c: c["raw"]["rows"].pop(70), "every step was taken"),
    ("cpu2/posttrain", lambda c: c["predicted"].update(answers=10**6), "answers follow from the plan"),
    (
        "cpu2/posttrain",
        lambda c: [row.update(reward=row["reward"] * 0.9) for row in c["raw"]["rows"]],
        "rewards are shares of the answers",
    ),
    ("cpu2/machine", lambda c: c["raw"]["lines"][0].update(state="fail"), "the verdict follows from the lines"),
    (
        "cpu1/serve",
        lambda c: c["measured"]["rows"][0].update(tokens_per_s=124.0),
        "2.64 requests/s: tokens/s follow from raw times",
    ),
    ("cpu1/serve", lambda c: c["measured"].update(received=13, outcomes={"refused": 13}), "answers were received"),
    ("cpu2/data", lambda c: c["measured"].update(largest_difference=1e-7), "losses are those of one process"),
    (
        "cpu2/parity",
        lambda c: [row.update(allowed=1.0) for row in c["raw"]["rows"]],
        "what rounding explains follows from the steps",
    ),
]


@each_of("name, harm, gate", OTHER_KINDS)
def test_a_file_of_another_kind_says_what_follows_from_its_rows(name, harm, gate):
    content = copy.deepcopy(recorded(name))
    harm(content)
    assert gate in contradicted(evidence.sealed(content)) and evidence_checks.verdict(content) == "contradicted"


HONEST = [  # what an odd but honest run leaves, and what is said of it
    ("cpu2/failures", lambda c: (c["raw"]["rows"][2].update(kind="none"), c["measured"].update(found=5)), "claimed"),
    (
        "cpu2/survive",
        lambda c: (c["raw"]["harmed"].update(weights="0" * 64), c["measured"].update(same=False)),
        "claimed",
    ),
    ("cpu2/machine", lambda c: (c["raw"]["lines"][0].update(state="fail"), c["measured"].update(ok=False)), "claimed"),
    (
        "cpu2/fsdp",  # too high a learning rate
        lambda c: (
            [row.update(loss=4.5 + row["step"] / 9) for row in c["raw"]["steps"]],
            c["measured"].update(first_loss=4.5, last_loss=c["raw"]["steps"][-1]["loss"]),
        ),
        "noisy",
    ),
]


@each_of("name, change, verdict", HONEST)
def test_an_honest_run_that_went_badly_is_not_contradicted(name, change, verdict):
    content = copy.deepcopy(recorded(name))
    change(content)
    assert evidence_checks.verdict(evidence.sealed(content)) == verdict


def test_a_slice_of_a_gpu_is_not_contradicted_for_being_slow():
    content = products("H100")
    content["environment"] |= {"device": "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "device_memory": 10**10}
    content["environment"]["multiprocessors"] = 16
    for row in content["raw"]["rows"]:
        row["seconds"] = [event(7 * seconds) for seconds in row["seconds"]]
    for word in ("bf16", "fp32"):
        (row,) = (row for row in content["raw"]["rows"] if row["dtype"] == word and row["shape"][0] == 8192)
        content["measured"][f"best_flops_{word}"] = 2.0 * 8192**3 / median(row["seconds"])
    assert evidence_checks.verdict(evidence.sealed(content)) == "claimed"


@each_of("times, verdict", [(1.5, "claimed"), (8.0, "noisy")])
def test_a_busy_neighbor_makes_a_file_noisy_which_is_kept_and_said(times, verdict):
    content = copy.deepcopy(recorded("cpu2/fsdp"))
    _busy(content, times)
    assert evidence_checks.verdict(evidence.sealed(content)) == verdict


def test_a_noisy_file_is_added_and_shown_as_one(tmp_path, capsys, monkeypatch):
    content = copy.deepcopy(recorded("cpu2/fsdp"))
    _busy(content, 8.0)
    path = evidence.write(evidence.sealed(content), tmp_path / "tour", "run")
    monkeypatch.setenv("COURSE_EVIDENCE", str(tmp_path / "own"))
    assert verify.main([str(path)]) == 0 and "noisy  repeats agree" in capsys.readouterr().out
    assert store.add([path]) == 0 and "noisy: run.json: repeats agree" in capsys.readouterr().out
    assert [row["verdict"] for row in store.rows() if row["from"] == "own"] == ["noisy"]


@each_of("name, dtype", [("cpu2/fsdp", "float32"), ("cpu1/matmul", "fp32")])
@each_of("share", [0.01, 100.0])
def test_a_gpus_peak_is_that_of_its_data_sheet(name, dtype, share):
    setup = {"device": "cuda", "backend": "nccl"}
    forged = renamed(scaled(recorded(name), share), setup, **H100, device_memory=memory())
    assert f"the {dtype} peak is the data sheet's" in contradicted(forged)


def test_slower_than_the_process_lived_is_contradicted_and_in_an_old_file_only_claimed():
    content = recorded("cpu2/fsdp")
    slow = scaled(content, 100.0)
    assert contradicted(slow) == set(), "an old file does not say how long its process lived"
    lived = sum(row["seconds"] for row in content["raw"]["steps"]) + 9.0
    forged = renamed(slow, process_seconds=lived)
    assert contradicted(forged) == {"measured within the process's life"}


@each_of(
    "changes, gate",
    ({"capability": "8.0"}, "the device's numbers are those of its name"),
    ({"device_memory": 40_000_000_000}, "the device's numbers are those of its name"),
    ({"cuda": ""}, "the device fits its software"),
    ({"torch": "2.13.0+cpu"}, "the device fits its software"),
    ({"gpus": 0}, "the device fits its software"),
)
def test_the_parts_of_a_device_belong_together(changes, gate):
    whole = {**H100, "device_memory": memory(), **changes}
    assert gate in contradicted(renamed(recorded("cpu1/machine"), **whole))


@each_of(
    "harm, gate",
    (lambda c: c["measured"].update(wire_bytes=1e15), "no more bytes than the link carries"),
    (lambda c: c["measured"]["wire"].update(all_reduce=1e15), "bytes of all kinds add up"),
    (
        lambda c: c["measured"].update(model_flops_per_step=2 * c["measured"]["model_flops_per_step"]),
        "FLOPs follow from the model",
    ),
    (lambda c: c["setup"]["rates"].update(memory=1e14), "rates within the device"),
    (lambda c: c["predicted"].update(step_seconds=1e-6), "the step fits the rates before it"),
    (lambda c: c["raw"]["intervals"].update(compute=[[0.0, 1e4]]), "the trace is as long as a step"),
    (lambda c: c.update(when="2199-01-01T00:00:00+00:00"), "not from the future"),
)
def test_each_bound_is_one_that_can_fail(harm, gate):
    forged = copy.deepcopy(recorded("cpu2/trace-ddp"))
    harm(forged)
    assert gate in contradicted(evidence.sealed(forged))


# As torch names a GPU, its name in the facts, its capability, and FLOP/s that it may reach in bf16 and in fp32
GPUS = {
    "H100": ("NVIDIA H100 80GB HBM3", "H100 SXM", "9.0", 7.2e14, 5.2e13),
    "H200": ("NVIDIA H200", "H200 SXM", "9.0", 7.3e14, 5.3e13),
    "A100": ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB", "8.0", 2.6e14, 1.9e13),
    "V100": ("Tesla V100-SXM2-16GB", "V100 SXM2 16GB", "7.0", 3e12, 1.4e13),  # its bf16 is emulated
    "B200": ("NVIDIA B200", "B200 SXM", "10.0", 1.7e15, 7e13),
}


def event(seconds):
    """Seconds as torch reads them from two events."""
    return struct.unpack("f", struct.pack("f", seconds * 1e3))[0] * 1e-3


def on(gpu):
    name, sheet, capability, *_ = GPUS[gpu]
    size = int(1.06 * float(device(sheet).memory))
    return H100 | {"device": name, "capability": capability, "nccl": "2.27.5", "device_memory": size}


def products(gpu):
    """Evidence of matrix products as a sound GPU leaves it."""
    content, reached = copy.deepcopy(recorded("cpu1/matmul")), GPUS[gpu][3:]
    rows, measured = [], {}
    for dtype, torch_dtype, rate in zip(("bf16", "fp32"), (torch.bfloat16, torch.float32), reached, strict=True):
        for size in (512, 8192):
            times = [event(2 * size**3 / (rate * size / 8192) * share) for share in (1, 0.97, 1.02, 1.01, 0.99)]
            rows.append({"shape": [size] * 3, "dtype": dtype, "seconds": times})
        measured[f"best_flops_{dtype}"] = 2 * 8192**3 / sorted(times)[2]
        with pytest.MonkeyPatch.context() as there:
            there.setattr(torch.cuda, "get_device_name", lambda _: GPUS[gpu][0])
            measured[f"peak_flops_{dtype}"] = peaks.peak_flops(torch.device("cuda"), torch_dtype, 0.0)[0] or None
    content |= {"raw": {"rows": rows}, "measured": measured}
    return renamed(content, {"device": "cuda", "dtypes": ["bf16", "fp32"]}, **on(gpu))


def training(gpu):
    """Evidence of a training as two sound GPUs leave it, at a fifth of their peak."""
    content, (_, sheet, _, rate, _) = copy.deepcopy(recorded("cpu2/fsdp")), GPUS[gpu]
    measured, raw, peak = content["measured"], content["raw"], float(device(sheet).dense_flops)
    seconds = measured["model_flops_per_step"] / peak / 2 / 0.2
    raw["steps"] = [
        {**row, "seconds": event(seconds * (1 + n % 3 / 50)), "parts": {}} for n, row in enumerate(raw["steps"])
    ]
    taken = median(row["seconds"] for row in raw["steps"][3:])
    measured |= {"step_seconds": taken, "tokens_per_s": 2048 / taken, "peak_flops": peak}
    measured |= {"mfu": measured["model_flops_per_step"] / taken / 2 / peak, "peak_source": "the data sheet"}
    memory, link = (float(device(sheet).bandwidth), float(device(sheet).link_one_way))
    wires = {"fsdp all_gather": (1e-5, 0.8 * link), "fsdp reduce_scatter": (1e-5, 0.8 * link)}
    rates = content["setup"]["rates"] | {"flops": rate, "memory": 0.85 * memory, "wires": wires}
    rates |= {"alpha": 1e-5, "wire": 0.8 * link, "block": seconds / 4, "ends": seconds / 40}
    setup = {"device": "cuda", "backend": "nccl", "dtype": "bfloat16", "rates": rates, "servers": [2]}
    content["setup"] |= setup
    told = predict.predict(recomputed.job_of(content), predict.Rates(**rates)).as_data()
    measured["gap"] = [{"of": "seconds", "term": "all", "seconds": taken - told["step_seconds"], "how": ""}]
    measured |= {"wire": {"all_gather": told["wire_bytes"]}, "wire_bytes": told["wire_bytes"]}
    tenths = sorted(row["seconds"] for row in raw["steps"][3:])
    measured |= {"step_seconds_p10": tenths[2], "step_seconds_p90": tenths[18], "memory_bytes": 3e7}
    content["predicted"] = told
    return renamed(content, setup, **on(gpu), process_seconds=20.0)


@each_of("gpu", GPUS)
@each_of("make", [products, training])
def test_what_a_sound_gpu_leaves_is_claimed_and_a_hundred_times_faster_is_contradicted(make, gpu):
    content = make(gpu)
    assert contradicted(content) == set() and evidence_checks.verdict(content) == "claimed"
    if content["kind"] == "matmul":
        forged = scaled(content, 0.01)
    else:
        forged = evidence.sealed(forged_examples.times(content, 0.01, everywhere=True))
    assert contradicted(forged) & {"no faster than the device", "bf16 no faster than the device"}


PCIE = {"device": "NVIDIA H100 PCIe", "gpus": 2, "multiprocessors": 114}


@each_of(
    "kind, rate, environment, ok",
    ("all_reduce", 4.8e11, {}, True),  # 8 H100 with NVLS
    ("reduce_scatter", 4.8e11, {}, False),
    ("all_reduce", 9.9e11, {}, False),
    ("all_reduce", 2.4e11, PCIE, True),  # a pair of cards with an NVLink bridge
    ("all_reduce", 3.3e11, PCIE, False),
)
def test_rates_of_a_training_may_be_those_of_a_bridge_or_of_a_switch_that_adds_up(kind, rate, environment, ok):
    content = renamed(recorded("cpu2/fsdp"), {"device": "cuda", "backend": "nccl"}, **{**H100, **environment})
    content["setup"]["rates"]["wires"] = {f"ddp {kind}": (1e-5, rate)}
    assert {gate.name: gate.ok for gate in evidence_checks.gates(content)}["rates within the device"] is ok


def test_a_peak_that_was_measured_on_a_busy_machine_says_so_and_contradicts_nothing():
    content = copy.deepcopy(recorded("cpu1/one"))
    measured = content["measured"]
    measured["peak_flops"] /= 3
    content["setup"]["rates"]["flops"] /= 3
    measured["mfu"] *= 3
    found = {gate.name: gate for gate in evidence_checks.gates(evidence.sealed(content))}
    assert measured["mfu"] > 1 and measured["peak_source"] == MEASURED
    assert found["not above the roofline"].ok and "busier" in found["not above the roofline"].found


def test_the_list_says_claimed_or_contradicted_and_the_device_that_ran(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_EVIDENCE", str(tmp_path))
    evidence.write(renamed(scaled(recorded("cpu1/one"), 0.01), **H100, device_memory=memory()), tmp_path, "forged")
    (row,) = (row for row in store.rows() if row["from"] == "own")
    assert (row["verdict"], row["device"]) == ("contradicted", "CPU")
    assert {row["verdict"] for row in store.rows() if row["from"] == "recorded"} == {"claimed"}


def test_a_file_with_a_sound_hash_and_other_contents_is_listed_as_malformed(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_EVIDENCE", str(tmp_path))
    content = copy.deepcopy(recorded("cpu1/one"))
    content["measured"]["wire"] = {"telepathy": 1.0}
    evidence.write(evidence.sealed(content), tmp_path, "odd")
    (row,) = (row for row in store.rows() if row["from"] == "own")
    assert row["verdict"] == "malformed" and row["what"].startswith("measured.wire: 'telepathy'")


NOT_WRITTEN = [  # what no run writes and the schema allows
    ("cpu2/parity", lambda c: c["raw"]["rows"][1].update(gradient_norms=[])),
    ("cpu2/failures", lambda c: c["raw"]["rows"].append("killed")),
    ("cpu1/serve", lambda c: c["measured"]["rows"][0].update(tokens_per_s=None)),
    ("cpu2/fsdp", lambda c: c["predicted"]["memory"].update(optimizer="much")),
    ("cpu2/links", lambda c: c["setup"].update(ranks="two")),
]


@each_of("name, harm", NOT_WRITTEN)
def test_a_file_that_no_run_wrote_is_listed_and_contradicted(name, harm, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_EVIDENCE", str(tmp_path))
    content = copy.deepcopy(recorded(name))
    harm(content)
    evidence.write(evidence.sealed(content), tmp_path, "odd")
    (row,) = (row for row in store.rows() if row["from"] == "own")
    assert row["verdict"] == "contradicted"


# Bus bandwidth over algorithm bandwidth, from nccl-tests' doc/PERFORMANCE.md: 2(n-1)/n, (n-1)/n, and 1 for a send or a
# broadcast.
@each_of("ranks", [2, 3, 4, 8, 16, 72, 1024])
def test_bus_factors_are_those_of_nccl_tests(ranks):
    factors = {
        "all_reduce": 2 * (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks, "reduce_scatter": (ranks - 1) / ranks,
        "all_to_all": (ranks - 1) / ranks, "broadcast": 1.0, "send": 1.0,
    }  # fmt: skip
    for kind, factor in factors.items():
        assert ring_sent(kind, 1e6, ranks) == pytest.approx(factor * 1e6)
