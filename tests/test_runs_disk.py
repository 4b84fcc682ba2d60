"""What runs share on the disk: one that breaks off spoils nothing for the next."""

import json
from pathlib import Path

import pytest

from course_runs import compiled as kept
from course_runs import saving, torchrun, train
from tests.patience import patience


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Compiled files of this test alone."""
    monkeypatch.setenv(kept.VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_a_run_finds_what_runs_before_it_compiled_unless_one_broke_off(home):
    first = kept.Folder.take()
    (first.path / "good.so").write_text("whole")
    first.give_back(well=True)
    second = kept.Folder.take()
    assert second.path == first.path and (second.path / "good.so").exists()
    (second.path / "bad.so").touch()
    second.give_back(well=False)
    said: list[str] = []
    third = kept.Folder.take(said.append)
    assert not list(third.path.glob("*.so")) and str(third.path) in said[0]
    third.give_back(well=True)


def test_runs_at_the_same_time_share_a_folder_until_one_of_them_breaks_off(home):
    one, two = kept.Folder.take(), kept.Folder.take()
    assert one.path == two.path
    (one.path / "mine.so").touch()
    two.give_back(well=False)
    three = kept.Folder.take()
    assert three.path != one.path and (one.path / "mine.so").exists()
    one.give_back(well=True)
    three.give_back(well=True)


def test_a_folder_that_cannot_be_shared_is_the_runs_alone(home, monkeypatch):
    home.write_text("a file stands here")
    alone = kept.Folder.take()
    assert alone.path.is_dir() and not list(alone.path.iterdir())
    alone.give_back(well=True)
    assert not alone.path.exists()


@pytest.mark.rotates("course_runs/")
def test_a_run_that_was_killed_while_it_compiled_spoils_no_later_one(home):
    program = str(Path(__file__).parent / "compiled_once.py")
    said: list[str] = []
    killed = torchrun.run(program, ["die"], say=None, extra=["--standalone"], timeout=patience(200))
    assert not killed.ok and "emptied" in killed.lines
    again = torchrun.run(program, ["live"], say=said.append, extra=["--standalone"], timeout=patience(200))
    assert again.ok, again.lines
    assert "is not used" in said[0] and list(home.rglob("*.so"))


# ---------------------------------------------------------------------------------------------------------- checkpoints


def trained(folder: Path, words: str) -> int:
    common = ["--device", "cpu", "--layout", "single", "--batch", "2", "--seq-len", "16", "--out"]
    return train.main([*common, str(folder), *words.split()])


def test_a_step_that_is_written_over_counts_only_once_it_is_whole(tmp_path, monkeypatch):
    assert trained(tmp_path, "--steps 2 --save-every 1") == 0
    [*_, newest] = sorted(tmp_path.glob("checkpoints/*/complete"))
    seen: list[bool] = []

    def broken_off(*_: object, **__: object) -> None:
        seen.append((newest.parents[1] / "00000001" / "complete").exists())
        raise KeyboardInterrupt

    monkeypatch.setattr(saving.dcp, "save", broken_off)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, f"--steps 2 --save-every 1 --rates {next(tmp_path.glob('*.json'))}")
    assert seen == [False] and newest.exists()
    assert json.loads(newest.read_text()) == {"step": 2, "total": 2} and not list(tmp_path.glob("checkpoints/*/part"))
