# %% right: the table
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
