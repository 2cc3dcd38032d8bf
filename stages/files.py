"""Reading and writing small text files. A file is written under a temporary name and renamed, so that no reader ever
sees half of one."""

import csv
import io
import json
import re
from pathlib import Path

from stages import InputError


def write(path: str | Path, content: bytes) -> None:
    """Write a file whole, with the directories above it. Raises OSError, naming the file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def write_json(path: str | Path, value) -> None:
    """Write indented JSON, with the innermost lists and mappings on one line each, such as the rows of a matrix.

    Raises ValueError for NaN and infinity, which JSON does not have.
    """
    text = json.dumps(value, indent=1, allow_nan=False)
    text = re.sub(r"(?<=\s)[\[{]\s+[^\[\]{}]*[\]}]", lambda innermost: re.sub(r"\s+", " ", innermost.group()), text)
    write(path, (text + "\n").encode())


def read_json(path: str | Path):
    """Read JSON. Raises InputError if it is none."""
    try:
        return json.loads(Path(path).read_bytes())
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); `git restore {path}` brings it back") from error


def write_csv(path: str | Path, rows: list[dict]) -> None:
    """Write rows that all have the same columns, each number so that it reads back as the same number."""
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write(path, text.getvalue().encode())


def read_csv(path: str | Path) -> list[dict[str, int | float]]:
    """Read rows of numbers. Raises InputError if there is anything else; OSError if there is no such file."""
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            return [{name: json.loads(number) for name, number in row.items()} for row in csv.DictReader(file)]
    except (ValueError, TypeError, AttributeError, csv.Error) as error:
        raise InputError(f"{path} is not a table of numbers; `git restore {path}` brings it back") from error


def keep_seeds(directory: str | Path, suffix: str, seeds: list[int]) -> None:
    """Delete the files <seed><suffix> of seeds no longer listed: DVC leaves them, and would count them as inputs."""
    for path in Path(directory).glob(f"*{suffix}"):
        if path.stem.isdecimal() and int(path.stem) not in seeds:
            path.unlink()
