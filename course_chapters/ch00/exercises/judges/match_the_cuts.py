"""Judge of match-the-cuts: match the strategies."""

from collections.abc import Mapping
from typing import Any

from course_chapters.ch00.exercises.match_the_cuts import PROPERTIES
from course_grader.judging import Fault, Judging, Params, describe, verdict
from course_grader.records import Case, Outcome, Verdict

CUTS: Mapping[
    str, tuple[str, str, str]
] = {  # strategy -> (property, communication, a question for a wrong communication)
    "data": (
        PROPERTIES[2],
        "all_reduce",
        "Each rank has the gradient of its own samples. What happens to these gradients?",
    ),
    "sharded": (
        PROPERTIES[1],
        "all_gather + reduce_scatter",
        "A rank keeps a part of each layer. What does it need just before the layer runs, and what does it keep afterward?",
    ),
    "tensor": (
        PROPERTIES[4],
        "all_reduce",
        "Each rank multiplied a slice. If the slices are terms of a sum, what is missing?",
    ),
    "pipeline": (PROPERTIES[0], "send_recv", "One rank's output is the input of the next rank only."),
    "context": (PROPERTIES[5], "ring", "Every query must meet every key, and no rank has all of them at once."),
    "expert": (PROPERTIES[3], "all_to_all", "Every rank has tokens for experts on every other rank."),
}
TALK = tuple(dict.fromkeys(traffic for _, traffic, _ in CUTS.values()))


def letters(params: Params) -> dict[str, str]:
    """The letter of each cut's property in this variant."""
    lines = [line.removeprefix("- **").split("** ", 1) for line in params["options"].splitlines()]
    by_text = {text: letter for letter, text in lines}
    return {cut: by_text[text] for cut, (text, _, _) in CUTS.items()}


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    got, want = outcome.value, letters(params)
    if type(got) is not dict:
        fault = "wrong-shape", f"Return a dictionary with a row for each strategy; got {describe(got)}."
        return [verdict("values", cut, case, fault) for cut in CUTS]
    rows = {cut: _row(got.get(cut)) for cut in CUTS}
    used = [letter for letter, _ in filter(None, rows.values())]
    return [verdict("values", cut, case, _fault(cut, rows[cut], used, want[cut], got)) for cut in CUTS]


def _row(row: Any) -> tuple[str, str] | None:
    """Letter and communication without case and blanks, or None if a row is not a pair of texts."""
    if type(row) in (tuple, list) and len(row) == 2 and all(type(text) is str for text in row):
        return row[0].strip().upper(), "".join(row[1].lower().split())
    return None


def _fault(cut: str, row: tuple[str, str] | None, used: list[str], want: str, got: Mapping[Any, Any]) -> Fault | None:
    _, traffic, think = CUTS[cut]
    lead = f'Row "{cut}"'
    if row is None:
        given = "is missing" if cut not in got else f"is {describe(got[cut])}"
        return "not-a-pair", f'{lead} {given}; give a pair such as ("A", "all_reduce").'
    letter, said = row
    if len(letter) != 1 or letter not in "ABCDEF":
        return "no-such-letter", f"{lead}: {describe(letter)} is not one of the letters A to F."
    if said not in {"".join(each.split()) for each in TALK}:
        return "no-such-talk", f"{lead}: {describe(got[cut][1])} is not on the list: {', '.join(TALK)}."
    if used.count(letter) > 1:
        return "letter-twice", f"Letter {letter} is used {used.count(letter)} times, so none of its rows counts."
    if letter != want:
        return (
            "wrong-property",
            f"{lead}: that property is true, but this strategy rests on another one. What is split here?",
        )
    if said != "".join(traffic.split()):
        return "wrong-talk", f"{lead}: the property is right, but the communication is not. {think}"
    return None


