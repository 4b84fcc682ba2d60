"""Readers of Megatron's and its descendants' tables on A100 and H100: GPT models with tensor, pipeline and data
parallelism."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bench.memory.sweeps import _bloom_layers
from bench.planner.rows import (
    Cells,
    Skip,
    Software,
    Tables,
    Timed,
    chunked,
    in_fit_half,
    label,
    micro_batches,
    number,
    seconds_from_rate,
    seconds_of,
    whole,
)
from course_lib.estimate.memory import Layout, Shape
from course_lib.parallel.planner import Cluster, Job, cluster, estimate

MEGATRON_2022 = Software(
    name="Megatron-LM 2022",
    attention="unfused",
    dropout=True,
    overlap_dp=False,
    overlap_tp=False,
    overlap_pp=False,
    selective=("core",),
    launch=0.9e-3,
)  # in 2023 as well: MegaScale's table 3 says that FlashAttention and all overlap are what MegaScale adds
MEGATRON_2021 = replace(MEGATRON_2022, name="Megatron-LM 2021", fused_adding=False)  # fused since 13 February 2022
DEEPSPEED = replace(MEGATRON_2021, name="Megatron-DeepSpeed", grad_bytes=2.0)
BLOOM = replace(DEEPSPEED, name="BLOOM's", blocking=True)  # as its launch script sets it, against hangs
MEGATRON_CORE = Software(selective=("core",))
KEY = (
    "model",
    "hidden",
    "heads",
    "layers",
    "n_gpus",
    "dp",
    "tp",
    "pp",
    "micro_batch_size",
    "global_batch_size",
    "virtual_stages",
)


def gpt(cells: Cells, vocab: int = 51200, seq: int = 2048) -> Shape:
    """A GPT from its row."""
    layers, hidden, heads = (whole(cells, name) for name in ("layers", "hidden", "heads"))
    seq = whole(cells, "seq_len", seq)
    return Shape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        vocab=whole(cells, "vocab", vocab),
        head_dim=hidden // heads,
        learned_positions=seq,
    )


def read_vtrain(cells: Cells, tables: Tables) -> Iterator[Timed | Skip]:
    """vTrain's measured iterations: Megatron-DeepSpeed on A100, full recomputation, 1F1B."""
    gpus, batch, seq = whole(cells, "n_gpus"), whole(cells, "global_batch_size"), whole(cells, "seq_len", 2048)
    dp, tp, pp, micro = (whole(cells, name) for name in ("dp", "tp", "pp", "micro_batch_size"))
    job = Job(
        model=gpt(cells, 50304),
        seq=seq,
        sequences=batch,
        recompute=cells.get("activation_recompute", "full"),
        software=DEEPSPEED,
    )
    yield Timed(
        source="vtrain",
        label=label(cells, KEY),
        group=label(cells, ("hidden", "layers", "n_gpus", "global_batch_size")),
        seconds=seconds_of(cells, batch * seq, gpus),
        job=job,
        cluster=cluster("A100", gpus),
        layout=Layout(tp=tp, pp=pp, dp=dp, microbatches=micro_batches(batch, dp, micro)),
        fitted=gpus <= 8 and in_fit_half(cells, KEY),
    )


def read_sc21(cells: Cells, tables: Tables) -> Iterator[Timed | Skip]:
    """Narayanan et al. (2021), table 1: weak scaling to 1T parameters."""
    gpus, batch, virtual = whole(cells, "n_gpus"), whole(cells, "global_batch_size"), whole(cells, "virtual_stages", 1)
    dp, tp, pp, micro = (whole(cells, name) for name in ("dp", "tp", "pp", "micro_batch_size"))
    job = Job(model=gpt(cells), seq=whole(cells, "seq_len"), sequences=batch, recompute="full", software=MEGATRON_2021)
    layout = Layout(
        tp=tp, pp=pp, dp=dp, virtual=virtual, schedule=chunked(virtual), microbatches=micro_batches(batch, dp, micro)
    )
    yield Timed(
        source="megatron-sc21",
        label=label(cells, KEY),
        group=cells.get("model", ""),
        seconds=seconds_of(cells, 0, gpus),
        job=job,
        cluster=cluster("A100", gpus),
        layout=layout,
        fitted=in_fit_half(cells, KEY),
    )


