"""The course on Google Colab, beside the packages that are there: its widgets, the pictures of a chapter, the learner's
work.
"""

import os
import re
import shutil
from pathlib import Path

from course_lib.folders import folders

DRIVE = Path("/content/drive")
WORK = "training-at-scale"  # the folder in Google Drive


def begin(chapter: str, *, drive: bool = False) -> None:
    """Make Colab ready for a chapter, and say what is here and where the work is kept.

    With `drive`, progress and evidence are kept in Google Drive, which asks for your consent; without it they end with
    the session, unless `save` downloads them.
    """
    from google.colab import output

    output.enable_custom_widget_manager()
    if drive:
        from google.colab import drive as google_drive

        google_drive.mount(str(DRIVE))
    place = DRIVE / "MyDrive" / WORK if drive else Path("/content") / "work"
    os.environ.setdefault("COURSE_WORK", str(place))
    ends = "" if drive else " and ends with this session; `colab.save()` downloads it"
    print(f"{processor()}\nYour progress is in {folders().work}{ends}.")
    print("Your answers are in this notebook: File, Save a copy in Drive keeps it.")
    _show_figures(chapter)


def processor() -> str:
    """What the cells under *On GPUs* use here."""
    import torch

    from course_runs.peaks import half

    if not torch.cuda.is_available():
        return "No GPU: nothing here needs one. Runtime, Change runtime type adds a T4 for the cells under On GPUs."
    name = torch.cuda.get_device_name()
    if half(torch.device("cuda")) == torch.bfloat16:
        return f"{name}: the cells under On GPUs use it, in bf16."
    return f"{name}: the cells under On GPUs use it, in fp16, because this GPU does not multiply in bf16."


def save() -> None:
    """Put this notebook into its place in the work folder and download the folder as a zip."""
    from google.colab import _message, files

    book = _message.blocking_request("get_ipynb")["ipynb"]
    work, name = folders().work, _folder(book["metadata"]["course"]["chapter"])
    _write(book, work / name / f"{name}.ipynb")
    files.download(shutil.make_archive(str(work), "zip", work))


def _write(book: object, path: Path) -> None:
    import json

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(book, indent=1), encoding="utf-8")


def _folder(chapter: str) -> str:
    return next(path.name for path in (folders().root / "notebooks").glob(f"{chapter}_*"))


def _show_figures(chapter: str) -> None:
    """The pictures between the text, which Colab does not find: they lie beside a notebook, and here it is alone."""
    from IPython.display import HTML, display

    folder = folders().root / "notebooks" / _folder(chapter)
    (notebook,) = folder.glob("*.ipynb")
    shown = re.findall(r"!\[([^\]]*)\]\(figures/([\w.-]+)\)", notebook.read_text(encoding="utf-8"))
    for words, name in shown:
        picture = (folder / "figures" / name).read_text(encoding="utf-8")
        display(HTML(f"<details><summary>Picture: {words}</summary>{picture}</details>"))