JUDGING = Judging(
    shares={f"values:{cut}": 1 / len(CUTS) for cut in CUTS},
    cases=lambda params, rng: (Case(name="the six strategies"),),
    verdicts=_verdicts,
    why="""Data and tensor parallelism leave terms of one sum on different ranks, so both end in an all-reduce. Sharding changes where state
is kept between uses: a layer is gathered before use, and its gradient is scattered to the owners. A pipeline sends each result to the next
stage. With a split sequence, every block of keys and values has to meet every query. Experts receive the tokens that chose them.""",
    pytorch="`DistributedDataParallel`, `fully_shard`, `parallelize_module` with DTensor, `torch.distributed.pipelining`, "
    "`context_parallel`; expert parallelism is built on `all_to_all_single`.",
)

ANSWERS = r"""# %% right: the table
def matches():
    return {
        "data": ("C", "all_reduce"),
        "sharded": ("B", "all_gather + reduce_scatter"),
        "tensor": ("E", "all_reduce"),
        "pipeline": ("A", "send_recv"),
        "context": ("F", "ring"),
        "expert": ("D", "all_to_all"),
    }


# %% right: two lists zipped, in small letters and without spaces
def matches():
    cuts = ("data", "sharded", "tensor", "pipeline", "context", "expert")
    says = ("all_reduce", "all_gather+reduce_scatter", "all_reduce", "send_recv", "ring", "all_to_all")
    return {cut: [letter, say] for cut, letter, say in zip(cuts, "cbeafd", says)}


# %% right: an ordered dictionary
from collections import OrderedDict


def matches():
    rows = OrderedDict(pipeline=("A", "send_recv"), context=("F", "ring"), expert=("D", "all_to_all"))
    rows["sharded"] = ("B", "all_gather + reduce_scatter")
    rows["data"], rows["tensor"] = ("C", "all_reduce"), ("E", "all_reduce")
    return rows


# %% right: any variant
from course_lib import params

VARIANT = params("match-the-cuts")


CUTS = {
    "data": ("a batch's gradient", "all_reduce"),
    "sharded": ("only while its own layer", "all_gather + reduce_scatter"),
    "tensor": ("product is linear", "all_reduce"),
    "pipeline": ("layers compose", "send_recv"),
    "context": ("softmax", "ring"),
    "expert": ("only a few of the experts", "all_to_all"),
}


def matches():
    lines = [line.split("**") for line in VARIANT.options.splitlines()]
    return {
        cut: (next(line[1] for line in lines if words in line[2].lower()), say) for cut, (words, say) in CUTS.items()
    }


# %% wrong: every cut is linear and ends in an all-reduce => values letter-twice
def matches():
    return dict.fromkeys(("data", "sharded", "tensor", "pipeline", "context", "expert"), ("E", "all_reduce"))


# %% wrong: batch and matrix exchanged => values wrong-property  from: the table
# ~ C ==> E
# ~ E ==> C

# %% wrong: sharding thought to be all-to-all, experts a ring => values wrong-talk  from: the table
# ~ all_gather + reduce_scatter ==> all_to_all
# ~ all_to_all ==> ring


# %% wrong: the letters alone => values not-a-pair
def matches():
    return {"data": "C", "sharded": "B", "tensor": "E", "pipeline": "A", "context": "F", "expert": "D"}


# %% wrong: the strategies in words => values no-such-letter  from: the table
# ~ C ==> associativity
# ~ E ==> linearity

# %% wrong: a collective that is not on the list => values no-such-talk  from: the table
# ~ send_recv ==> broadcast


# %% wrong: nothing returned => values returned-none
def matches():
    {"data": ("C", "all_reduce")}


# %% wrong: left as it is => not-answered
def matches():
    raise NotImplementedError


# %% half: two letters exchanged => 2  from: batch and matrix exchanged

# %% half: four rows, two left for later => 2  from: the table
# -         "sharded": ("B", "all_gather + reduce_scatter"),
#           "pipeline": ("A", "send_recv"),
# -         "context": ("F", "ring"),
"""
