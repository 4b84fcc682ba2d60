"""Tensor parallelism: matrices split by columns and rows, heads and vocabulary split, one model on several ranks.

    model = build(Config(hidden=64), comm)          # or parallelize(whole, comm)
    model.loss(model(tokens), targets).backward()
    model.finish()                                  # then the optimizer's step, as usual

Matrix multiplication is linear, so a product can be computed in parts: by columns of the weight, whose results are side
by side, or by rows, whose results add up. Shoeybi et al., "Megatron-LM" (2019); Korthikanti et al., "Reducing
activation recomputation in large transformer models" (2022), for what lies between the products. `pieces` and `traffic`
are arithmetic and load no torch; names are loaded when they are first used.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__)
