"""Cases have every length and count of ranks, alone and in pairs, but for those that are listed."""

from contract.features import gaps
from course_grader.exercises import Card
from course_grader.judge import resolve
from course_grader.records import Case
from tests.tables import each_card

LEFT = """
two-ranks-wait 1, token-round-the-ring 3, reconcile-ledger 1, write-checkpointing 2, clip-pieces 2,
seconds-to-a-loss 1, round-to-format 1, overflow-everywhere 6, pair-exchange 2, ring-shift 2,
hierarchical-bytes 2, all-to-all-sizes 3, average-gradients 2, token-mean 1, ddp-hooks 2, one-sync 1, sampler 1,
ddp-buckets 2, mean-metrics 3, fsdp-by-hand 2, reshard-checkpoint 2, parallel-attention 2,
vocab-cross-entropy 2, schedule-validator 1, norm-gradients 2, ring-attention 15, ring-backward 27,
shifted-targets 6, ulysses-exchange 6, window-halo 11, mean-over-the-mesh 8, expert-parallel 10,
expert-gradient-scale 9, expert-norm 2, balance-loss 1, crossed-wires 1, norm-on-mesh 8, blast-radius 2,
spend-ledger 1, size-the-fleet 1, sturdiest-plan 2, accumulate-in-stages 5
"""
KNOWN = {name: int(count) for name, count in (each.split() for each in LEFT.split(","))}  # at most so many gaps


@each_card(lambda card: card.form in ("code", "bug"))
def test_no_more_traits_are_missing_than_are_known(card: Card) -> None:
    exercise = resolve(card)
    found = gaps([*exercise.cases, *(case for _, case in exercise.other_numbers)])
    assert len(found) <= KNOWN.get(card.id, 0), found


def test_missing_lengths_ranks_and_pairs_are_told() -> None:
    cases = [Case(name=str(n), ranks=n, args=(rows, flag)) for n, rows, flag in ((2, [], True), (4, [1, 2], False))]
    assert gaps(cases) == [
        "argument -1: an even number of ranks alone",
        "argument 0: many and nothing alone",
        "never 0 many with 1 True",
        "never 0 nothing with 1 False",
    ]
