"""Reading and writing small text files. A file is written under a temporary name and renamed, so that no reader ever
sees half of one."""

import csv
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from stages import InputError

RECOVERY = "`dvc repro` makes it anew"


def write(path: str | Path, content: bytes) -> None:
    """Write a file whole, with the directories above it. Raises OSError, naming the file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # a full disk does not name the file
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: str | Path, value) -> None:
    """Write indented JSON, with the innermost lists and mappings on one line each, such as the rows of a matrix.

    Raises InputError for NaN and infinity, which JSON does not have and only inputs far out of range lead to.
    """
    try:
        text = json.dumps(msgspec.to_builtins(value), indent=1, allow_nan=False)
    except ValueError as error:
        raise InputError(
            f"{path} would hold NaN or infinity: a number that leads to it is far out of range; {RECOVERY}"
        ) from error
    text = re.sub(r"(?<=\s)[\[{]\s+[^\[\]{}]*[\]}]", lambda innermost: re.sub(r"\s+", " ", innermost.group()), text)
    write(path, (text + "\n").encode())


def read_json(path: str | Path, kind: type):
    """Read JSON of a form that stages/results.py describes. Raises InputError for anything else; OSError if there is no
    such file."""
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not what its stage writes ({error}); {RECOVERY}") from error


def write_csv(path: str | Path, rows: list[dict]) -> None:
    """Write rows that all have the same columns, each number so that it reads back as the same number."""
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write(path, text.getvalue().encode())


def read_csv(path: str | Path, kind: type, **known) -> list:
    """Read the rows of a table as records of a kind that stages/results.py describes; it has all fields but the known.
    Raises InputError if there are other columns, other values or no rows; OSError if there is no such file."""
    columns = [name for name in kind.__struct_fields__ if name not in known]
    try:
        names, *rows = csv.reader(Path(path).read_text(encoding="utf-8").splitlines(), strict=True)
        if names != columns or not rows:
            raise ValueError
        records = [known | dict(zip(names, row, strict=True)) for row in rows]
        return msgspec.convert(records, list[kind], strict=False)
    except (ValueError, csv.Error) as error:
        expected = f"expected rows of numbers for {', '.join(columns)}"
        raise InputError(f"{path} is not a table that `train` writes, {expected}; {RECOVERY}") from error


def discard(directory: str | Path, suffix: str, unlisted: Callable[[str], bool]) -> None:
    """Delete the files <name><suffix> of seeds or studies that params.yaml no longer lists: DVC leaves them where they
    are, and would count them among the inputs of a stage that depends on the directory."""
    for path in Path(directory).glob(f"*{suffix}"):
        if unlisted(path.stem) and not path.is_dir():
            path.unlink()
