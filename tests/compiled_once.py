"""A program for `test_runs_compiled`: it compiles a function, and with "die" empties what was compiled and is
killed."""

import os
import signal
import sys
from pathlib import Path

import torch

print(float(torch.compile(lambda x: x.sin() + x)(torch.ones(()))))
if sys.argv[1] == "die":
    for path in Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).rglob("*.so"):
        path.write_bytes(b"")
        print("emptied", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
