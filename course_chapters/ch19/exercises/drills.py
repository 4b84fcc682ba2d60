"""One-line questions of chapter 19, with other numbers every time."""

from course_grader.exercises.drilling import of_chapter, pick

_drill = of_chapter("19")

DRILLS = (
    _drill(
        "lora-parameters",
        "A matrix of {{wide:int}} × {{high:int}} gets LoRA adapters of rank {{rank}}. How many parameters do the two "
        "adapters have?",
        "parameters",
        {"wide": 4096, "high": 14336, "rank": 16},
        pick(wide=(2048, 4096, 8192), high=(4096, 14336, 28672), rank=(4, 8, 16, 64)),
    ),
    _drill(
        "group-advantage",
        "A group has {{size}} answers, and {{good}} of them have reward 1, the others 0. What is the advantage of a good "
        "one, without division by the standard deviation?",
        "of reward",
        {"size": 8, "good": 2},
        pick(size=(8, 16, 32), good=(1, 2, 3, 5)),
    ),
    _drill(
        "sync-seconds",
        "A generator replica of {{tp}} GPUs takes {{params:count}} new weights of 2 bytes. Each GPU receives its part at "
        "{{rate}} GB/s. How long does the sync take at least?",
        "seconds",
        {"tp": 8, "params": 70e9, "rate": 50},
        pick(tp=(2, 4, 8), params=(8e9, 32e9, 70e9), rate=(25, 50, 100)),
    ),
    _drill(
        "frozen-bytes",
        "A reference of {{params:count}} parameters in bf16 is sharded over {{gpus}} GPUs. How many GB does each of them "
        "hold?",
        "GB",
        {"params": 8e9, "gpus": 8},
        pick(params=(8e9, 14e9, 70e9), gpus=(4, 8, 16, 64)),
    ),
    _drill(
        "tail-idle",
        "Each GPU generates one rollout. The mean length is {{mean:int}} tokens, the longest {{most:int}}. Which percentage "
        "of the time until the longest ends is idle?",
        "percent",
        {"mean": 2000, "most": 16000},
        pick(mean=(1000, 2000, 3000), most=(8000, 16000, 32000)),
    ),
    _drill(
        "rollouts-ahead",
        "Batches have {{batch}} rollouts, the trainer has version {{version}}, and rollouts may be {{bound}} versions old. "
        "How many rollouts may have started in all?",
        "rollouts",
        {"batch": 64, "version": 5, "bound": 2},
        pick(batch=(32, 64, 128), version=(3, 5, 9), bound=(1, 2, 4)),
    ),
    _drill(
        "one-step-off",
        "Generating a batch takes {{generate}} s, training on it {{train}} s, on GPUs of their own. How long does a step "
        "take one step off?",
        "seconds",
        {"generate": 60, "train": 45},
        pick(generate=(30, 60, 90), train=(20, 45, 75)),
    ),
    _drill(
        "generation-speedup",
        "Generation takes {{share}} % of a synchronous step and becomes {{times}} times as fast. How many times as fast is "
        "the step?",
        "times",
        {"share": 80, "times": 4},
        pick(share=(60, 70, 80, 90), times=(2, 3, 4, 8)),
    ),
)
