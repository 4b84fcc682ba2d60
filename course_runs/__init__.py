"""Real runs: programs for `torchrun`, from one CPU process to several nodes, on PyTorch's own parts.

    torchrun --nproc-per-node 8 -m course_runs.train --size 1b --layout fsdp --steps 50 --out runs/fsdp
    torchrun --nproc-per-node 8 -m course_runs.collectives --out runs/nvlink
    python -m course_runs.matmul --out runs/matmul

`./course run …` calls torchrun for you. Each program says first what it predicts, then measures, then writes an
evidence file that the chapters read. Read `layouts`, `model`, `parallel`, `stepping`, `train`; then `predict`,
`evidence`, `gates`. Everything here needs torch 2.8 or newer, numpy and Python 3.10 or newer: a rented image's own will
do.
"""
