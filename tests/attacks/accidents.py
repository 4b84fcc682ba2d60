"""Accidents of honest learners: what editors, merges, copies and slips do to a notebook. Nothing that was earned may be
lost."""

import copy
import json

from course_grader.attacks.sheet import Sheet, as_json, attack, code
from course_grader.notebooks import grade_meta, render


@attack("accident")
def copied_check_cell(sheet: Sheet) -> None:
    """A check cell copied to the end, metadata and all."""
    sheet.notebook["cells"].append(copy.deepcopy(sheet.cell(f"{sheet.target}-check")))


@attack("accident")
def copied_answer_cell(sheet: Sheet) -> None:
    """An answer cell copied with its metadata; the copy was left as it came."""
    again = copy.deepcopy(sheet.cell(sheet.target))
    again["id"] = "copy"
    right = again["source"]
    sheet.stub()
    again["source"], sheet.cell(sheet.target)["source"] = right, sheet.cell(sheet.target)["source"]
    sheet.notebook["cells"].insert(sheet.place(sheet.target) + 1, again)
    sheet.expect(sheet.target, 10.0)
    sheet.said.append("is there 2 times")


@attack("accident")
def metadata_of_another_version(sheet: Sheet) -> None:
    """nbgrader's metadata of versions 1 and 99, with fields that nobody knows."""
    for at, cell in enumerate(sheet.notebook["cells"]):
        if grade_meta(cell):
            cell["metadata"]["nbgrader"] |= {"schema_version": (1, 99)[at % 2], "checksum": "0", "unknown": {"a": None}}


@attack("accident")
def metadata_of_the_wrong_kind(sheet: Sheet) -> None:
    """Metadata as numbers, texts, lists and nothing, in cells and in the notebook."""
    cells = sheet.notebook["cells"]
    cells.append({**code("1", "odd-1"), "metadata": {"nbgrader": 7, "tags": "x", "course": None}})
    cells.append(
        {
            **code("1", "odd-2"),
            "metadata": {"nbgrader": {"grade_id": ["a"], "solution": True, "grade": {}}, "tags": None},
        }
    )
    cells.append({**code("1", "odd-3"), "metadata": {"nbgrader": {"grade_id": 5, "grade": True}, "tags": {"a": 1}}})
    cells.append({**code("1", "odd-4"), "id": 17})
    cells.append({**code("1", "odd-5"), "id": ["x"], "outputs": "none"})
    whole = {**sheet.notebook, "metadata": {**sheet.notebook["metadata"], "kernelspec": [], "language_info": 3}}
    sheet.data = as_json({**whole, "nbformat": "4", "nbformat_minor": None})


@attack("accident")
def deleted_check_cell(sheet: Sheet) -> None:
    """A check cell deleted."""
    sheet.drop(f"{sheet.target}-check")


@attack("accident")
def answer_in_a_cell_of_its_own(sheet: Sheet) -> None:
    """The answer cell deleted, and its functions written in a new cell."""
    cell = sheet.drop(sheet.target)
    sheet.notebook["cells"].insert(sheet.place(f"{sheet.target}-check"), code(cell["source"], "retyped"))


@attack("accident")
def deleted_imports(sheet: Sheet) -> None:
    """The chapter's first cell, with its imports, deleted."""
    del sheet.notebook["cells"][1]


@attack("accident")
def answer_turned_to_markdown(sheet: Sheet) -> None:
    """An answer cell turned into Markdown by a slip of the keyboard."""
    cell = sheet.cell(sheet.target)
    for key in ("outputs", "execution_count"):
        cell.pop(key)
    cell["cell_type"] = "markdown"
    sheet.expect(sheet.target, 0.0, "not answered")
    sheet.said.append("make it a code cell again")


@attack("accident")
def cells_in_another_order(sheet: Sheet) -> None:
    """The exercises turned round: the last one first."""
    cells = sheet.notebook["cells"]
    sheet.notebook["cells"] = cells[:2] + [each for at in range(len(cells) - 2, 1, -2) for each in cells[at : at + 2]]