def read_korthikanti(cells: Cells, tables: Tables) -> Iterator[Timed | Skip]:
    """Korthikanti et al. (2022), table 5: full recomputation, and selective with sequence parallelism."""
    gpus, batch, virtual = whole(cells, "n_gpus"), whole(cells, "global_batch_size"), whole(cells, "interleave_m", 1)
    dp, tp, pp, micro = (whole(cells, name) for name in ("dp", "tp", "pp", "micro_batch_size"))
    columns = (
        ("full", False, "iter_time_s_full_recompute_no_sp"),
        ("selective", True, "iter_time_s_selective_plus_sp"),
    )
    for word, sp, column in columns:
        yield Timed(
            source="korthikanti",
            label=f"{cells.get('model', '')} {word}",
            group=cells.get("model", ""),
            seconds=number(cells, column),
            job=Job(
                model=gpt(cells), seq=whole(cells, "seq_len"), sequences=batch, recompute=word, software=MEGATRON_2022
            ),
            cluster=cluster("A100", gpus),
            layout=Layout(
                tp=tp,
                sp=sp,
                pp=pp,
                dp=dp,
                virtual=virtual,
                schedule=chunked(virtual),
                microbatches=micro_batches(batch, dp, micro),
            ),
            fitted=in_fit_half(cells, KEY),
        )


def read_bloom(cells: Cells, tables: Tables) -> Iterator[Timed | Skip]:
    """BLOOM's tuning sweep on Jean Zay: Megatron-DeepSpeed, bf16, full recomputation."""
    if not cells.get("sec_per_iter", "") or cells.get("status", "ok") != "ok":
        yield Skip("bloom", f"no sec_per_iter (status {cells.get('status', '?')})")
        return
    gpus, batch, hidden = whole(cells, "n_gpus"), whole(cells, "global_batch_size"), whole(cells, "hidden")
    dp, tp, pp, micro = (whole(cells, name) for name in ("dp", "tp", "pp", "micro_batch_size"))
    heads = whole(cells, "heads", 64)
    one = Shape(
        layers=_bloom_layers(cells, hidden, pp), hidden=hidden, heads=heads, head_dim=hidden // heads, vocab=250_880
    )
    yield Timed(
        source="bloom",
        label=label(cells, ("section", "model_size", *KEY)),
        group=label(cells, ("model_size", "hidden", "n_gpus", "global_batch_size")),
        seconds=number(cells, "sec_per_iter"),
        job=Job(model=one, seq=2048, sequences=batch, recompute="full", software=BLOOM),
        cluster=cluster("Jean Zay A100", gpus),
        layout=Layout(
            tp=tp, pp=pp, dp=dp, zero=whole(cells, "zero_stage"), microbatches=micro_batches(batch, dp, micro)
        ),
        fitted=in_fit_half(cells, ("model_size", *KEY)),
    )


def read_megascale(cells: Cells, tables: Tables) -> Iterator[Timed | Skip]:
    """MegaScale's strong scaling; only its Megatron-LM rows are a plain GPT."""
    if "Megatron" not in cells.get("system", ""):
        yield Skip("megascale", "MegaScale's model has a parallel block and sliding-window attention")
        return
    gpus, batch = whole(cells, "n_gpus"), whole(cells, "global_batch_size")
    tp, pp, virtual = whole(cells, "tp"), whole(cells, "pp"), whole(cells, "virtual_stages", 6)
    dp, seq = gpus // (tp * pp), whole(cells, "seq_len_from_memory", 2048)
    one = Shape(
        layers=whole(cells, "layers"),
        hidden=whole(cells, "hidden"),
        heads=whole(cells, "heads"),
        vocab=whole(cells, "vocab_from_memory", 64000),
    )
    yield Timed(
        source="megascale",
        label=label(cells, ("model", "n_gpus", "global_batch_size")),
        group="",
        seconds=number(cells, "iter_time_s"),
        job=Job(model=one, seq=seq, sequences=batch, recompute="selective", software=MEGATRON_2022),
        cluster=cluster("A100", gpus),
        layout=Layout(
            tp=tp,
            sp=True,
            pp=pp,
            dp=dp,
            zero=1,
            virtual=virtual,
            schedule=chunked(virtual),
            microbatches=micro_batches(batch, dp, 1),
        ),
        fitted=False,
    )


ZERO_BUBBLE = {"1F1B": "1f1b", "1F1B-I": "interleaved", "ZB-1p": "zb_h1", "ZB-2p": "zb_h2"}


