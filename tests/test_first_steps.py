"""The picture of two training steps in chapter 02: its levels, and the phase in which the job dies."""

from course_chapters.ch02 import first_steps
from course_lib.estimate import facts, memory
from tests.tables import each_of


@each_of("model", ["gpt2", "llama3-8b", "llama3-70b"])
def test_state_is_complete_after_a_step_and_moments_come_with_the_first(model):
    levels = first_steps.levels(model)
    state = memory.state_by_bucket(facts.model(model).params)
    end = first_steps.PHASES.index("step 1")
    assert {name: levels[name].max() for name in state} == state
    assert levels["moments"][end] == 0 and levels["moments"][end + 1] == state["moments"]
    assert levels["weights"][1] == state["weights"] and levels["weights"][0] == 0


def test_it_survives_the_first_step_and_dies_in_the_second():
    levels = first_steps.levels()
    totals = sum(levels.values())
    card = facts.device(first_steps.DEVICE).memory
    second = first_steps.PHASES.index("forward 2")
    phase, most = first_steps.peak(levels)
    assert phase == "forward 2" and most > card
    assert totals[: second + 1].max() <= card
    assert totals[second] + levels["grads"].max() <= card  # the step itself, with gradients and moments together


def test_a_model_that_fits_is_not_called_dead():
    picture = first_steps.first_steps("gpt2")
    assert "dies" not in " ".join(
        text.get_text() for text in picture.findobj(lambda artist: hasattr(artist, "get_text"))
    )
