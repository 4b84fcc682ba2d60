"""Widgets: pure drawings with controls, that leave a still picture, redraw in place and link only to what exists."""

import builtins
import re
import sys

import pytest

from course_lib import compute, facts, walls
from course_lib.cluster import simulate
from course_lib.facts import course
from course_lib.figures import Picture
from course_lib.units import BILLION, DAY, TRILLION
from course_lib.widgets import ch00, ch01, explore, links, menu, play, slider, text_box, toggle
from course_lib.widgets.explore import as_control


@pytest.fixture
def notebook(monkeypatch):
    """A stand-in for a kernel: what is displayed, and what is put in its place later."""
    import IPython.display

    shown: list[dict] = []

    class Handle:
        def __init__(self, at):
            self.at = at

        def update(self, bundle, raw):
            assert raw
            shown[self.at] = bundle

    def display(bundle, raw=False, display_id=False):
        assert raw
        shown.append(bundle)
        return Handle(len(shown) - 1) if display_id else None

    monkeypatch.setattr(IPython.display, "display", display)
    monkeypatch.setattr(sys.modules[explore.__module__], "in_notebook", lambda: True)
    monkeypatch.setattr(ch00, "in_notebook", lambda: True)
    return shown


def circle(ranks: int, step: int = 0) -> Picture:
    return ch00.ring(ranks, holders=[step % ranks])


# --- explore ---------------------------------------------------------------------------------------


def test_the_still_comes_first_and_the_controls_after_it(notebook):
    explore(circle, ranks=slider((3, 5, 8), 5))
    assert len(notebook) == 2
    assert "<img alt=" in notebook[0]["text/html"] and "ring of 5 ranks" in notebook[0]["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in notebook[1]


def test_a_moved_slider_redraws_the_picture_in_its_place(notebook):
    explorer = explore(circle, ranks=slider((3, 5, 8)), step=play(range(8)))
    explorer.inputs["ranks"].value = 8
    explorer.inputs["step"].value = 3
    assert len(notebook) == 2
    assert "ring of 8 ranks. Rank 3 has the token" in notebook[0]["text/plain"]
    assert explorer.setting == {"ranks": 8, "step": 3}


def test_a_play_button_moves_its_slider(notebook):
    explorer = explore(circle, ranks=[8], step=play(range(8), 2, interval=300))
    button = explorer.inputs["step"]
    assert (button.index, len(button.options)) == (2, 8)


def test_without_ipywidgets_there_is_a_still(notebook, monkeypatch):
    plain = builtins.__import__

    def no_widgets(name, *rest):
        if name == "ipywidgets":
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_widgets)
    explorer = explore(circle, ranks=(3, 5))
    assert len(notebook) == 1 and "<img" in notebook[0]["text/html"]
    assert explorer.inputs == {}


def test_without_a_notebook_the_alternative_is_printed(capsys):
    explorer = explore(circle, ranks=(3, 5))
    assert "ring of 3 ranks" in capsys.readouterr().out
    explorer.set(ranks=5)
    assert "ring of 5 ranks" in explorer.page()[1]


def test_an_impossible_setting_is_said_where_the_picture_was(notebook):
    def draw(ranks: int) -> Picture:
        if ranks > 3:
            raise ValueError("4 <ranks> do not fit")
        return circle(ranks)

    explorer = explore(draw, ranks=(3, 4))
    explorer.inputs["ranks"].value = 4
    assert "4 &lt;ranks&gt; do not fit" in notebook[0]["text/html"]


def test_controls_read_with_their_unit_and_label(notebook):
    explorer = explore(
        lambda **_: circle(3),
        params=slider((7e9, 70e9), 70e9, label="parameters", text=ch01.params_text),
        gpu=menu(("A", "B")),
        on=toggle(label="sharded"),
        find=text_box(label="search"),
    )
    inputs = explorer.inputs
    assert inputs["params"].description == "parameters"
    assert inputs["params"].label == "70 B"
    assert {name: type(widget).__name__ for name, widget in inputs.items()} == {
        "params": "SelectionSlider",
        "gpu": "Dropdown",
        "on": "Checkbox",
        "find": "Text",
    }


