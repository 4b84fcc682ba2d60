"""Does anything speak against this evidence? Each gate is one question with a plain answer; a number that fails one is
not to be built on."""

import math
from collections.abc import Callable, Iterator, Mapping
from statistics import fmean, median

from course_lib.cluster.intervals import exposed
from course_lib.messages import count_text
from course_runs import recomputed, sizes
from course_runs.evidence import Evidence
from course_runs.evidence_bounds import physics, sheet_of
from course_runs.gate import MEASURED, Gate
from course_runs.serving.load import Seen, summary

UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # of contents that no run wrote
CLOSE = 1e-6  # relative: what is computed again from raw numbers must be what the file says
SPREAD = 3.0  # slowest tenth over fastest tenth of the timed steps
FIT = 2.5  # a measured size over the line through all sizes, or the other way round
SYNCHRONISED = 1.02  # a clock's own error above a roof
BUSIER = 2.0  # a processor's measured peak may be this far below what it can do, where other work shared its cores


def gates(content: Evidence) -> list[Gate]:
    """All gates of an evidence file's kind, in order, and then the bounds of physics on it; one that fails where the
    file does not hold what they read."""
    try:
        own = _OF[content["kind"]](content) if content["kind"] in _OF else ()
        return [*own, *physics(content)]
    except UNREADABLE as error:
        return [Gate("the file holds what a run writes", False, f"{type(error).__name__}: {error}")]


def verdict(content: Evidence) -> str:
    """ "contradicted" where a gate fails, "noisy" where only those fail that a busy machine fails too, else "claimed":
    nothing in the file speaks against it, and nothing can prove it."""
    failed = [gate for gate in gates(content) if not gate.ok]
    return "claimed" if not failed else "noisy" if all(gate.noise for gate in failed) else "contradicted"


