YEAR = 365.25 * 86_400


# %% right: dense row, else half of the sparse one
def which_peak(params, tokens, sheet):
    rows = [row for row in sheet if row["precision"] == "BF16"]
    dense = [row["tflops"] for row in rows if not row["sparsity"]]
    peak = (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12
    return peak, 6 * params * tokens / peak / YEAR


# %% right: the smallest after undoing the doubling, years of 365 days, numpy
import numpy as np


def which_peak(params, tokens, sheet):
    bf16 = np.array([r["tflops"] / (1 + r["sparsity"]) for r in sheet if r["precision"].lower() == "bf16"])
    peak = bf16.min() * 1e12
    return [peak, np.float64(6) * params * tokens / peak / 365 / 86_400]


# %% right: any variant
from course_lib import params

GPUS = params("which-peak").gpus


def which_peak(params, tokens, sheet):
    rates = {row["sparsity"]: row["tflops"] * 1e12 for row in sheet if row["precision"] == "BF16"}
    peak = rates.get(False, rates.get(True, 0) / 2) / GPUS
    return peak, 6 * params * tokens / peak / YEAR


# %% wrong: sparse peak => values sparse-peak
def which_peak(params, tokens, sheet):
    peak = max(row["tflops"] for row in sheet if row["precision"] == "BF16") * 1e12
    return peak, 6 * params * tokens / peak / YEAR


# %% wrong: the largest number on the sheet => values fp8-sparse-peak  from: sparse peak
# ~ (row["tflops"] for row in sheet if row["precision"] == "BF16") * 1e12 ==> (row["tflops"] for row in sheet) * 1e12

# %% wrong: halves the dense row => values halved-dense  from: sparse peak
# -     peak = max(row["tflops"] for row in sheet if row["precision"] == "BF16") * 1e12
# +     peak = min(row["tflops"] for row in sheet if row["precision"] == "BF16") / 2 * 1e12


# %% wrong: teraflops => values teraflops
def which_peak(params, tokens, sheet):
    peak = min(row["tflops"] for row in sheet if row["precision"] == "BF16")
    return peak, 6 * params * tokens / (peak * 1e12) / YEAR


# %% wrong: days => values days
def which_peak(params, tokens, sheet):
    peak = min(row["tflops"] for row in sheet if row["precision"] == "BF16") * 1e12
    return peak, 6 * params * tokens / peak / 86_400


# %% wrong: divides by the GPUs of a server => values divided-needlessly  from: sparse peak
# -     peak = max(row["tflops"] for row in sheet if row["precision"] == "BF16") * 1e12
# +     peak = min(row["tflops"] for row in sheet if row["precision"] == "BF16") * 1e12 / 8


# %% wrong: the first BF16 row => generality sparse-peak
def which_peak(params, tokens, sheet):
    dense = [row["tflops"] for row in sheet if row["precision"] == "BF16" and not row["sparsity"]]
    peak = (dense or [row["tflops"] for row in sheet if row["precision"] == "BF16"])[0] * 1e12
    return peak, 6 * params * tokens / peak / YEAR


# %% wrong: always half of the larger => generality halved-dense  from: sparse peak
# -     peak = max(row["tflops"] for row in sheet if row["precision"] == "BF16") * 1e12
# +     peak = max(row["tflops"] for row in sheet if row["precision"] == "BF16") / 2 * 1e12


# %% wrong: the H100 by heart => values -
def which_peak(params, tokens, sheet):
    return 989e12, 6 * params * tokens / 989e12 / YEAR


# %% wrong: a single number => values wrong-shape
def which_peak(params, tokens, sheet):
    return 6 * params * tokens / 989e12 / YEAR


# %% half: years forgotten => 2.5
def which_peak(params, tokens, sheet):
    return min(r["tflops"] / (2 if r["sparsity"] else 1) for r in sheet if r["precision"] == "BF16") * 1e12, None


# %% wrong: half of the FP8 row => generality -  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) ==> min(row["tflops"] for row in sheet if row["precision"] == "FP8") / 2
