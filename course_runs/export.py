"""The weights of a run's checkpoint as one safetensors file, and such a file as a checkpoint for
`torch.distributed.checkpoint`.

    python -m course_runs.export OUT/checkpoints/00000100 model.safetensors
    python -m course_runs.export model.safetensors weights-as-a-checkpoint

The format (huggingface.co/docs/safetensors): 8 bytes of the header's length, the header as JSON, then the tensors'
bytes in a row.
"""

import argparse
import json
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor

from course_lib.messages import Trouble

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_WORDS = {dtype: word for word, dtype in DTYPES.items()}
LONGEST = 100_000_000  # bytes of a header, as the format says


def weights_of(checkpoint: str | Path) -> dict[str, Tensor]:
    """The whole weights of a checkpoint by the model's own names, on the CPU, whatever the layout that saved it."""
    metadata = dcp.FileSystemReader(str(checkpoint)).read_metadata()
    state = {
        name: torch.empty(entry.size, dtype=entry.properties.dtype)
        for name, entry in metadata.state_dict_metadata.items()
        if name.startswith("model.") and isinstance(entry, dcp.TensorStorageMetadata)
    }
    if not state:
        raise Trouble(f"{checkpoint} holds no weights of a model.", "give a folder that `train --save-every` wrote")
    dcp.load(state, checkpoint_id=str(checkpoint), no_dist=True)
    return {name.removeprefix("model."): tensor for name, tensor in state.items()}


def write(weights: Mapping[str, Tensor], path: str | Path) -> Path:
    """Write weights as a safetensors file."""
    header, offset = {}, 0
    for name, tensor in sorted(weights.items()):
        header[name] = {
            "dtype": _WORDS[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset := offset + tensor.nbytes],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors begin on whole words
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in header:
            file.write(weights[name].detach().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return path


def read(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    content = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    if length > min(LONGEST, len(content)):
        raise Trouble(f"{path} is no safetensors file.", "copy it once more")
    header, data = json.loads(content[8 : 8 + length]), bytearray(content[8 + length :])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            flat = (
                torch.frombuffer(data, dtype=torch.uint8, count=end - start, offset=start)
                if end > start
                else torch.empty(0, dtype=torch.uint8)
            )
            found[name] = flat.clone().view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Convert in the direction that the first path asks for; the exit code."""
    parser = argparse.ArgumentParser(prog="export", description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="a checkpoint's folder, or a .safetensors file")
    parser.add_argument("target", type=Path, help="the .safetensors file, or the folder, to write")
    given = parser.parse_args(argv)
    try:
        if not given.source.exists():
            raise Trouble(f"There is no {given.source}.", "give a checkpoint's folder or a .safetensors file")
        if given.source.is_dir():
            write(weights_of(given.source), given.target)
        else:
            state = {f"model.{name}": tensor for name, tensor in read(given.source).items()}
            dcp.save(state, checkpoint_id=str(given.target), no_dist=True)
    except Trouble as trouble:
        print(f"export: {trouble}", file=sys.stderr)
        return 2
    print(f"export: {given.target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
