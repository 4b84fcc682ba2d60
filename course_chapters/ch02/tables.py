"""The tables of chapter 02: conventions, parameters, ledgers, checkpointing policies, offload and what each measure
reduces."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from IPython.display import Markdown

from course_chapters.ch02 import widgets as pictures
from course_chapters.ch02.allocator import CachingAllocator, OutOfMemory
from course_chapters.ch02.exercises import numbers
from course_chapters.ch02.exercises.numbers import H100, MODEL, SEQ
from course_chapters.running_example import GPUS, MFU, PARAMS
from course_chapters.table import table
from course_lib.draw import palette
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.memory import Layout
from course_lib.estimate.memory.activation_terms import TermChoices
from course_lib.estimate.memory.stage_peaks import PeakChoices
from course_lib.estimate.units import BILLION, GB, GiB, bytes_text, duration_text, number_text, percent_text
from course_lib.model import ledger, text, transformer
from course_lib.model.accounting import Accounting
from course_runs.peaks import half

LLAMA_405B = 405 * BILLION
LINES = {"load": "weights", "optimizer": "master", "backward": "grads", "step": "moments"}  # line -> what it allocates
FUSED: TermChoices = {"kernels": "flash", "dropout": False}


def state_by_bucket(params: float, in_gib: bool) -> Markdown:
    """The training state of a model by bucket, in bytes per parameter and in GB or GiB."""
    buckets = memory.state_by_bucket(params)
    sizes = {palette.label(name): size for name, size in buckets.items()} | {"**total**": sum(buckets.values())}
    name, unit = ("GiB", GiB) if in_gib else ("GB", GB)
    return table(
        [
            {"bucket": bucket, "bytes per parameter": f"{size / params:g}", name: f"{size / unit:,.0f}"}
            for bucket, size in sizes.items()
        ]
    )


def conventions(low: str | None = None, middle: str | None = None, high: str | None = None) -> Markdown:
    """The seven conventions in bytes per parameter and in total; prints what each guessed letter gives for 405B."""
    for (place, right), letter in zip(numbers.PUZZLE.items(), (low, middle, high), strict=True):
        if letter is not None:
            gives = bytes_text(memory.state_bytes(LLAMA_405B, letter))
            same = memory.convention(letter).bytes_per_param == memory.convention(right).bytes_per_param
            verdict = "right" if same else "try another letter"
            print(f"{numbers.NUMBERS[f'puzzle_{place}']()}: {letter} gives {gives}; {verdict}")
    rows = []
    for one in memory.CONVENTIONS.values():
        kept = {name.replace("_", " "): f"{size:g}" if size else "–" for name, size in one.buckets.items()}
        state = memory.state_bytes(LLAMA_405B, one)
        total: dict[str, object] = {"bytes per parameter": f"**{one.bytes_per_param:g}**"}
        total |= {"405B": bytes_text(state), "H100s": memory.fewest_devices(state, H100.memory)}
        rows.append({"": f"**{one.letter}**", **kept, **total, "used by": one.used_by})
    return table(rows)


def bytes_per_parameter(
    weights: Sequence[torch.Tensor], master: Sequence[torch.Tensor], adam: torch.optim.Optimizer
) -> dict[str, float]:
    """Measured bytes per parameter of each bucket, from the sizes of a step's tensors."""
    tensors = {
        "weights": weights,
        "grads": [weight.grad for weight in weights],
        "master": master,
        "moments": [adam.state[copy][name] for copy in master for name in ("exp_avg", "exp_avg_sq")],
    }
    count = sum(weight.numel() for weight in weights)
    return {bucket: sum(tensor.nbytes for tensor in them) / count for bucket, them in tensors.items()}


def parameters_by_part(*models: str) -> Markdown:
    """Parameters of published models, of one of their layers, and each part's share."""
    rows = []
    for name in models:
        parts, whole = memory.params_by_part(name), memory.count_params(name)
        parts["layers"] = facts.model(name).layers * parts["layer"]
        shares = {part: percent_text(parts[part] / whole) for part in ("layers", "embedding", "head")}
        rows.append(
            {"model": name, "parameters": f"{whole:,}", "one layer, on average": f"{parts['layer']:,.0f}", **shares}
        )
    return table(rows)


def failing_line(params: float, layers: int = 40) -> str:
    """The line of a first training step that runs out of memory on one H100, and the allocator's message; or that it
    fits."""
    device, state = CachingAllocator(H100.memory), memory.state_by_bucket(params)
    for line, bucket in LINES.items():
        for layer in range(layers):
            try:
                device.malloc(f"{bucket} {layer}", state[bucket] / layers)
            except OutOfMemory as error:
                return f"**{line}**, {bucket} of layer {layer}. {error}"
    return f"**fits**, {bytes_text(device.reserved)} reserved"


