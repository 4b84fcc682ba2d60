"""Drills of chapter 00."""

from course_chapters.ch00.exercises.shared import SYMPTOMS
from course_grader.exercises import asking

_drill = asking("00")

DRILLS = (
    _drill("chapter-for-a-symptom", "chapter", symptom=SYMPTOMS)(
        "{{symptom}} Which chapter do you open first? Give its number."
    ),
    _drill("state-of-a-model", "GB", params=(70e9, 1e9, 3e9, 8e9, 13e9, 34e9))(
        "A model of {{params:count}} parameters trains with 16-bit weights and gradients and with Adam in 32 bits, "
        "including a master copy. How many GB of state does it have?"
    ),
    _drill(
        "cards-for-a-deadline",
        "GPUs",
        params=(7e9, 13e9, 34e9),
        tokens=(2e12, 1e12),
        mfu=(0.4, 0.35, 0.45),
        days=(30, 60, 90),
    )(
        "{{params:count}} parameters, {{tokens:count}} tokens, H100s at an MFU of {{mfu:percent}}, {{days}} days. How "
        "many GPUs does the run need with perfect scaling?"
    ),
    _drill(
        "tokens-in-a-step", "tokens", ranks=(16, 32, 64), micro=(4, 2, 8), accumulate=(2, 4, 8), seq=(2048, 4096, 8192)
    )(
        "{{ranks}} data-parallel ranks, {{micro}} sequences in a micro-batch, {{accumulate}} micro-batches before "
        "each optimizer step, {{seq:int}} tokens in a sequence. How many tokens does one step process?"
    ),
    _drill("price-of-a-point", "US dollars", usd=(1e6, 5e5, 2e6, 5e6), mfu=(0.4, 0.3, 0.35, 0.45))(
        "A run costs {{usd:usd}} at an MFU of {{mfu:percent}}. How much does one percentage point more save?"
    ),
)