@pytest.mark.parametrize(
    ("given", "kind"), [((1, 2), "slider"), (range(3), "slider"), (("a", "b"), "menu"), (True, "toggle")]
)
def test_a_plain_value_becomes_the_control_that_fits(given, kind):
    assert as_control("some_name", given).kind == kind
    assert as_control("some_name", given).label == "some name"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: explore(circle, ranks=slider((3, 5), 4)), "not among"),
        (lambda: explore(circle, ranks=[]), "at least one value"),
        (lambda: explore(circle, ranks="3, 5"), "a sequence of values"),
        (lambda: explore(circle, ranks=7), "a sequence of values"),
        (lambda: slider((1.001, 1.002), text=lambda value: f"{value:.1f}"), "read the same"),
        (lambda: explore(circle, ranks=(3, 5)).set(ranks=4), "cannot be 4"),
        (lambda: explore(circle, ranks=(3, 5)).set(rank=4), "there are ranks"),
    ],
)
def test_a_control_that_cannot_work_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_picture_needs_an_alternative():
    from course_lib.figures import style

    with pytest.raises(ValueError, match="cannot see it"):
        explore(lambda: style.new()[0])


# --- every widget of the two chapters -----------------------------------------------------------------


def token(comm):
    """Pass a token once round."""
    import torch

    held = torch.zeros(1)
    if comm.rank == 0:
        comm.send(held, 1)
        comm.recv(held, comm.size - 1)
    else:
        comm.recv(held, comm.rank - 1)
        comm.send(held, (comm.rank + 1) % comm.size)


WIDGETS = {
    "ring of a run": lambda: ch00.ring_stepper(simulate(token, ranks=8)),
    "ring of a function": lambda: ch00.ring_stepper(token, counts=(2, 3, 5)),
    "map": ch00.course_map,
    "glossary": ch00.glossary,
    "cards": ch00.flash_cards,
    "budgets": ch01.three_budgets,
    "years": ch01.years_to_weeks,
    "cost": ch01.cost,
    "triage": ch01.triage,
    "step": ch01.step_parts,
    "runs": ch01.runs_over_time,
}


@pytest.mark.parametrize("make", WIDGETS.values(), ids=WIDGETS)
def test_every_value_of_every_control_can_be_drawn(make, notebook):
    explorer = make()
    for name, control in explorer.controls.items():
        for value in control.values or ("zero", ""):
            drawn = explorer.draw(**{**explorer.setting, name: value})
            assert drawn if isinstance(drawn, str) else drawn.alt, f"{name}={value}"


@pytest.mark.parametrize("make", WIDGETS.values(), ids=WIDGETS)
def test_every_control_changes_what_is_shown(make, notebook):
    explorer = make()
    relevant = {
        "symptom": {"route": "failure"},
        "pair": {"route": "synthesis"},
        "user_rate": {"qps": 1.0, "params": 70e9},
    }
    for name, control in explorer.controls.items():
        base = {**explorer.setting, **relevant.get(name, {})}
        ends = (control.values[0], control.values[-1]) if control.values else ("", "no such word")
        drawn = [explorer.draw(**{**base, name: value}) for value in ends]
        assert len({each if isinstance(each, str) else each.alt for each in drawn}) == 2, name


# --- chapter 00 -----------------------------------------------------------------------------------------


def test_a_token_goes_round_and_comes_home():
    run = simulate(token, ranks=5)
    alts = [ch00.draw_ring(list(run.messages), 5, step).alt for step in range(7)]
    assert "Rank 0 has the token. Before the first message" in alts[0]
    assert "Rank 3 has the token. It was at 0, 1, 2. On its way from 2 to 3" in alts[3]
    assert "Rank 0 has the token. It was at 1, 2, 3, 4" in alts[5]
    assert alts[6] == alts[5]  # past the end


def test_links_go_only_to_chapters_that_exist(tmp_path):
    folder = course.chapter("06").folder
    (tmp_path / folder).mkdir()
    (tmp_path / folder / f"{folder}.ipynb").touch()
    assert f'href="../{folder}/{folder}.ipynb"' in links.chapter_link("06", root=tmp_path)
    later = links.chapter_link("07", root=tmp_path)
    assert "href" not in later and "(later)" in later


