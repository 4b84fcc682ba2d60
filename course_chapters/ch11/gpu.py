"""Chapter 11 on a GPU: causal attention by length, and from which length on it hides a ring's transfers."""

import time

import torch
from IPython.display import Markdown
from torch.nn import functional as F

from course_chapters.ch11.exercises.numbers import ACROSS, ELEMENT, INSIDE, SHAPE
from course_chapters.table import table
from course_lib.estimate import facts
from course_lib.estimate.units import duration_text, rate_text
from course_lib.parallel.context.costs import attention_flops
from course_runs.peaks import half

TOKENS = (256, 512, 1024, 2048, 4096, 8192)


def seconds(tokens: int, device: str, repeats: int = 5) -> float:
    """The fastest of some forward passes of causal attention with the heads of the plan's model, in 16 bits."""
    shapes = ((SHAPE.heads, tokens), (SHAPE.kv_heads, tokens), (SHAPE.kv_heads, tokens))
    kind = half(torch.device(device)) if device == "cuda" else torch.bfloat16
    q, k, v = (torch.randn(1, *shape, SHAPE.head_dim, device=device, dtype=kind) for shape in shapes)
    best = float("inf")
    for _ in range(repeats + 1):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def attention_rates(device: str | None = None, lengths: tuple[int, ...] = TOKENS) -> Markdown:
    """A causal ring step and its transfers by tokens per rank: measured where a GPU is, else computed; the first line
    says which."""
    found = device or ("cuda" if torch.cuda.is_available() else "")
    peak, links = float(facts.device("H100 SXM").matmul_flops), {"NVLink": INSIDE, "the adapter": ACROSS}
    rows = []
    for tokens in lengths:
        flops = float(attention_flops(tokens**2 / 2, SHAPE.heads, SHAPE.head_dim))
        took = seconds(tokens, found) if found else flops / peak
        block = 2 * tokens * SHAPE.kv_heads * SHAPE.head_dim * ELEMENT  # bytes of keys and values
        rows.append(
            {
                "tokens per rank": f"{tokens:,}",
                "causal attention": duration_text(took),
                "rate": rate_text(flops / took, 3),
                **{f"a block over {name}": duration_text(block / rate) for name, rate in links.items()},
                "hidden over": ", ".join(name for name, rate in links.items() if block / rate <= took) or "neither",
            }
        )
    if found:
        first = f"Measured on {torch.cuda.get_device_name() if found == 'cuda' else found}:"
    else:
        first = "There is no GPU here. Computed for an H100 at the best rate measured for matmuls:"
    return Markdown(f"{first}\n\n{table(rows).data}")
