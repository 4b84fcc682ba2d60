"""Chapter 00's judge: its three contracts and its drills. Each contract's cases and verdicts have a module of their own."""

from collections.abc import Mapping

from course_lib import compute, facts, memory
from course_lib.exercises.ch00.judges.exchange import exchange_cases, exchange_verdicts
from course_lib.exercises.ch00.judges.match import CUTS, match_verdicts
from course_lib.exercises.ch00.judges.token import token_cases, token_verdicts
from course_lib.exercises.ch00.numbers import ROUTES
from course_lib.judging import DrillKey, Judging, Mistake
from course_lib.records import Case
from course_lib.units import DAY, GB

JUDGINGS: Mapping[str, Judging] = {
    "two-ranks-wait": Judging(
        shares={
            "values:exchange": 0.3,
            "cost:bytes": 0.2,
            "protocol:partner": 0.1,
            "protocol:safe": 0.15,
            "protocol:order": 0.05,
            "generality:pairs": 0.1,
            "generality:tensors": 0.1,
        },
        cases=exchange_cases,
        verdicts=exchange_verdicts,
        why="A `send` returns when its receive has been posted. If both partners send first, neither reaches its `recv`: each "
        "waits for the other, a circle of two. It breaks as soon as one of them listens first, and the smaller rank number is "
        "something on which both agree without a word. Starting both halves at once, in one batch, breaks it too; then the "
        "tensor received into must be another one than the tensor under way, and neither is touched before `wait()`.",
        pytorch="`torch.distributed.batch_isend_irecv` starts both halves as one operation; on NCCL it becomes "
        "`ncclGroupStart … ncclGroupEnd`, which is what the thread NVIDIA/nccl #479 recommends.",
    ),
    "token-round-the-ring": Judging(
        shares={
            "values:token": 0.4,
            "cost:bytes": 0.2,
            "protocol:route": 0.1,
            "protocol:safe": 0.1,
            "generality:sizes": 0.2,
        },
        cases=token_cases,
        verdicts=token_verdicts,
        why="Someone has to begin: if every rank received first, nobody would ever send. Rank 0 breaks the symmetry. After that the "
        "data itself keeps the order, since a rank cannot pass on what it has not received. Modulo N closes the ring for any N "
        "and either direction, and one rank alone has nobody to speak to.",
        pytorch="The ring all-reduce of NCCL is this walk with every rank starting at once, each with another piece; chapter 06 builds it.",
    ),
    "match-the-cuts": Judging(
        shares={f"values:{cut}": 1 / len(CUTS) for cut in CUTS},
        cases=lambda params, rng: (Case(name="the six cuts"),),
        verdicts=match_verdicts,
        why="Data and tensor parallelism both leave terms of one sum on different ranks, so both end in an all-reduce. Sharding changes "
        "where state lives between uses, so a layer is gathered before use and its gradient is scattered to the owners. A pipeline "
        "only hands on what the next stage needs. Attention over a cut sequence lets every block of keys and values pass by every "
        "query. Experts receive whichever tokens chose them: something different for everybody.",
        pytorch="`DistributedDataParallel`, `fully_shard`, `parallelize_module` with DTensor, `torch.distributed.pipelining`, "
        "`context_parallel`; expert parallelism is built on `all_to_all_single`.",
    ),
}


def _h100() -> float:
    return float(facts.device("H100 SXM").dense_flops)


DRILLS: Mapping[str, DrillKey] = {
    "chapter-for-a-symptom": DrillKey(
        answer=lambda p: ROUTES[p["symptom"]][0],
        how="Chapter {{answer}} first; the failure route on the map of chapter 00 says why.",
        rel=1e-6,
        mistakes=(Mistake("three-walls", 1, "Chapter 01 says which wall you meet; this symptom already names it."),),
    ),
    "state-of-a-model": DrillKey(
        answer=lambda p: memory.state_bytes(p["params"], "B") / GB,
        how="2 bytes of weight, 2 of gradient, 4 of master copy and 8 of moments make 16 for each parameter: {{answer}} GB.",
        mistakes=(
            Mistake(
                "weights-only", lambda p: memory.weights_bytes(p["params"], "bf16") / GB, "These are the weights alone."
            ),
            Mistake(
                "no-master", lambda p: memory.state_bytes(p["params"], "A") / GB, "The 32-bit master copy is missing."
            ),
        ),
    ),
    "cards-for-a-deadline": DrillKey(
        answer=lambda p: compute.devices_for_deadline(p["params"], p["tokens"], _h100(), p["mfu"], p["days"] * DAY),
        how="6 × parameters × tokens, divided by the dense peak, the MFU and the seconds, and rounded up: {{answer}}.",
        mistakes=(
            Mistake(
                "peak",
                lambda p: compute.devices_for_deadline(p["params"], p["tokens"], _h100(), 1.0, p["days"] * DAY),
                "This is at the full peak; the MFU is missing.",
            ),
            Mistake(
                "sparse-peak",
                lambda p: compute.devices_for_deadline(
                    p["params"], p["tokens"], float(facts.device("H100 SXM").sparse_flops), p["mfu"], p["days"] * DAY
                ),
                "This divides by the peak for sparse matrices; training is dense.",
            ),
        ),
    ),
    "tokens-in-a-step": DrillKey(
        answer=lambda p: p["ranks"] * p["micro"] * p["accumulate"] * p["seq"],
        how="Ranks × sequences × accumulated micro-batches × tokens in a sequence: {{answer:int}}.",
        rel=1e-6,
        mistakes=(
            Mistake(
                "per-rank", lambda p: p["micro"] * p["accumulate"] * p["seq"], "This is one rank's share of the step."
            ),
            Mistake(
                "no-accumulation",
                lambda p: p["ranks"] * p["micro"] * p["seq"],
                "The accumulated micro-batches are missing.",
            ),
            Mistake(
                "sequences", lambda p: p["ranks"] * p["micro"] * p["accumulate"], "These are sequences, not tokens."
            ),
        ),
    ),
    "price-of-a-point": DrillKey(
        answer=lambda p: compute.points_of_mfu_usd(p["usd"], p["mfu"], 1),
        how="Cost goes as 1/MFU: the run then costs MFU/(MFU + 0.01) of what it did, and {{answer:usd}} are saved.",
        mistakes=(
            Mistake(
                "one-per-cent",
                lambda p: p["usd"] * 0.01,
                "One point is not one per cent: at this MFU it is more than that of what you have.",
            ),
        ),
    ),
}