def test_the_failure_route_names_chapters_in_order_with_reasons(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    page = ch00.draw_map("failure", "mesh", "out of memory", "sharding and small batches")
    places = [
        page.index(f"{number} {course.chapter(number).folder[3:].replace('_', ' ')}") for number in ("02", "08", "05")
    ]
    assert places == sorted(places)
    with pytest.raises(ValueError, match="choose from prerequisite, failure, synthesis"):
        ch00.draw_map("fastest", "mesh", "out of memory", "sharding and small batches")


def test_the_prerequisite_route_names_all_that_comes_before():
    assert "Needed before: The memory wall, Data parallel" in ch00.draw_map("prerequisite", "mesh", "", "")


@pytest.mark.parametrize(
    ("typed", "found"), [("cop whole", "replica"), ("ALL-REDUCE", "all-reduce"), ("fp32", "master copy")]
)
def test_the_glossary_finds_terms_by_any_words(typed, found):
    page = ch00.draw_glossary(typed)
    assert found in page
    assert 1 <= page.count("<tr>") - 1 <= 8


def test_what_is_typed_is_escaped():
    assert "<script>" not in ch00.draw_glossary("<script>alert(1)</script>")


def test_cards_hide_the_meaning_until_turned(notebook):
    explorer = ch00.flash_cards(seed=3)
    explorer.setting["number"] = 1
    hidden = explorer.page()[0]
    explorer.setting["turned"] = True
    term = re.search(r">([^<]+)</b>", hidden)[1]
    meaning = course.glossary()[term].meaning
    assert meaning[:20] not in hidden
    assert "Say what it means" not in explorer.page()[0]


def test_matching_returns_what_was_chosen(notebook):
    made = ch00.matching()
    row = course.thesis()["tensor parallel"]
    made.answers["tensor parallel"] = (row.property, row.collective)
    made.answers["pipeline parallel"] = (row.property, row.collective)
    assert made.right() == {"tensor parallel": True, "pipeline parallel": False}
    assert row.property in made._repr_html_()


def test_matching_follows_its_lists(notebook):
    import ipywidgets

    made, said = ch00.Matching(), ipywidgets.HTML()
    row = course.thesis()["expert parallel"]
    lists = {"property": [row.property, "linearity"], "ranks say": [row.collective]}
    line = ch00._match_row(ipywidgets, made, said, "expert parallel", lists)
    line.children[1].value = row.property
    assert made.answers == {}
    line.children[2].value = row.collective
    assert made.right() == {"expert parallel": True} and "1 of 5" in said.value
    line.children[1].value = ""
    assert made.answers == {}


# --- chapter 01 -----------------------------------------------------------------------------------------


def test_the_first_wall_of_the_picture_is_that_of_the_library():
    small = ch01.draw_budgets(1 * BILLION, gpus=8)
    assert "no wall" in small.alt and "All within budget" in small.alt
    large = ch01.draw_budgets(70 * BILLION, gpus=8)
    h100 = facts.device("H100 SXM")
    job = walls.Job(
        params=70e9,
        tokens=0.3e12,
        step_tokens=5e5,
        device_memory=h100.memory,
        flops_per_s=h100.dense_flops,
        target_step_s=10,
        deadline_s=90 * DAY,
        devices=8,
    )
    assert f"First wall: {walls.walls(job).first}" in large.alt


def test_years_become_weeks_at_the_same_price():
    one = ch01.draw_years_to_weeks(70 * BILLION, 15 * TRILLION, gpus=1, mfu=0.4)
    many = ch01.draw_years_to_weeks(70 * BILLION, 15 * TRILLION, gpus=16384, mfu=0.4)
    assert "505 years" in one.alt and "11.2 days" in many.alt
    assert re.search(r"\$[\d.]+ million", one.alt)[0] == re.search(r"\$[\d.]+ million", many.alt)[0]


def test_two_baselines_give_two_wastes():
    alt = ch01.draw_cost(gpus=1024, days=30, price=2.0, mfu=0.35, achievable=0.5).alt
    assert "100 % of peak 65 % is wasted" in alt and "achievable 50 % 30 % is wasted" in alt


def test_the_widget_has_a_scenario_that_says_stay_on_one_gpu():
    assert "stay on one device" in ch01.draw_triage(1 * BILLION, tokens=0.01 * TRILLION)
    assert "08 sharded data parallel" in ch01.draw_triage(70 * BILLION)
    assert "neither trained nor served" in ch01.draw_triage(70 * BILLION, tokens=0.0, qps=0.0)


def test_a_step_is_bound_by_its_longest_part():
    assert "bound by communication" in ch01.draw_step(100, 180, 60).alt
    assert "nothing overlaps" in ch01.draw_step(100, 180, 60, overlap=False).alt


def test_runs_are_dated_and_sourced():
    figure = ch01.draw_runs("accelerators", "BLOOM 176B")
    assert "from Transformer (big) in 2017 (8) to Llama 3.1 405B in 2024 (16,384)" in figure.alt
    with pytest.raises(ValueError, match="FLOP, accelerators, parameters"):
        ch01.draw_runs("price")


def test_the_cost_of_a_run_is_that_of_the_library():
    seconds = compute.train_seconds(70e9, 15e12, facts.device("H100 SXM").dense_flops, 0.4)
    bill = compute.cost_usd(compute.device_hours(seconds, 1), facts.price("H100 hour"))
    assert f"${bill / 1e6:.2f} million" in ch01.draw_years_to_weeks().alt
