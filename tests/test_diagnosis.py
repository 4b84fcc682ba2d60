"""Symptoms made from faults: each follows from its mechanism, the same seed gives the same evidence, and all forty can
be told apart."""

import re
from collections import Counter

import numpy as np
import pytest

from course_chapters.ch17 import diagnosis
from course_chapters.ch17.diagnosis import FAMILIES, FAULTS, KINDS, RANKS, Symptoms, healthy, symptom
from course_lib.estimate.units import GB
from tests.tables import each_of

LEARNS, TESTED = (0, 1), ("a", "b")


def total(found: Symptoms, kind: str) -> np.ndarray:
    """Seconds of one kind of work on each rank."""
    return np.array(
        [sum(s.end - s.start for s in found.spans if (s.rank, s.kind) == (rank, kind)) for rank in range(RANKS)]
    )


def spread(values) -> float:
    """The largest over the median."""
    return float(np.max(values) / (np.median(values) + 1e-9))


def numbers(found: Symptoms, pattern: str) -> list[list[str]]:
    """What a pattern finds in each line of the log."""
    return [match.groups() for line in found.log if (match := re.search(pattern, line))]


def features(found: Symptoms) -> np.ndarray:
    """Numbers that a careful reader could take from the evidence, each of about one size."""
    compute = total(found, "forward") + total(found, "backward")
    comm = [s for s in found.spans if s.kind == "comm"]
    ends = [s.end for s in found.spans if s.kind == "backward"]
    lengths = np.array([s.end - s.start for s in comm if s.rank == 0] or [0.0])
    shortest = min((s.end - s.start for s in comm), default=0.0)
    late = [s for s in comm if not any(s.start < end for end in ends if end > s.start)]
    steps = [[s.end - s.start for s in found.spans if s.kind == "backward" and s.rank == rank] for rank in range(RANKS)]
    growth = max(row[-1] / row[0] for row in steps)
    low, high = (np.array(rows) for rows in zip(*(found.by_step(rank) for rank in range(RANKS)), strict=True))
    freed = np.array([found.freed(rank) for rank in range(RANKS)])
    rises = np.diff(found.memory[0][1])
    own = np.array([[float(x) for x in row[0].split()] for row in numbers(found, r"ranks' own ([\d. ]+)\)")])
    whole = np.array([float(row[0]) for row in numbers(found, r"norm ([\d.]+) \(")])
    samples = [row[0].split() for row in numbers(found, r"samples ([\d ]+),")]
    sums = [row[0].split() for row in numbers(found, r"checksums ([0-9a-f ]+),")]
    moved = float(numbers(found, r"moved (\d+)%")[-1][0]) / 100
    experts = numbers(found, r"norm ([\d.]+) \(.*norm of experts ([\d.]+)")
    resumed = next(line for line in found.log if "resumed" in line)
    odd = [min(Counter(row).values()) if len(set(row)) > 1 else 0 for row in sums]
    values = [
        *(found.job == words for words in KINDS.values()),
        np.log(spread(compute)),
        np.argmax(compute) - np.argmin(compute) == 3 and compute[1] < compute[2] and spread(compute[:3]) > 1.1,
        np.log(compute.mean() / compute.min()),
        np.log(spread(total(found, "data"))),
        min(1.0, 4 * total(found, "data").min() / compute.mean()),
        total(found, "host").max() > 0,
        spread(total(found, "host")) > 1.5 and total(found, "host").max() > 0,
        total(found, "host").min() > 0.05,
        total(found, "save").max() > 0,
        np.log1p(len(comm)),
        np.log1p(np.median(lengths) / 0.01),
        2.0 * any(length > 4 * np.median(lengths) for length in lengths) * (not found.log[-1].count("watchdog")),
        np.log1p(shortest / 0.01),
        2 * len(late) / (len(comm) + 1),
        growth > 1.5,
        any("watchdog" in line for line in found.log),
        any("ALLGATHER" in line for line in found.log),
        any("Socket" in line for line in found.log),
        np.clip((low[0, -1] - low[0, 1]) / (low[0, 0] + 1e-9), 0, 1) if low.shape[1] > 2 else 0,
        np.clip(low[0, 1] / low[0, 0] - 1, 0, 1) if low.shape[1] > 1 else 0,
        np.abs(freed).min() < 0.01 * GB,
        freed.min() < 0,
        low[0, 0] / (10 * GB),
        np.log(spread(high.max(1))),
        np.log(high.min() / high.max()),
        np.log(spread(high.max(0))),
        rises.max() / high.max(),
        (high.max() - low[0, 0]) / (20 * GB),
        found.reserved[0] / high[0].max() > 1.3,
        len([s for s in found.spans if s.rank == 0 and s.kind == "forward"]) / 64,
        np.log((own.mean(1) / whole).mean()),
        2.0 * (max(found.losses[35:]) > 1.5 * float(np.median(found.losses[35:]))),
        all(len(set(row)) == 1 for row in samples),
        samples[0] == samples[-3] or samples[0] in samples[2:],
        len(set(sums[0])) > 1,
        max(odd) == 1 and len(set(sums[0])) == 1,
        "optimizer" in resumed,
        "position" in resumed,
        any("overflow" in line for line in found.log),
        moved,
        found.losses[-1] < 0.15,
        float(experts[-1][1]) / float(experts[-1][0]) / 4 if experts else 0,
    ]
    return np.array(values, dtype=float)


