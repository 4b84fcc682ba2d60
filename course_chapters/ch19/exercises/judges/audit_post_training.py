from course_chapters.ch19.exercises.audit_post_training import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit

JUDGING = audit(
    ITEMS,
    Worked("audit-post-training"),
    CAUSES,
    why="""780 GB are 12 bytes per parameter: 16-bit weights and gradients, and two fp32 moments. Full precision takes
16. QLoRA stores the weights in a quarter of their bytes; its larger gain is that frozen weights have neither gradients
nor moments. PPO takes 16 FLOPs per parameter and token, GRPO 10: the frozen models compute, too.""",
    pytorch="`torch.cuda.max_memory_allocated()` measures what a recipe really needs.",
)

ANSWERS = r'''# %% right: worked
def audit_post_training() -> dict[str, tuple[float, str, str]]:
    """(number, "right" or "wrong", cause) of each statement, by id."""
    right = "right", "as printed"
    return {
        "finetune-65b-fp32": (65 * (4 + 4 + 8), "wrong", "16-bit recipe"),
        "weights-65b": (65 * 2, *right),
        "qlora-less": (780 / 48, "wrong", "weights alone"),
        "grpo-halves": ((6 + 6 + 2 + 2) / (6 + 2 + 2), "wrong", "trained models alone"),
        "sync-30x": (10 * 60 / 20, *right),
        "lora-18m": (175_000 / 10_000, *right),
        "gradients-7b": (7 * 4, *right),
    }
# %% right: by hand, lists, other letters
# ~ (65 * (4 + 4 + 8), "wrong", "16-bit recipe") ==> [1040, "Wrong", "16-bit recipe"]
# ~ (780 / 48, "wrong", "weights alone") ==> [16.3, "wrong", "Weights alone"]
# ~ 175_000 / 10_000 ==> 17.5
# %% wrong: 16-bit weights and gradients => values
# > full precision has 4 bytes for each weight, each gradient and each of two moments.
# ~ 65 * (4 + 4 + 8) ==> 65 * (2 + 2 + 8)
# %% wrong: a quarter => values as-printed
# > compare all the memory of 16-bit finetuning with the GPU's.
# ~ 780 / 48 ==> 4
# %% wrong: trained models alone => values as-printed
# > the reference and the reward model compute a forward pass each.
# ~ (6 + 6 + 2 + 2) / (6 + 2 + 2) ==> (6 + 6) / 6
# %% wrong: fp16 gradients => values
# > the gradients are in fp32: 4 bytes each.
# ~ 7 * 4 ==> 7 * 2
# %% wrong: everything is right => values wrong-verdict
# ~ return { ==> found = {
#       }
# +     return {name: (number, *right) for name, (number, _, _) in found.items()}
# %% wrong: another cause => values wrong-cause
# ~ "wrong", "weights alone" ==> "wrong", "16-bit recipe"
'''