@attack("accident")
def answer_split_in_two(sheet: Sheet) -> None:
    """An answer cell of two functions split in two, which copies its metadata."""
    cell = sheet.cell(sheet.target)
    head, middle, tail = cell["source"].partition("def gpus_for_deadline")
    cell["source"] = head.rstrip()
    sheet.notebook["cells"].insert(
        sheet.place(sheet.target) + 1, {**copy.deepcopy(cell), "id": "second", "source": middle + tail}
    )


@attack("accident")
def answers_merged_into_one(sheet: Sheet) -> None:
    """Two exercises' answers merged into the first one's cell."""
    later = sheet.drop("mfu-waste")
    sheet.cell(sheet.target)["source"] += "\n\n\n" + later["source"]


@attack("accident")
def editor_that_drops_metadata(sheet: Sheet) -> None:
    """An editor that drops the metadata of all cells, and keeps their ids."""
    for cell in sheet.notebook["cells"]:
        cell["metadata"] = {}


@attack("accident")
def editor_that_drops_ids(sheet: Sheet) -> None:
    """An editor that drops the ids of all cells, and keeps their metadata."""
    for cell in sheet.notebook["cells"]:
        cell.pop("id")


@attack("accident")
def editor_with_metadata_of_its_own(sheet: Sheet) -> None:
    """An editor that adds its own metadata, new ids, and outputs as text."""
    for at, cell in enumerate(sheet.notebook["cells"]):
        cell["metadata"] |= {
            "id": f"colab{at}",
            "colab": {"base_uri": "x"},
            "outputId": "y",
            "vscode": {"languageId": "python"},
            "scrolled": True,
        }
        cell["id"] = f"{at:08x}"
    sheet.notebook["metadata"] |= {
        "colab": {"provenance": []},
        "accelerator": "GPU",
        "kernelspec": {"name": "python3", "display_name": "x"},
    }


@attack("accident")
def unfinished_merge_of_the_file(sheet: Sheet) -> None:
    """The marks of a git merge across the file."""
    text = sheet.text().decode()
    sheet.data = text.replace('\n "metadata"', '\n<<<<<<< HEAD\n "metadata"', 1).encode()
    sheet.refused = "unfinished git merge"


@attack("accident")
def unfinished_merge_in_a_cell(sheet: Sheet) -> None:
    """The marks of a git merge inside one answer."""
    cell = sheet.cell(sheet.target)
    cell["source"] = f"<<<<<<< HEAD\n{cell['source']}\n=======\npass\n>>>>>>> other\n"
    sheet.expect(sheet.target, 0.0, "raised")
    sheet.said.append("unfinished git merge")


@attack("accident")
def empty_file(sheet: Sheet) -> None:
    """A file without a byte."""
    sheet.data = b""
    sheet.refused = "is empty"


@attack("accident")
def another_kind_of_file(sheet: Sheet) -> None:
    """A picture with a notebook's name."""
    sheet.data = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
    sheet.refused = "not UTF-8 text"


@attack("accident")
def json_that_is_no_notebook(sheet: Sheet) -> None:
    """JSON of another kind."""
    sheet.data = b'["a", 1]'
    sheet.refused = "but not a notebook"


