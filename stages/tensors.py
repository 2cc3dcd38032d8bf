"""Reading and writing named float64 tensors as safetensors files: byte-stable, and nothing in them is executed."""

from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError

from stages import InputError, files


def save(path: str | Path, **tensors: torch.Tensor) -> None:
    """Write the tensors under their names."""
    files.write(path, safetensors.torch.save({name: tensor.contiguous() for name, tensor in tensors.items()}))


def load(path: str | Path, **shapes: tuple[int, ...]) -> list[torch.Tensor]:
    """Read the tensors named in `shapes`, in that order.

    Raises InputError unless the file holds exactly these, float64, finite and of these shapes; OSError if there is
    no such file.
    """
    try:
        found = safetensors.torch.load(Path(path).read_bytes())
    except (SafetensorError, KeyError) as error:  # KeyError: a type of numbers that PyTorch does not have
        raise InputError(f"{path} is not a safetensors file ({error}); {files.RECOVERY}") from error
    if set(found) != set(shapes):
        raise InputError(f"{path} holds {_names(found)}, expected {_names(shapes)}; {files.RECOVERY}")
    for name, shape in shapes.items():
        tensor = found[name]
        if tensor.dtype != torch.float64 or tensor.shape != shape:
            kind = f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
            raise InputError(f"{path}: {name} is {kind}, expected float64 {shape}; {files.RECOVERY}")
        if not tensor.isfinite().all():
            raise InputError(f"{path}: {name} holds NaN or infinity, expected finite numbers; {files.RECOVERY}")
    return [found[name] for name in shapes]


def _names(tensors) -> str:
    return ", ".join(sorted(tensors)) or "no tensors"
