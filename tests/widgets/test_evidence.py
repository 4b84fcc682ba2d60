"""A chapter shows one's own evidence before what is recorded, never a mixture of both, and says which it is."""

import shutil
from pathlib import Path

import pytest

from course_chapters import evidence_widget as shows
from course_chapters.ch15 import predicted_measured as pictures
from course_runs import evidence, reading
from tests.tables import each_of

PIPELINES = {
    "all forward first": {"layout": "pp", "schedule": "gpipe"},
    "one forward, one backward": {"layout": "pp", "schedule": "1f1b"},
}

RUNS = reading.every("train", "recorded")
ROWS = reading.rows_of(RUNS)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for evidence of one's own."""
    monkeypatch.setenv("COURSE_EVIDENCE", str(tmp_path))
    return tmp_path


def lend(own: Path, *names: str) -> None:
    for name in names:
        shutil.copy(evidence.SHIPPED / f"{name}.json", own)


def test_without_evidence_of_ones_own_the_recorded_is_shown_and_named(own):
    said = shows.steps(PIPELINES).data
    assert said.startswith("**Recorded with the course**") and "pp-gpipe`" in said and "process" in said
    assert said.count("\n| ") == 2 + 2 * 3, "a head, and three quantities of two runs"


def test_ones_own_is_shown_first_where_it_answers_the_whole_question(own):
    lend(own, "cpu2/pp-1f1b")
    assert shows.steps(PIPELINES).data.startswith("**Recorded"), "half of a comparison is none"
    lend(own, "cpu2/pp-gpipe")
    said = shows.steps(PIPELINES).data
    assert said.startswith("**Your own evidence**: `pp-gpipe`, `pp-1f1b`, 2 processes on ")


def test_runs_of_other_sizes_are_not_compared(own):
    lend(own, "cpu2/fsdp", "cpu4/fsdp-kept")
    ways = [{"layout": "fsdp", "reshard_after_forward": reshard} for reshard in (True, False)]
    found = shows.together("train", *ways)
    assert {each.origin for each in found} == {"recorded"}
    assert len({reading.ranks_of(each.content) for each in found}) == 1


def test_with_no_evidence_at_all_the_published_rows_are_pointed_to(own, monkeypatch):
    monkeypatch.setattr(evidence, "SHIPPED", own / "nothing")
    for said in (shows.steps(PIPELINES), shows.matmul(), shows.links()):
        assert "published" in said.data and "|" not in said.data


def test_what_is_shown_is_what_the_file_says(own):
    row = reading.rows_of([found := shows.together("train", {"layout": "ddp"})[0]])[0]
    said = shows.steps({"replicas": {"layout": "ddp"}}, ("wire",)).data
    assert (
        f"| replicas | sent a step | {shows.bytes_text(row['wire_predicted'])} | "
        f"{shows.bytes_text(row['wire_measured'])} | {row['wire_ratio']:.2f} |" in said
    )
    assert f"`{found.name}`" in said and found.content["when"][:10] in said


def test_rates_of_matmul_are_shares_of_the_best_where_there_is_no_data_sheet(own):
    said = shows.matmul().data
    assert "| the best found here | 100 % |" in said and "FLOP/s" in said


def test_every_collective_that_was_swept_has_a_row_even_if_no_line_fits(own):
    content = dict(reading.recorded("cpu4/links"))
    lacking = {**content, "measured": {**content["measured"], "fits": {}}}
    evidence.write(evidence.sealed(lacking), own, "links")
    said = shows.links().data
    assert said.startswith("**Your own") and said.count("no line fits") == len(content["measured"]["best_bus"])
    assert shows.duration_text(content["measured"]["fits"]["all_reduce"]["alpha"]) not in said


# --- predicted against measured


def test_the_still_has_a_mark_for_each_ratio_and_says_the_ends():
    shown = [row for row in ROWS if row["name"].startswith(RUNS[0].name.split("/")[0])]
    picture = pictures.ratios(shown)
    marks = sum(len(line.get_xdata()) for line in picture.axes[0].lines) - len(pictures.INKS)  # without the key's
    assert marks == sum(row[f"{quantity}_ratio"] is not None for row in shown for quantity in pictures.INKS)
    assert f"{len(shown)} runs" in picture.alt and all(name in picture.alt for name in pictures.NAMES.values())


@each_of("quantity", pictures.NAMES)
def test_each_run_stands_beside_its_prediction(quantity):
    said = pictures.beside(ROWS, quantity).alt
    for row in ROWS:
        if row[f"{quantity}_ratio"]:
            text = pictures.TEXTS[quantity]
            assert (
                f"{pictures.label(row)}: {text(row[f'{quantity}_predicted'])} predicted, "
                f"{text(row[f'{quantity}_measured'])} measured" in said
            )


def test_without_anything_to_compare_the_picture_says_so():
    alone = [row for row in ROWS if row["ranks"] == 1]
    assert alone
    with pytest.raises(ValueError, match="one process sends nothing"):
        pictures.beside(alone, "wire")
    with pytest.raises(ValueError, match="no runs to compare"):
        pictures.ratios([])