def _train(content: Evidence) -> Iterator[Gate]:
    setup, measured, rows = content["setup"], content["measured"], content["raw"]["steps"]
    timed = sorted(row["seconds"] for row in rows[setup["warm_up"] :])
    yield Gate(
        "warm-up left out",
        setup["warm_up"] >= 1 and len(timed) >= 5,
        f"{count_text(setup['warm_up'], 'step')} left out, {len(timed)} timed (1 and 5 are the least)",
    )
    again = median(timed)
    yield Gate(
        "step time follows from raw times",
        _close(again, measured["step_seconds"]),
        f"{measured['step_seconds']:.4g} s, and {again:.4g} s from the raw times",
    )
    spread = timed[min(len(timed) * 9 // 10, len(timed) - 1)] / timed[len(timed) // 10]
    yield Gate("repeats agree", spread <= SPREAD, f"the slow tenth takes {spread:.2f} times the fast tenth", True)
    rate = setup["tokens_per_step"] / measured["step_seconds"]
    yield Gate(
        "tokens/s fits step time", _close(rate, measured["tokens_per_s"]), f"{measured['tokens_per_s']:,.0f} tokens/s"
    )
    ranks = setup["layout"]["ranks"]
    used = measured["model_flops_per_step"] / measured["step_seconds"] / ranks / measured["peak_flops"]
    yield Gate("MFU follows", _close(used, measured["mfu"]), f"{measured['mfu']:.1%}")
    busy = SYNCHRONISED < used <= BUSIER and measured["peak_source"] == MEASURED and sheet_of(content) is None
    yield Gate(
        "not above the roofline",
        used <= SYNCHRONISED or busy,
        f"{used:.1%} of {measured['peak_flops'] / 1e12:,.2f} TFLOP/s ({measured['peak_source']})"
        + ("; the machine was busier when that was measured than in the run" if busy else ""),
    )
    losses = [row["loss"] for row in rows]
    yield Gate(
        "loss is a number", all(math.isfinite(each) for each in losses), f"first {losses[0]:.3f}, last {losses[-1]:.3f}"
    )
    if len(losses) >= 20:
        yield Gate(
            "loss falls",
            losses[-1] < losses[0],
            f"{losses[0]:.3f} to {losses[-1]:.3f} in {count_text(len(losses), 'step')}",
            noise=True,  # too high a learning rate is no forgery
        )
    state = sum(content["predicted"].get("memory", {}).get(part, 0.0) for part in ("weights", "gradients", "optimizer"))
    if measured["memory_bytes"]:
        yield Gate(
            "memory holds the state",
            measured["memory_bytes"] >= 0.98 * state,
            f"{measured['memory_bytes'] / 1e6:,.1f} MB, of which state {state / 1e6:,.1f}",
        )
    yield from _parts(content)
    yield from recomputed.train_gates(content)
    if ranks > 1:
        yield Gate(
            "bytes were sent", measured["wire_bytes"] > 0, f"{measured['wire_bytes'] / 1e6:,.2f} MB a step and rank"
        )
    if "wire" in measured:
        total = sum(measured["wire"].values())
        yield Gate("bytes of all kinds add up", _close(total, measured["wire_bytes"]), f"{total / 1e6:,.2f} MB")


def _parts(content: Evidence) -> Iterator[Gate]:
    """What explains the step: parts within it, a gap whose terms add up, exposed communication that follows from the
    trace."""
    measured, raw = content["measured"], content["raw"]
    if "parts" in raw["steps"][0]:
        share = max(sum(row["parts"].values()) / row["seconds"] for row in raw["steps"])
        yield Gate("parts lie within their step", share <= SYNCHRONISED, f"at most {share:.1%} of a step")
    if "gap" in measured:
        terms = sum(term["seconds"] for term in measured["gap"] if term["of"] == "seconds")
        whole = measured["step_seconds"] - content["predicted"]["step_seconds"]
        yield Gate(
            "the gap's terms add up",
            math.isclose(terms, whole, abs_tol=CLOSE),
            f"{terms * 1e3:+,.1f} ms of {whole * 1e3:+,.1f}",
        )
    if "intervals" in raw:
        again = exposed(raw["intervals"])
        yield Gate(
            "exposed communication follows from the trace",
            math.isclose(again, measured["exposed_seconds"], abs_tol=CLOSE),
            f"{again * 1e3:,.1f} ms",
        )


def _parity(content: Evidence) -> Iterator[Gate]:
    one, rows = content["raw"]["single"], content["raw"]["rows"]
    for row in rows:
        off = max(
            abs(a - b) / abs(b) for key in ("losses", "gradient_norms") for a, b in zip(row[key], one[key], strict=True)
        )
        follows = _close(off, max(row["loss"], row["gradient_norm"]))
        yield Gate(
            f"{row['layout']} trains the same model",
            follows and off <= row["allowed"],
            f"off by {off:.1e}; rounding explains {row['allowed']:.1e}",
        )
    if content["setup"]["size"] in sizes.SIZES:
        from course_runs.parity import allowed  # loads torch, which cards do without

        fed = sizes.size(content["setup"]["size"])
        due = [allowed(len(row["losses"]), fed.batch * fed.seq_len) for row in rows]
        follow = all(_close(row["allowed"], mine) for row, mine in zip(rows, due, strict=True))
        yield Gate("what rounding explains follows from the steps", follow, f"{max(due):.1e} at most")


def _data(content: Evidence) -> Iterator[Gate]:
    raw, measured = content["raw"], content["measured"]
    read = [sample for row in raw["rows"] for of_rank in row["samples"] for sample in of_rank]
    yield Gate(
        "every sample is read once, in order",
        read == raw["order"],
        f"{count_text(len(read), 'sample')} by {content['setup']['before']} and then {content['setup']['after']} ranks",
    )
    apart = max(abs(row["loss"] - alone) for row, alone in zip(raw["rows"], raw["losses_alone"], strict=True))
    follows = math.isclose(apart, measured["largest_difference"], abs_tol=1e-12)
    yield Gate("losses are those of one process", apart <= CLOSE and follows, f"{apart:.1e} apart")
    for name in ("with", "without"):
        mean = fmean(raw[f"waits_{name}"])
        yield Gate(f"waits {name} a buffer follow", _close(mean, measured[f"wait_{name}"]), f"{1e3 * mean:.3g} ms")


def _diloco(content: Evidence) -> Iterator[Gate]:
    raw, measured, setup = content["raw"], content["measured"], content["setup"]
    lengths = [len(each) for each in raw["losses"]]
    yield Gate(
        "every worker took all steps",
        lengths == [setup["steps"]] * setup["workers"],
        f"{count_text(len(lengths), 'worker')}, at least {count_text(min(lengths), 'step')}",
    )
    ends = [fmean(each[at] for each in raw["losses"]) for at in (0, -1)]
    follow = _close(ends[0], measured["first_loss"]) and _close(ends[1], measured["last_loss"])
    yield Gate("losses follow from raw losses", follow, f"{ends[0]:.3f} to {ends[1]:.3f}")
    finite = all(math.isfinite(loss) for each in raw["losses"] for loss in each)
    yield Gate("loss is a number", finite, f"first {ends[0]:.3f}")
    spread = max(raw["held_out"]) - min(raw["held_out"])
    yield Gate(
        "workers end with the same shared weights",
        spread <= CLOSE and _close(measured["held_out"], raw["held_out"][0]),
        f"held-out losses are {spread:.1e} apart",
    )
    sent, due = measured["sent_numbers"], content["predicted"]["sent_numbers"]
    yield Gate("as many numbers were sent as the plan says", sent == due, f"{sent:,} of {due:,}")


def _matmul(content: Evidence) -> Iterator[Gate]:
    measured = content["measured"]
    for word in content["setup"]["dtypes"]:
        rows = [row for row in content["raw"]["rows"] if row["dtype"] == word]
        best = max(2.0 * math.prod(row["shape"]) / median(row["seconds"]) for row in rows)
        yield Gate(
            f"best {word} follows from raw times",
            _close(best, measured[f"best_flops_{word}"]),
            f"{best / 1e12:,.2f} TFLOP/s",
        )
        fewest = min(len(row["seconds"]) for row in rows)
        yield Gate(f"{word} was repeated", fewest >= 5, f"each shape at least {count_text(fewest, 'time')}")
        peak = measured.get(f"peak_flops_{word}")
        if peak:
            yield Gate(
                f"{word} not above the roofline",
                best <= SYNCHRONISED * peak,
                f"{best / peak:.1%} of {peak / 1e12:,.0f} TFLOP/s: more would mean a clock that did not wait",
            )


def _collectives(content: Evidence) -> Iterator[Gate]:
    rows = content["raw"]["rows"]
    yield Gate(
        "repeated",
        all(row["repeats"] >= 5 for row in rows),
        f"each size at least {count_text(min(row['repeats'] for row in rows), 'time')}",
    )
    fits = content["measured"]["fits"]
    lines = {kind: line for kind, line in fits.items() if line is not None}
    if content["setup"]["ranks"] > 1:  # one rank sends nothing
        yield Gate(
            "larger messages take longer",
            2 * len(lines) > len(fits),
            f"{len(lines)} of {len(fits)} kinds have a line α + bytes/β",
            noise=True,
        )
    for kind, line in lines.items():
        mine = [row for row in rows if row["kind"] == kind]
        off = [
            max(row["median"] / said, said / row["median"])
            for row in mine
            if (said := line["alpha"] + row["nbytes"] / line["beta"]) > 0
        ]
        far = sum(each > FIT for each in off)
        yield Gate(
            f"{kind} fits its own line",
            far <= len(mine) // 4,
            f"{len(mine) - far} of {len(mine)} sizes within a factor {FIT:g} of α + bytes/β",
            noise=True,
        )


def _serving(content: Evidence) -> Iterator[Gate]:
    measured = content["measured"]
    for row, found in zip(content["raw"]["rows"], measured["rows"], strict=True):
        again = summary([Seen(**each) for each in row["requests"]])
        name = f"{row['rate']:.3g} requests/s"
        counts = (again.answered, again.refused, again.cut, again.failed)
        said = tuple(found[key] for key in ("answered", "refused", "cut", "failed"))
        yield Gate(
            f"{name}: every request ended once",
            counts == said and sum(counts) == len(row["requests"]),
            f"{count_text(sum(counts), 'request')}",
        )
        pairs = [
            (value, found[key][str(percent)])
            for key in ("ttft", "itl", "latency")
            for percent, value in getattr(again, key).items()
        ]
        follows = all(_close(mine, theirs) or math.isnan(mine) and math.isnan(theirs) for mine, theirs in pairs)
        yield Gate(f"{name}: percentiles follow from raw times", follows, f"TTFT p50 {1e3 * again.ttft[50]:.1f} ms")
        whole = [(again.requests, found["requests"])]
        whole += [(getattr(again, key), found[key]) for key in ("tokens_per_s", "in_system")]
        follows = all(_close(mine, theirs) or math.isnan(mine) and math.isnan(theirs) for mine, theirs in whole)
        yield Gate(f"{name}: tokens/s follow from raw times", follows, f"{again.tokens_per_s:.1f} tokens/s")
        early = [each for each in row["requests"] if each["times"] and each["times"][0] < each["arrival"]]
        yield Gate(f"{name}: no token came before its request", not early, f"{len(early)} did")
    outcomes = sum(measured["outcomes"].values())
    yield Gate(
        "each request has one outcome", outcomes == measured["received"], f"{outcomes} of {measured['received']}"
    )
    answered, said = (sum(row["answered"] for row in measured["rows"]), measured["outcomes"].get("answered", 0))
    yield Gate("answers were received", answered <= said, f"{answered} of {said}")


def _failure(content: Evidence) -> Iterator[Gate]:
    rows, measured = content["raw"]["rows"], content["measured"]
    right = sum(row["done"] == row["kind"] for row in rows)
    yield _counted(right, len(rows), measured)
    ended = [row["done"] for row in rows if row["done"] in ("killed", "hung") and row["code"] == 0]
    yield Gate("a rank that is lost ends the run with an error", not ended, ", ".join(ended) or "none ended well")


def _survival(content: Evidence) -> Iterator[Gate]:
    raw, measured, setup = content["raw"], content["measured"], content["setup"]
    rows, runs = raw["rows"], [raw[name] for name in ("calm", "harmed", "resized") if name in raw]
    right = [
        row["found"] == row["kind"]
        and (row["blamed"] == [row["rank"]] or row["kind"] == "flipped" and not row["blamed"])
        for row in rows
    ]
    follow = right == [row["ok"] for row in rows]
    yield Gate("verdicts follow from what was found", follow, f"{sum(right)} of {count_text(len(rows), 'harm')}")
    yield _counted(sum(right), len(setup["harm"]), measured)
    once = all(run["once"] for run in runs)
    yield Gate("every sample once, as the runs say", once == measured["once"], "yes" if once else "no")
    same = raw["harmed"]["weights"] == raw["calm"]["weights"] != ""
    yield Gate("the weights are compared as they are", same == measured["same"], str(same).lower())
    if same:
        alike = raw["harmed"]["losses"] == raw["calm"]["losses"]
        yield Gate("equal weights have equal losses", alike, f"last {raw['calm']['losses'][-1]:.4f}")


def _posttraining(content: Evidence) -> Iterator[Gate]:
    rows, measured, setup = content["raw"]["rows"], content["measured"], content["setup"]
    yield Gate(
        "every step was taken", len(rows) == setup["steps"], f"{len(rows)} of {count_text(setup['steps'], 'step')}"
    )
    answers = setup["questions"] * setup["group"]
    whole = all(0 <= row["reward"] <= 1 and abs(row["reward"] * answers % 1 - 0.5) > 0.49 for row in rows)
    yield Gate("rewards are shares of the answers", whole, f"{answers} answers a step, each right or wrong")
    tenth = max(len(rows) // 10, 1)
    said = {
        "first_reward": fmean(row["reward"] for row in rows[:tenth]),
        "last_reward": fmean(row["reward"] for row in rows[-tenth:]),
        "writing_share": sum(row["writing"] for row in rows) / sum(row["writing"] + row["training"] for row in rows),
    }
    wrong = [name for name, value in said.items() if not _close(value, measured[name])]
    yield Gate("rewards and times follow from the steps", not wrong, ", ".join(wrong) or f"{len(said)} numbers")
    due = setup["steps"] * answers
    yield Gate("answers follow from the plan", content["predicted"]["answers"] == due, f"{due:,}")


def _doctor(content: Evidence) -> Iterator[Gate]:
    failed = [line["what"] for line in content["raw"]["lines"] if line["state"] == "fail"]
    yield Gate(
        "the verdict follows from the lines", content["measured"]["ok"] == (not failed), ", ".join(failed) or "ok"
    )


def _counted(right: int, of: int, measured: Mapping[str, int]) -> Gate:
    """Whether a drill counts the diagnoses that its rows show."""
    return Gate(
        "diagnoses are counted",
        (right, of) == (measured["found"], measured["of"]),
        f"{right} of {of} name what was done",
    )


_OF: dict[str, Callable[[Evidence], Iterator[Gate]]] = {
    "train": _train,
    "parity": _parity,
    "matmul": _matmul,
    "collectives": _collectives,
    "data": _data,
    "diloco": _diloco,
    "serving": _serving,
    "failure": _failure,
    "survival": _survival,
    "posttraining": _posttraining,
    "doctor": _doctor,
}


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=CLOSE)
