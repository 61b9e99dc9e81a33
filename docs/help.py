"""The recorded help of both shells, from their commands: ``python -m docs.help``."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from typer.main import get_command

from gencard.client.shell.main import app as client
from gencard.controller.shell.main import app as controller
from gencard.shell import records_of

SHELLS = {"gencard.client.shell": client, "gencard.controller.shell": controller}


def text_of(package: str) -> str:
    """Return the help of all commands of a shell, by its package, as JSON."""
    shell: Any = get_command(SHELLS[package])
    records = records_of(shell, shell.context_class(shell, info_name=shell.name))
    return json.dumps(records, indent=1, ensure_ascii=False) + "\n"


def file_of(package: str) -> Path:
    """Return the file in which a shell's help is recorded."""
    return Path(str(files(package))) / "help.json"


if __name__ == "__main__":
    for name in SHELLS:
        file_of(name).write_text(text_of(name), encoding="utf-8")
