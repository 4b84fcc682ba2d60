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


# %% wrong: sparse peak => values sparse-peak  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> max(row["tflops"] for row in rows) * 1e12

# %% wrong: the largest number on the sheet => values fp8-sparse-peak  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> max(row["tflops"] for row in sheet) * 1e12

# %% wrong: halves the dense row => values halved-dense  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> min(row["tflops"] for row in rows) / 2 * 1e12

# %% wrong: teraflops => values teraflops  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> min(row["tflops"] for row in rows) * 1e12
# ~ return peak, ==> return peak / 1e12,

# %% wrong: days => values days  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> min(row["tflops"] for row in rows) * 1e12
# ~ / peak / YEAR ==> / peak / 86_400

# %% wrong: divides by the GPUs of a server => values divided-needlessly  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> min(row["tflops"] for row in rows) * 1e12 / 8

# %% wrong: the first BF16 row => generality sparse-peak  from: dense row, else half of the sparse one
# ~ rows[0]["tflops"] / 2 ==> rows[0]["tflops"]

# %% wrong: always half of the larger => generality halved-dense  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> max(row["tflops"] for row in rows) / 2 * 1e12

# %% wrong: the H100 by heart => values -  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) * 1e12 ==> 989e12

# %% wrong: a single number => values wrong-shape  from: dense row, else half of the sparse one
# ~ return peak, 6 ==> return 6

# %% half: years forgotten => 2.5  from: dense row, else half of the sparse one
# ~ 6 * params * tokens / peak / YEAR ==> None

# %% wrong: half of the FP8 row => generality -  from: dense row, else half of the sparse one
# ~ (dense[0] if dense else rows[0]["tflops"] / 2) ==> min(row["tflops"] for row in sheet if row["precision"] == "FP8") / 2