def read_zero_bubble(cells: Cells, tables: Tables) -> Iterator[Timed | Skip]:
    """Qi et al. (2023), table 4: Megatron-LM under four schedules, no recomputation, sequence 1,024."""
    layers, pp, gpus = whole(cells, "layers"), whole(cells, "pp"), whole(cells, "n_gpus")
    micro, count, seq = whole(cells, "micro_batch_size"), whole(cells, "n_microbatches"), whole(cells, "seq_len")
    schedule, dp = ZERO_BUBBLE[cells.get("schedule", "")], gpus // pp
    batch = micro * count * dp
    yield Timed(
        source="zero-bubble",
        label=label(cells, ("model", "schedule", "n_gpus", "n_microbatches")),
        group=label(cells, ("model", "n_gpus", "n_microbatches")),
        seconds=batch / number(cells, "samples_per_gpu_per_s") / gpus,
        job=Job(model=gpt(cells, 50304), seq=seq, sequences=batch, software=MEGATRON_2022),
        cluster=cluster("A100", gpus),
        layout=Layout(
            pp=pp,
            dp=dp,
            virtual=-(-(layers + 2) // pp) if schedule == "interleaved" else 1,
            schedule=schedule,
            microbatches=count,
        ),
        fitted=False,
    )


def read_any(cells: Cells, tables: Tables) -> Iterator[Timed | Skip]:
    """A table that is not known by name but has a model's sizes, degrees and a time: taken as current Megatron Core.

    A micro-batch or virtual stages that are not printed are those with which the planner is fastest among all that fit.
    """
    gpus, batch, seq = whole(cells, "n_gpus"), whole(cells, "global_batch_size"), whole(cells, "seq_len", 4096)
    tp, pp, cp = (whole(cells, name, 1) for name in ("tp", "pp", "cp"))
    dp = whole(cells, "dp", gpus // (tp * pp * cp))
    one = gpt(cells)
    word = cells.get("activation_recompute", "") or "selective"
    job = Job(
        model=one,
        seq=seq,
        sequences=batch,
        recompute=word if word in ("none", "full") else "selective",
        software=MEGATRON_CORE,
    )
    text = cells.get("gpu", "") + cells.get("system", "")
    device = next((name for name in ("GB200", "GB300", "B200", "B300", "H200", "H100", "A100") if name in text), "H100")
    many = cluster(device, gpus)
    try:
        seconds = seconds_of(cells, batch * seq, gpus)
    except ValueError:
        seconds = seconds_from_rate(cells, job, gpus, many.peak)
    usual = [
        Layout(
            tp=tp,
            sp=tp > 1,
            cp=cp,
            pp=pp,
            dp=dp,
            zero=1,
            virtual=virtual,
            schedule=chunked(virtual),
            microbatches=count,
        )
        for count, virtual in _unprinted(cells, batch // dp, int(one.layers), pp)
    ]
    yield Timed(
        source=cells["file"],
        label=label(cells, KEY),
        group=label(cells, ("model", "n_gpus", "global_batch_size")),
        seconds=seconds,
        job=job,
        cluster=many,
        layout=_fastest(job, many, usual),
        fitted=False,
    )


def _unprinted(cells: Cells, sequences: int, layers: int, pp: int) -> list[tuple[int, int]]:
    """Micro-batches and virtual stages that a row may have had: those printed, or all that divide."""
    micro = whole(cells, "micro_batch_size", 0)
    counts = [micro_batches(sequences, 1, micro)] if micro else [n for n in _divisors(sequences) if sequences // n <= 8]
    printed = whole(cells, "virtual_stages", whole(cells, "vp", 0))
    chunks = [printed] if printed else _divisors(layers // pp) if pp > 1 and layers % pp == 0 else [1]
    pairs = [(count, virtual) for count in counts for virtual in chunks if virtual == 1 or count % pp == 0]
    return pairs or [(counts[0], chunks[0])]


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, max(number, 1) + 1) if number % each == 0]


def _fastest(job: Job, many: Cluster, layouts: Sequence[Layout]) -> Layout:
    """The layout of the least predicted time among those that fit, or among all if none does."""
    if len(layouts) == 1:
        return layouts[0]
    told = [estimate(job, many, each) for each in layouts]
    order = sorted(range(len(layouts)), key=lambda place: (not bool(told[place].ok), float(told[place].seconds)))
    return layouts[order[0]]
