"""What two ranks do for `test_meter`, all in one start: one program after another, each as torchrun runs it."""

import io
import os
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path

folder, programs = Path(sys.argv[1]), sys.argv[2:]  # PATH@PORT, where the ranks of that program meet
os.environ.update(MASTER_ADDR="127.0.0.1", TORCHELASTIC_USE_AGENT_STORE="False")
for script, port in (each.split("@") for each in programs):
    os.environ["MASTER_PORT"], sys.argv[:] = port, [script]
    with redirect_stdout(io.StringIO()) as said:
        runpy.run_path(script, run_name="__main__")
    (folder / f"{Path(script).stem}.{os.environ['RANK']}").write_text(said.getvalue(), encoding="utf-8")
