"""One module per stage, run as `python -m stages.<name>`; what the stages share stands beside them.

Importing the package does what every stage needs and none may forget: it pins the numerics, and it turns an
error a user can cause into one sentence instead of a traceback.
"""

import io
import os
import sys

# The same bits on every x86-64 CPU since Haswell: no kernels chosen by CPU model, and one thread. PyTorch, MKL and
# OpenMP read these once, when they are loaded; whatever the user has set for them is put aside, and so is what need not
# be fit for here: the drawing backend that a notebook sets for Matplotlib, and settings of logs and progress bars.
NUMERICS = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
PUT_ASIDE = ("ATEN_", "GOMP_", "KMP_", "MKL_", "MPLBACKEND", "OMP_", "TORCH_LOGS", "TQDM_")

if "torch" in sys.modules:
    raise ImportError("import stages before torch: the numerics can only be pinned before torch is loaded")
for name in [name for name in os.environ if name.startswith(PUT_ASIDE)]:
    del os.environ[name]
os.environ.update(NUMERICS)

sys.stderr = sys.stderr or io.StringIO()  # if the caller has closed it
for stream in (sys.stdout, sys.stderr):
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")  # a terminal that has no sign for "²" gets "?"


class InputError(Exception):
    """A parameter or a file is not what it must be; the message is one sentence for the user, whatever was in it."""

    def __init__(self, sentence: str):
        line = "".join(letter if letter.isprintable() else " " for letter in " ".join(sentence.split()))
        super().__init__(line if len(line) <= 400 else f"{line[:200]} … {line[-190:]}")


def _one_sentence(kind, error, traceback):
    if issubclass(kind, (InputError, OSError)):
        print(f"error: {error}", file=sys.stderr)
    elif issubclass(kind, ModuleNotFoundError):
        print(f"error: {error}; `pip install -r requirements.txt` installs what the stages need", file=sys.stderr)
    elif issubclass(kind, MemoryError) or "can't allocate memory" in str(error):
        print("error: there is not enough memory; a smaller batch_size needs less", file=sys.stderr)
    elif issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)


sys.excepthook = _one_sentence

if "glibc.cpu" in os.environ.get("GLIBC_TUNABLES", ""):  # too late to put aside: the C library has read it
    raise InputError(
        "GLIBC_TUNABLES hides parts of the CPU from the C library, which changes the last bits of results; "
        "unset it, or remove glibc.cpu from it"
    )
