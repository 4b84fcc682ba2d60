"""Answers to match-the-cuts: right ones, and wrong ones with the verdict and mistake that must find them."""

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


# %% wrong: every cut is linear and ends in an all-reduce => values letter-twice


def matches():
    return dict.fromkeys(("data", "sharded", "tensor", "pipeline", "context", "expert"), ("E", "all_reduce"))


# %% wrong: batch and matrix exchanged => values wrong-property


def matches():
    return {
        "data": ("E", "all_reduce"),
        "sharded": ("B", "all_gather + reduce_scatter"),
        "tensor": ("C", "all_reduce"),
        "pipeline": ("A", "send_recv"),
        "context": ("F", "ring"),
        "expert": ("D", "all_to_all"),
    }


# %% wrong: sharding thought to be all-to-all, experts a ring => values wrong-talk


def matches():
    return {
        "data": ("C", "all_reduce"),
        "sharded": ("B", "all_to_all"),
        "tensor": ("E", "all_reduce"),
        "pipeline": ("A", "send_recv"),
        "context": ("F", "ring"),
        "expert": ("D", "ring"),
    }


# %% wrong: the letters alone => values not-a-pair


def matches():
    return {"data": "C", "sharded": "B", "tensor": "E", "pipeline": "A", "context": "F", "expert": "D"}


# %% wrong: the strategies in words => values no-such-letter


def matches():
    return {
        "data": ("associativity", "all_reduce"),
        "sharded": ("B", "all_gather + reduce_scatter"),
        "tensor": ("linearity", "all_reduce"),
        "pipeline": ("A", "send_recv"),
        "context": ("F", "ring"),
        "expert": ("D", "all_to_all"),
    }


# %% wrong: a collective that is not on the list => values no-such-talk


def matches():
    return {
        "data": ("C", "all_reduce"),
        "sharded": ("B", "all_gather + reduce_scatter"),
        "tensor": ("E", "all_reduce"),
        "pipeline": ("A", "broadcast"),
        "context": ("F", "ring"),
        "expert": ("D", "all_to_all"),
    }


# %% wrong: nothing returned => values returned-none


def matches():
    {"data": ("C", "all_reduce")}


# %% half: two letters exchanged => 2


def matches():
    return {
        "data": ("E", "all_reduce"),
        "sharded": ("B", "all_gather + reduce_scatter"),
        "tensor": ("C", "all_reduce"),
        "pipeline": ("A", "send_recv"),
        "context": ("F", "ring"),
        "expert": ("D", "all_to_all"),
    }


# %% half: four rows, two left for later => 2


def matches():
    return {
        "data": ("C", "all_reduce"),
        "tensor": ("E", "all_reduce"),
        "pipeline": ("A", "send_recv"),
        "expert": ("D", "all_to_all"),
    }


# %% wrong: left as it is => not-answered


def matches():
    raise NotImplementedError


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