@attack("accident")
def format_of_2014(sheet: Sheet) -> None:
    """A notebook in the format of before 2015."""
    sheet.data = as_json({"metadata": {}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": []}]})
    sheet.refused = "format of before 2015"


@attack("accident")
def bad_time_stamp(sheet: Sheet) -> None:
    """A time stamp beside the notebook that is none."""
    sheet.files["timestamp.txt"] = b"yesterday, about noon \xff\n"


@attack("accident")
def windows_line_ends(sheet: Sheet) -> None:
    """Windows line ends in the file and in every cell, and a byte order mark."""
    for cell in sheet.notebook["cells"]:
        cell["source"] = cell["source"].replace("\n", "\r\n")
    sheet.data = b"\xef\xbb\xbf" + as_json(sheet.notebook).replace(b"\n", b"\r\n")


@attack("accident")
def source_as_lines_and_odd_letters(sheet: Sheet) -> None:
    """Cells as lists of lines, tabs, form feeds, letters of all scripts, emoji, half a surrogate pair in a comment."""
    sheet.own("größe = '日本語 🎉 \u2028'  # \\ud83d \f\nif True:\n\tx = 1\n")
    lone = json.dumps("note = 1  # \ud83d").encode()
    sheet.data = (
        render(sheet.notebook)
        .encode()
        .replace(b'"x = 1', b'"y = 2')
        .replace(
            b'"cells": [',
            b'"cells": [{"cell_type": "code", "metadata": {}, "source": [' + lone + b'], "outputs": []},',
            1,
        )
    )


@attack("accident")
def warnings_and_progress_bars(sheet: Sheet) -> None:
    """Warnings, progress bars and logs on stderr, in cells and in answers."""
    sheet.own("""
        import logging, sys, warnings

        warnings.warn("deprecated"); logging.warning("careful"); print("\\r 50 %|█████     |", end="",
            file=sys.stderr)""")
    cell = sheet.cell(sheet.target)
    cell["source"] = cell["source"].replace(
        "    return", "    import sys, warnings; warnings.warn('x'); print('y', file=sys.stderr)\n    return", 1
    )


@attack("accident")
def question_to_the_keyboard(sheet: Sheet) -> None:
    """input() and getpass() in a cell: nobody answers, and nothing hangs."""
    sheet.own("name = input('Your name? ')")
    sheet.own("import getpass; getpass.getpass()")


@attack("accident")
def installation_in_a_cell(sheet: Sheet) -> None:
    """Cells that install packages and call shells, as found in notebooks everywhere."""
    sheet.own("%pip install --quiet --no-index nothing-of-that-name")
    sheet.own("!echo hello")
    sheet.own("files = !ls")


@attack("accident")
def magics(sheet: Sheet) -> None:
    """Magics: timing, autoreload, matplotlib, bash, debuggers, unknown ones, and reset."""
    for line in (
        "%matplotlib inline",
        "%load_ext autoreload\n%autoreload 2",
        "%timeit -n 1 -r 1 1 + 1",
        "%%bash\necho x",
        "%%time\nx = 1",
        "%unknown_magic",
        "%config InlineBackend.figure_format = 'retina'",
        "%pdb off",
        "?print",
    ):
        sheet.own(line)
        sheet.notebook["cells"][sheet.place(sheet.target) - 1]["source"] = line


@attack("accident")
def syntax_error_in_one_answer(sheet: Sheet) -> None:
    """A colon forgotten in one answer: the others count."""
    sheet.cell(sheet.target)["source"] = "def train_days(params, tokens, gpu_flops, utilization)\n    return 1\n"
    sheet.expect(sheet.target, 0.0, "raised")
    sheet.said.append("SyntaxError")


@attack("accident")
def syntax_error_in_a_cell(sheet: Sheet) -> None:
    """Notes without a comment sign, and an error of their own, in cells between the answers."""
    sheet.own("to do: ask about this!")
    sheet.own("1 / 0")
    sheet.own("raise KeyboardInterrupt")


@attack("accident")
def exit_in_a_cell(sheet: Sheet) -> None:
    """exit(), quit() and sys.exit() at the end of an evening's work."""
    sheet.own("exit()")
    sheet.own("import sys; sys.exit(1)")
    sheet.own("import os; os._exit(0)")


@attack("accident")
def one_half_of_an_answer(sheet: Sheet) -> None:
    """The first of two functions written, the second left as it came: the first one's points."""
    cell = sheet.cell(sheet.target)
    head, middle, _ = cell["source"].partition("def gpus_for_deadline")
    cell["source"] = head + middle + "(params, tokens, gpu_flops, utilization, days):\n    raise NotImplementedError\n"
    sheet.expect(sheet.target, None, "answered")
    sheet.said.append("not answered yet")


@attack("accident")
def windows_and_widgets(sheet: Sheet) -> None:
    """Plots in windows, widgets, plotly's renderer, and a browser that is to open."""
    sheet.own("""
        import matplotlib, matplotlib.pyplot as plt
        import ipywidgets

        plt.plot([1, 2]); plt.show(); plt.pause(0.01)
        ipywidgets.IntSlider()
        import webbrowser

        webbrowser.open("http://127.0.0.1:9/")""")


@attack("accident")
def state_saved_in_the_file(sheet: Sheet) -> None:
    """Megabytes of outputs, pictures and widget state saved in the file."""
    picture = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "iVBORw0KGgo" * 100_000}}
    for cell in sheet.notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [picture, {"output_type": "stream", "name": "stderr", "text": ["x\n"] * 1000}]
    sheet.notebook["metadata"]["widgets"] = {
        "application/vnd.jupyter.widget-state+json": {"state": {}, "version_major": 2}
    }


