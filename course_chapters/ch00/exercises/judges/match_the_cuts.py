from collections.abc import Mapping

from course_chapters.ch00.exercises.match_the_cuts import PROPERTIES
from course_grader.exercises.values import is_row
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Verdict, Worked, describe, verdict

right = Worked("match-the-cuts")  # with the letters of the public form
_THINK = {  # a question for a wrong communication
    "data": "Each rank has the gradient of its own samples. What happens to these gradients?",
    "sharded": "A rank keeps a part of each layer. What does it need just before the layer runs, and what does it "
    "keep afterward?",
    "tensor": "Each rank multiplied a slice. If the slices are terms of a sum, what is missing?",
    "pipeline": "One rank's output is the input of the next rank only.",
    "context": "Every query must meet every key, and no rank has all of them at once.",
    "expert": "Every rank has tokens for experts on every other rank.",
}


def rows(params: Params) -> dict[str, tuple[str, str]]:
    by_text = {line[8:]: line[4] for line in params["options"].splitlines()}
    return {cut: (by_text[PROPERTIES["ABCDEF".index(letter)]], said) for cut, (letter, said) in right().items()}


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    got, wants = outcome.value, rows(params)
    if type(got) is not dict:
        fault = "wrong-shape", f"Return a dictionary with a row for each strategy; got {describe(got)}."
        return [verdict("values", cut, case, fault) for cut in wants]
    given = {cut: _row(got.get(cut)) for cut in wants}
    return [verdict("values", cut, case, _fault(cut, given, wants, got)) for cut in wants]


def _row(row: object) -> tuple[str, str] | None:
    """Letter and communication without case and blanks, or None if a row is not a pair of texts."""
    if not is_row(row) or len(row) != 2:
        return None
    letter, said = row
    return (letter.strip().upper(), _plain(said)) if type(letter) is str and type(said) is str else None


def _plain(said: str) -> str:
    return "".join(said.lower().split())


def _fault(
    cut: str,
    rows: Mapping[str, tuple[str, str] | None],
    wants: Mapping[str, tuple[str, str]],
    got: Mapping[str, object],
) -> Fault | None:
    row, raw, lead = rows[cut], got.get(cut), f'Row "{cut}"'
    known = list(dict.fromkeys(said for _, said in wants.values()))
    if row is None or not is_row(raw):
        given = "is missing" if cut not in got else f"is {describe(raw)}"
        return "not-a-pair", f'{lead} {given}; give a pair such as ("A", "all_reduce").'
    letter, said = row
    if len(letter) != 1 or letter not in "ABCDEF":
        if _plain(letter) in map(_plain, known) and said.upper() in set("ABCDEF"):
            return "turned-round", f"{lead}: the letter comes first, then the communication."
        return "no-such-letter", f"{lead}: {describe(raw[0])} is not one of the letters A to F."
    if said not in map(_plain, known):
        return "no-such-talk", f"{lead}: {describe(raw[1])} is not on the list: {', '.join(known)}."
    if (times := sum(each is not None and each[0] == letter for each in rows.values())) > 1:
        return "letter-twice", f"Letter {letter} is used {times} times, so none of its rows counts."
    if letter != wants[cut][0]:
        told = "that property is true, but this strategy rests on another one. What is split here?"
        return "wrong-property", f"{lead}: {told}"
    if said != _plain(wants[cut][1]):
        return "wrong-talk", f"{lead}: the property is right, but the communication is not. {_THINK[cut]}"
    return None


JUDGING = Judging(
    shares={f"values:{cut}": 1 / len(_THINK) for cut in _THINK},
    cases=lambda params, rng: (Case(name="the six strategies"),),
    verdicts=_verdicts,
    why="""Data and tensor parallelism leave terms of one sum on different ranks, so both end in an all-reduce. Sharding
changes where state is kept between uses: a layer is gathered before use, and its gradient is scattered to the owners. A
pipeline sends each result to the next stage. With a split sequence, every block of keys and values has to meet every
query. Experts receive the tokens that chose them.""",
    pytorch="`DistributedDataParallel`, `fully_shard`, `parallelize_module` with DTensor, "
    "`torch.distributed.pipelining`, `context_parallel`; expert parallelism is built on `all_to_all_single`.",
)

ANSWERS = r'''from collections import OrderedDict
# %% right: worked
def matches():
    """Six rows: strategy -> (letter of its property, how the ranks communicate)."""
    return {
        "data": ("C", "all_reduce"),
        "sharded": ("B", "all_gather + reduce_scatter"),
        "tensor": ("E", "all_reduce"),
        "pipeline": ("A", "send_recv"),
        "context": ("F", "ring"),
        "expert": ("D", "all_to_all"),
    }
# %% right: two lists zipped, in small letters and without spaces  from: worked
def matches():
    says = ("all_reduce", "all_gather+reduce_scatter", "all_reduce", "send_recv", "ring", "all_to_all")
    return {cut: [letter, say] for cut, letter, say in zip(
        ("data", "sharded", "tensor", "pipeline", "context", "expert"), "cbeafd", says)}
# %% right: an ordered dictionary
# ~ return { ==> return OrderedDict({
# ~ } ==> })
# %% right: any variant
# ~ return { ==> rows = {
#       }
# +     options = params("match-the-cuts").options
# +     words = dict(A="Layers", B="A weight", C="A batch", D="Each token", E="A matrix", F="Softmax")
# +     return {cut: (options[options.index(words[letter]) - 4], said) for cut, (letter, said) in rows.items()}
# %% wrong: every cut is linear and ends in an all-reduce => values letter-twice
# ~ return { ==> return dict.fromkeys({
# ~ } ==> }, ("E", "all_reduce"))
# %% wrong: batch and matrix exchanged => values wrong-property
# ~ ("C ==> ("E
# ~ ("E ==> ("C
# %% half: two letters exchanged => 2  from: batch and matrix exchanged
# %% wrong: sharding thought to be all-to-all, experts a ring => values wrong-talk
# ~ all_gather + reduce_scatter ==> all_to_all
# ~ all_to_all ==> ring
# %% wrong: communication first => values turned-round
# ~ return { ==> rows = {
#       }
# +     return {cut: row[::-1] for cut, row in rows.items()}
# %% wrong: the letters alone => values not-a-pair
# ~ return { ==> rows = {
#       }
# +     return {cut: letter for cut, (letter, _) in rows.items()}
# %% wrong: the strategies in words => values no-such-letter
# ~ ("C ==> ("associativity
# ~ ("E ==> ("linearity
# %% wrong: a collective that is not on the list => values no-such-talk
# ~ send_recv ==> broadcast
# %% wrong: nothing returned => values returned-none
# ~ return { ==> rows = {
# %% wrong: left as it is => not-answered  from: worked
def matches():
    raise NotImplementedError
# %% half: four rows, two left for later => 2
# -         "sharded": ("B", "all_gather + reduce_scatter"),
#           "pipeline": ("A", "send_recv"),
# -         "context": ("F", "ring"),
'''