def test_all_forty_can_be_told_apart_by_what_is_seen():
    seen = {name: [features(symptom(name, seed)) for seed in LEARNS] for name in FAULTS}
    table = np.concatenate(list(seen.values()))
    scale = table.std(0) + 0.05
    centers = {name: np.mean(rows, axis=0) / scale for name, rows in seen.items()}
    wrong = []
    for name in FAULTS:
        for seed in TESTED:
            at = features(symptom(name, seed)) / scale
            best = min(centers, key=lambda other: float(np.square(centers[other] - at).sum()))
            wrong += [(name, seed, best)] if best != name else []
    assert not wrong


def test_forty_faults_of_four_families_with_words_for_each():
    assert len(FAULTS) == 40 and {fault.family for fault in FAULTS.values()} == set(FAMILIES)
    assert all(
        fault.cause.endswith(".") and fault.look and re.fullmatch(r"\d\d", fault.chapter) for fault in FAULTS.values()
    )
    assert len({fault.cause for fault in FAULTS.values()}) == 40


def test_the_same_seed_gives_the_same_evidence_and_another_one_other_numbers():
    one, again, other = symptom("slow GPU", 5), symptom("slow GPU", 5), symptom("slow GPU", 6)
    assert one.text == again.text != other.text and one.spans == again.spans
    assert all(name not in one.text for name in FAULTS)


@each_of("kind", KINDS)
def test_a_healthy_job_shows_nothing(kind):
    found = healthy(kind)
    compute = total(found, "forward") + total(found, "backward")
    assert spread(compute) < 1.03 and not found.spans[0].start
    low, high = found.by_step(0)
    assert max(low) == pytest.approx(min(low)) and high[0] == pytest.approx(max(high)) and max(high) < found.room
    assert found.losses[-1] < 0.7 * found.losses[0] and not any("watchdog" in line for line in found.log)
    assert all(len(set(row[0].split())) == 1 for row in numbers(found, r"checksums ([0-9a-f ]+),"))


def test_spans_of_one_stream_never_overlap_and_collectives_end_together():
    for name in FAULTS:
        found = symptom(name)
        for rank in range(RANKS):
            for kinds in (("comm",), ("forward", "backward", "optimizer", "host", "save")):
                row = sorted((s.start, s.end) for s in found.spans if s.rank == rank and s.kind in kinds)
                assert all(end <= start + 1e-9 for (_, end), (start, _) in zip(row, row[1:], strict=False)), name
        times, held = found.memory[0]
        assert held.min() >= -1e-3 and (np.diff(times) >= 0).all()


def test_an_exam_draws_different_faults_of_all_families():
    for seed in range(20):
        names = diagnosis.drawn(seed)
        families = Counter(FAULTS[name].family for name in names)
        assert len(set(names)) == 12 and len(families) >= 3 and max(families.values()) <= 4
        assert names == diagnosis.drawn(seed)
    assert len({tuple(diagnosis.drawn(seed)) for seed in range(20)}) == 20
    assert sorted(diagnosis.drawn(0, 40)) == sorted(FAULTS)


def test_an_unknown_fault_is_refused():
    with pytest.raises(ValueError, match="no fault"):
        symptom("bad luck")
