"""What ranks may send: tensors and arrays, of which dtypes."""

import numpy as np
import torch

Array = torch.Tensor | np.ndarray  # what may be sent or filled

DTYPES = {dtype: str(dtype).removeprefix("torch.") for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
PLAIN = frozenset(dtype for dtype in DTYPES if not (dtype.is_floating_point and dtype.itemsize == 1))  # no float8
