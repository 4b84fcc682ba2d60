"""Cases have every length and count of ranks, alone and in pairs, but for those that are listed."""

from contract.features import gaps
from course_grader.exercises import Card
from course_grader.judge import resolve
from course_grader.records import Case
from tests.tables import each_card

LEFT = """
two-ranks-wait 1, token-round-the-ring 3, reconcile-ledger 1, write-checkpointing 2, clip-pieces 2, seconds-to-a-loss
1, round-to-format 1, overflow-everywhere 3, pair-exchange 1, hierarchical-bytes 2, average-gradients 1, token-mean 1,
ddp-hooks 2, one-sync 1, sampler 1, ddp-buckets 2, mean-metrics 2, fsdp-by-hand 2, reshard-checkpoint 2,
parallel-attention 2, vocab-cross-entropy 2, schedule-validator 1, norm-gradients 2, ring-attention 3, ring-backward
3, shifted-targets 3, ulysses-exchange 2, window-halo 3, mean-over-the-mesh 8, expert-parallel 4,
expert-gradient-scale 9, expert-norm 2, balance-loss 1, crossed-wires 1, norm-on-mesh 8, sturdiest-plan 1,
accumulate-in-stages 5, sync-weights 2, fuse-or-not 1
"""
# What is left is of four kinds: one rank alone or an odd number of ranks with a list or tensor of one (each occurs, but
# not together), one rank without anything (the statement defines no result), a size of one between nothing and many
# (the same code as many), and a length that another argument limits.
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