def failing_lines(guess: Mapping[str, str | None]) -> Markdown:
    """A guess for each model size, such as "6B", next to the line that fails."""
    return table(
        [
            {"model": size, "your guess": line or "–", "first failure": failing_line(float(size[:-1]) * BILLION)}
            for size, line in guess.items()
        ]
    )


def predicted_and_counted(
    account: Accounting, model: torch.nn.Module, config: transformer.Config, batch: int
) -> Markdown:
    """Predicted bytes of each role in fp32 training, and the most that an account counted at any moment."""
    count = memory.count_params(config)
    kept = sum(term.nbytes for term in ledger.expected(config, batch, config.seq_len, ledger.Backend.of(model)))
    state = {"parameters": 4 * count, "gradients": 4 * count, "optimizer state": 8 * count}
    predicted = {**state, "saved for backward": kept}
    counted = {role: max(levels) for role, levels in account.timeline().items()}
    rows = []
    for role, size in predicted.items():
        sizes = {"predicted bytes": f"{size:,.0f}", "counted bytes": f"{counted[role]:,.0f}"}
        rows.append({"role": role, **sizes, "counted / predicted": f"{counted[role] / size:.3f}"})
    return table(rows)


def reconciled(found: ledger.Reconciliation) -> Markdown:
    """Each saved tensor in bytes: the paper's formula, the prediction, the measurement, and why they differ."""
    rows = []
    for line in found.lines:
        sizes = {name: f"{getattr(line, name):,.0f}" for name in ("printed", "expected", "measured")}
        rows.append({"kept for backward": line.label, **sizes, "why": line.why})
    return table(rows)


def activation_forms(act_bytes: Callable[[int, int, int, int, float], float]) -> Markdown:
    """Coefficient, k and bytes of all layers for one long sequence, in the paper's block and in Llama's own."""
    llama, paper = memory.shape(MODEL), numbers.paper_shape()
    one, tp, sp = Layout(), Layout(tp=8), Layout(tp=8, sp=True)
    cases = (
        ("scores stored", one, "paper", "none"),
        ("fused attention", one, "flash", "none"),
        ("stored, TP 8", tp, "paper", "none"),
        ("stored, TP 8 and SP", sp, "paper", "none"),
        ("selective, TP 8 and SP", sp, "paper", "selective"),
        ("fused, TP 8 and SP", sp, "flash", "none"),
        ("full", one, "flash", "full"),
        ("full, TP 8 and SP", sp, "flash", "full"),
    )
    rows = []
    for words, layout, kernels, how in cases:
        row = {"": words}
        for name, shape, drops in (("paper's", paper, True), ("Llama's", llama, False)):
            layer = memory.layer_bytes(shape, 1, SEQ, layout, kernels=kernels, dropout=drops, checkpointing=how)
            k = float(layer) / act_bytes(1, SEQ, 1, int(shape.hidden), 1)
            whole = bytes_text(act_bytes(1, SEQ, int(shape.layers), int(shape.hidden), k))
            row |= {f"{name} block: s·b·h ×": f"{2 * k:.4g}", f"k ({name})": f"{k:.4g}", f"all layers ({name})": whole}
        rows.append(row)
    return table(rows)


def checkpointing_policies(form: transformer.Sizes, batch: int) -> Markdown:
    """Bytes kept (predicted, measured), peak and FLOPs of one step under each policy, on the course's transformer."""
    rows, none = [], None
    for how in memory.CHECKPOINTING:
        config = transformer.Config(**form, checkpointing=how)
        model = transformer.build(config)
        terms = ledger.expected(config, batch, config.seq_len, ledger.Backend.of(model))
        now = ledger.record(model, *text.batch(0, batch, config.seq_len))
        none = none or now
        predicted = bytes_text(sum(term.nbytes for term in terms))
        row = {"checkpointing": how, "kept, predicted": predicted, "kept, measured": bytes_text(now.saved_bytes)}
        row |= {
            "peak": bytes_text(now.peak_bytes),
            "peak, share of none": percent_text(now.peak_bytes / none.peak_bytes, 2),
        }
        rows.append({**row, "FLOPs, share of none": percent_text(now.flops / none.flops)})
    return table(rows)


