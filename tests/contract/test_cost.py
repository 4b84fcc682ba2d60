"""Right values that nobody sent are found out: on a cluster every share of the cost rests on the books of the run."""

from dataclasses import replace

import pytest

from contract.kit import is_alone, runs, scaled, silent_meter, wrong
from course_grader.exercises import Card
from course_grader.judging import judging
from tests.tables import each_card


def sends(card: Card) -> bool:
    """Whether an exercise on ranks has a bound on what is sent."""
    return not is_alone(card) and any(share.startswith("cost:") for share in judging(card.id).shares)


A_FEW_NUMBERS = (
    "mean-metrics",
    "clip-shards",
    "norm-on-mesh",
    "odd-replica",
    "count-targets",
)  # their bounds leave room: any list or gradient is far beyond them


@pytest.mark.rotates
@each_card(sends)
def test_right_values_without_bytes_or_with_twice_the_bytes_are_found_out(card: Card) -> None:
    """What a right answer returns, with the meter of a run in which nothing moved, or almost twice as much."""
    contract, found, twice = judging(card.id), set[str](), set[str]()
    for case, right in runs(card, 5):
        if case.kind == "values" and sum(right.meter.get("bytes_sent", [])):
            nothing = {name: value for name, value in silent_meter(case.ranks).items() if name != "seconds"}
            silent = wrong(contract.verdicts(card.params, case, replace(right, meter={**right.meter, **nothing})))
            assert not [verdict for verdict in silent if verdict.kind == "values"], case.name
            found |= {verdict.mistake for verdict in silent if verdict.kind == "cost"}
        if sum(right.meter.get("bytes_sent", [])):
            judged = contract.verdicts(card.params, case, replace(right, meter=scaled(right.meter, 1.9)))
            twice |= {verdict.mistake for verdict in wrong(judged) if verdict.kind == "cost"}
    assert found, "an answer that moves no bytes keeps every share of the cost"
    assert twice or card.id in A_FEW_NUMBERS, "an answer that moves 1.9 times the bytes keeps every share of the cost"
