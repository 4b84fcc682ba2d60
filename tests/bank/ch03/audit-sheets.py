# %% right: all eleven
def audit_sheets():
    return {
        "b200-5000": (2250, "wrong", "dense or sparse"),
        "thousand-times": (2250 / 5.04, "wrong", "dense or sparse"),
        "ridge-295": (989e12 / 3.35e12, "right", "as printed"),
        "tensor-cores-989": (528 * 1024 * 1.83e9 / 1e12, "right", "as printed"),
        "flat-ceiling": (100 / 50, "wrong", "slope drawn flat"),
        "one-axis": (700 / 35, "wrong", "two quantities on one axis"),
        "eighteen-fold": (450 / 50, "wrong", "both ways for one way"),
        "any-two-900": (900 / 2, "wrong", "both ways for one way"),
        "server-50": (8 * 50, "wrong", "wrong scope"),
        "pod-245": (3072 * 80 / 1000, "right", "as printed"),
        "decode-one": (2 / 2, "right", "as printed"),
    }


# %% right: by the library, lists, rounded, capitals, one more id
from course_lib import facts


def audit_sheets():
    h100, b200, k40 = (facts.device(name) for name in ("H100 SXM", "B200 SXM", "K40"))
    return {
        "b200-5000": [round(b200.dense_flops / 1e12), "Wrong", "Dense or sparse"],
        "thousand-times": [round(b200.dense_flops / k40.fp32_flops), "Wrong", "Dense or sparse"],
        "ridge-295": [295, "Right", "As printed"],
        "tensor-cores-989": [facts.chip("H100 SXM").tensor_flops / 1e12, "Right", "As printed"],
        "flat-ceiling": [2, "Wrong", "Slope drawn flat"],
        "one-axis": [20.0, "Wrong", "Two quantities on one axis"],
        "eighteen-fold": [h100.link_one_way / h100.network_one_way, "Wrong", "Both ways for one way"],
        "any-two-900": [h100.link_one_way / 1e9, "Wrong", "Both ways for one way"],
        "server-50": [400, "Wrong", "Wrong scope"],
        "pod-245": [246, "Right", "As printed"],
        "decode-one": [1, "Right", "As printed"],
        "something-else": None,
    }


# %% wrong: printed numbers called wrong => values as-printed  from: all eleven
# ~ 2250, "wrong" ==> 5000, "wrong"
# ~ 2250 / 5.04 ==> 1000
# ~ 100 / 50 ==> 1
# ~ 700 / 35 ==> 1
# ~ 450 / 50 ==> 18
# ~ 900 / 2 ==> 900
# ~ 8 * 50 ==> 50

# %% wrong: the sparse B200 => values sparse-peak  from: a seventh for each peer
# ~ "any-two-900": (64.3, "wrong", "both ways for one way") ==> "b200-5000": (4500, "right", "as printed")

# %% wrong: a seventh for each peer => values a-seventh  from: the server in gigabits
# ~ "server-50": (3200, "wrong", "unit") ==> "any-two-900": (64.3, "wrong", "both ways for one way")


# %% wrong: the server in gigabits => values gigabits
def audit_sheets():
    return {"server-50": (3200, "wrong", "unit"), "ridge-295": (295, "right", "as printed")}


# %% half: one cause missed => 20  from: all eleven
# ~ 450 / 50, "wrong", "both ways for one way" ==> 9, "wrong", "missing factor"


# %% half: two answered so far => 4
def audit_sheets():
    return {"eighteen-fold": (9, "wrong", "both ways for one way"), "pod-245": (245.8, "right", "as printed")}