def offload() -> Markdown:
    """Four transfers over PCIe on one GPU of the running example, against the forward pass of one sequence."""
    pcie, own, llama = facts.link("PCIe5 x16").one_way, PARAMS / GPUS, memory.shape(MODEL)
    window = compute.train_seconds(PARAMS, SEQ, H100.dense_flops, mfu=MFU) / 3
    moved = {
        "Adam on the CPU: gradients out, weights in": (memory.weights_bytes(own), False),
        "Adam on the GPU: its 12 bytes in and out": (memory.convention("B").checkpoint * own, False),
        "inputs of checkpointed layers": (numbers.kept(llama, "flash", "full"), True),
        "all activations": (numbers.kept(llama, "flash"), True),
    }
    rows = []
    for words, (nbytes, grows) in moved.items():
        seconds = nbytes / pcie
        hidden = "always" if seconds <= window else "never"  # where both grow with the tokens
        times = {"one direction": duration_text(seconds), "forward pass": duration_text(window)}
        exposed = duration_text(seconds - window) if seconds > window else "none"
        since = hidden if grows else f"{math.ceil(SEQ * seconds / window):,} tokens"
        rows.append(
            {"transfer": words, "bytes each way": bytes_text(nbytes), **times, "exposed": exposed, "hidden from": since}
        )
    return table(rows)


def _peak(layout: Layout, checkpointing: str) -> memory.Peak:
    choices: PeakChoices = {**FUSED, "checkpointing": checkpointing, "loss": "fused"}
    return memory.stage_peak(MODEL, 1, SEQ, layout, **choices)


def sharding_and_checkpointing() -> Markdown:
    """State and activations on a GPU of the running example, with and without sharding, with and without
    checkpointing."""
    layouts = {"replicated": Layout(dp=GPUS), f"sharded over {GPUS}": Layout(dp=GPUS, zero=3)}
    rows = []
    for how in ("none", "full"):
        for words, layout in layouts.items():
            peak = _peak(layout, how)
            passing = peak.recomputed + peak.gathered
            parts = {"state": peak.state, "activations": peak.activations, "temporary": passing}
            sizes = {f"{name} per GPU": bytes_text(size) if size else "–" for name, size in parts.items()}
            fits = "yes" if peak.total <= H100.memory else "no"
            rows.append({"checkpointing": how, "state is": words, **sizes, "fits": fits})
    exact = number_text(memory.count_params(MODEL) / BILLION, 4)
    return table(
        rows, f"{MODEL} to the last matrix: {exact} billion parameters instead of a round {PARAMS / BILLION:g}."
    )


def reducible() -> Markdown:
    """What each measure leaves of each bucket on the fullest GPU, in percent of the job without it."""
    load = partial(pictures.load, model=MODEL, seq=SEQ)
    before, rows = load(batch=8), []
    measures = {
        "batch 8 → 1, accumulated": load(batch=1),
        "full checkpointing": load(batch=8, checkpointing="full"),
        "8-bit Adam": load(batch=8, optimizer="adam8bit"),
        f"sharded over {GPUS}": load(batch=8, dp=GPUS),
        "tensor and sequence parallel, 8": load(batch=8, tp=8),
        "8 pipeline stages, 1F1B": load(batch=8, pp=8),
    }
    for words, after in measures.items():
        names = [name for name in (*memory.BUCKETS, "activations") if name in before]
        rows.append({"what is left after": words, **{name: percent_text(after[name] / before[name]) for name in names}})
    return table(rows)


def gpu_block() -> Markdown:
    """The ledger's peak for one large block on this machine's GPU, next to the allocator's readings."""
    config = transformer.Config(layers=1, hidden=8192, heads=64, kv_heads=8, ffn=28_672, seq_len=4096)
    model = transformer.build(config).to("cuda", half(torch.device("cuda")))
    tokens, targets = text.batch(0, 1, config.seq_len)
    now = ledger.record(model, tokens.to("cuda"), targets.to("cuda"))
    assert now.device is not None
    read = {"ledger's peak": now.counted_peak_bytes, "allocated": now.device.allocated, "reserved": now.device.reserved}
    return table([{"on this GPU": name, "bytes": bytes_text(size)} for name, size in read.items()])


def published_peaks() -> Markdown:
    """Peaks that torchtitan's authors measured, next to the predicted ones."""
    rows = []
    for run in numbers.titan_runs():
        job = {
            "GPUs": run.words,
            "sequences × tokens": f"{run.batch} × {run.seq:,}",
            "checkpointing": run.checkpointing,
        }
        peaks = {name: f"{getattr(run, name) / GiB:.1f} GiB" for name in ("measured", "predicted")}
        ratio = {"measured / predicted": f"{run.measured / run.predicted:.2f}"}
        rows.append({**job, **peaks, **ratio, "largest term": max(run.terms, key=lambda name: run.terms[name])})
    return table(rows)