@attack("accident")
def names_shadowed(sheet: Sheet) -> None:
    """Names of Python's own used for something else in a learner's cell: list, sum, max, params."""
    sheet.own("list = [1, 2]; dict = {}; str = 'a'; len_ = 3; id = 4; type = 'x'")


@attack("accident")
def own_files_beside(sheet: Sheet) -> None:
    """A module and data of the learner's own beside the notebook, used by an answer."""
    cell = sheet.cell(sheet.target)
    sheet.files |= {"helper.py": b"DAY_SECONDS = 86_400\n", "data/notes.txt": b"86400\n"}
    cell["source"] = (
        "import helper\nfrom pathlib import Path\n\nassert Path('data/notes.txt').read_text() == '86400\\n'\n\n\n"
        + cell["source"]
    )


@attack("accident")
def folder_changed_by_a_cell(sheet: Sheet) -> None:
    """A cell that goes to another folder, opens files for good, and changes how numbers print."""
    sheet.own("""
        import os, sys

        os.makedirs("results", exist_ok=True); os.chdir("results")
        kept = [open("log.txt", "w") for _ in range(20)]
        sys.stdout = kept[0]; print("where?")""")


@attack("accident", chapter="00")
def deadlock_in_one_answer(sheet: Sheet) -> None:
    """Two ranks that both send first: no point, the others count, and it is said who waits for whom."""
    sheet.cell(sheet.target)["source"] = (
        "def exchange(comm, x):\n    got = torch.empty_like(x)\n    comm.send(x, comm.rank ^ 1)\n    comm.recv(got, "
        "comm.rank ^ 1)\n    return got\n"
    )
    sheet.expect(sheet.target, 0.0, "deadlock")


@attack("accident", chapter="06")
def crash_of_one_rank(sheet: Sheet) -> None:
    """One rank of many that ends its process: its exercise is lost, the others count."""
    sheet.cell(sheet.target)["source"] = (
        "def ring_shift(comm, x):\n    import os\n\n    if comm.rank == 1:\n        os._exit(3)\n    return x\n"
    )
    sheet.expect(sheet.target, 0.0, "crashed")


@attack("accident", chapter="06")
def own_module_of_ranks(sheet: Sheet) -> None:
    """A cluster exercise whose answer uses a module of the learner's own beside the notebook."""
    sheet.files["neighbors.py"] = b"def after(comm):\n    return (comm.rank + 1) % comm.size\n"
    sheet.own("import neighbors")
    sheet.cell(sheet.target)["source"] = (
        "def ring_shift(comm, x):\n    got = torch.empty_like(x)\n    if comm.size == 1:\n        return x\n"
        "    work = comm.isend(x, neighbors.after(comm))\n    comm.recv(got, (comm.rank - 1) % comm.size)\n    "
        "work.wait()\n    return got\n"
    )
