"""Chapter 02's animated pictures: the counted memory of a training step, and a caching allocator at work."""

from course_chapters.ch02.allocator_steps import SCENES, WAYS, draw_allocator, frames
from course_chapters.ch02.step_film import FRAMES, draw_film, film
from course_lib.draw.explore import Explorer, explore, menu, play
from course_lib.draw.sheets import Sheet
from course_lib.model.accounting import Accounting


def over_a_step(account: Accounting, frames: int = FRAMES) -> Explorer:
    """Play the recorded memory of a step."""
    shown = film(account, frames)
    last = len(shown.moments) - 1
    moments = play(range(last + 1), last, label="moment", text=lambda at: f"{at + 1} of {last + 1}", interval=120)
    return explore(lambda frame: draw_film(shown, frame), frame=moments)


def allocator(scene: str = "every step a little longer") -> Explorer:
    """Step through the requests of a few training steps; compare scenes and remedies."""
    moments = min(len(frames(name, way)) for name in SCENES for way in WAYS)

    def draw(moment: int, scene: str, way: str) -> Sheet:
        return draw_allocator(scene, way, round(moment / (moments - 1) * (len(frames(scene, way)) - 1)))

    return explore(
        draw,
        moment=play(range(moments), moments - 1, label="moment", interval=200),
        scene=menu(tuple(SCENES), scene, label="sequences"),
        way=menu(tuple(WAYS), label="allocator"),
    )
