"""Every shipped answer meets its fate: right ones full points, wrong ones the verdict meant for them."""

import pytest

from course_lib.exercises import killmatrix

ANSWERS = killmatrix.bank()


@pytest.mark.parametrize("answer", ANSWERS, ids=[f"{a.exercise}: {a.name}" for a in ANSWERS])
def test_answer(answer):
    row = killmatrix.judge(answer)
    assert row.ok, f"{answer.sort} answer {answer.name!r} meant {answer.expected} {answer.mistake}; got {row.got}: {row.message}"


def test_an_answer_with_the_wrong_fate_fails_the_matrix(tmp_path, monkeypatch):
    shipped = next(a for a in ANSWERS if a.sort == "right")
    folder = tmp_path / "ch00"
    folder.mkdir()
    (folder / f"{shipped.exercise}.py").write_text(f"# %% wrong: in truth right => values -\n{shipped.source}\n")
    monkeypatch.setattr(killmatrix, "BANK", tmp_path)
    assert killmatrix.main(["--workers", "1"]) == 1
