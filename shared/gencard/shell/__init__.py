"""Shells whose commands are imported when they are called, so that ``--help`` loads no library.

The help of commands is recorded in ``help.json`` beside a shell's ``main``; ``python -m docs.help``
writes it.
"""

import gc
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from gencard.core.errors import GencardError
from gencard.core.program_outputs import DIGITS


@dataclass(frozen=True, slots=True)
class Home:
    """Place of a command.

    Args:
        name: Its function in the module, or a ``Typer`` with commands of its own.
        summary: Its line in ``--help``: the first sentence of its own help.
    """

    module: str
    name: str
    summary: str

    def load(self, command: str) -> Any:
        """The command itself, under this name; imports its module."""
        # Nothing that an import makes is garbage, yet the collector would walk all of it several times.
        was_on = gc.isenabled()
        gc.disable()
        try:
            target = getattr(import_module(self.module), self.name)
        finally:
            if was_on:
                gc.enable()
        if not isinstance(target, typer.Typer):
            function, target = target, new_typer()
            target.command(command)(function)
        loaded = typer.main.get_command(target)
        loaded.name = command
        return loaded


class LazyGroup(TyperGroup):
    """Commands of which only names and summaries are known until one is called.

    What lists commands (``--help``, completion, "did you mean") sees the summaries. A shell is a
    subclass that fills ``homes``: the commands by name, in the order of the list.
    """

    homes: ClassVar[Mapping[str, Home]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {
            name: TyperCommand(name, short_help=home.summary, rich_markup_mode=None)
            for name, home in self.homes.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name, imported now, unless only its help is wanted."""
        name, command, rest = super().resolve_command(ctx, args)
        if command and rest[-1:] == ["--help"] and ctx.parent is None:
            self._show_recorded(ctx, [command.name or "", *rest[:-1]])
        return name, command and self.homes[command.name or ""].load(command.name or ""), rest

    def _show_recorded(self, ctx: Any, names: list[str]) -> None:
        """Print the help of the command of these names and exit, if it is recorded."""
        package = type(self).__module__.rpartition(".")[0]
        record = {"commands": json.loads((files(package) / "help.json").read_text(encoding="utf-8"))}
        for name in names:
            if name not in record.get("commands", ()):
                return
            record = record["commands"][name]
            command = _recorded(name, record)
            ctx = command.context_class(command, info_name=name, parent=ctx)
        typer.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_TEXTS = ("help", "short_help", "hidden")


def record_of(command: Any, ctx: Any) -> dict[str, Any]:
    """Return what the help of a command says, and of its commands, as JSON."""
    params = [(one.param_type_name, one.get_help_record(ctx)) for one in command.get_params(ctx)]
    record = {name: getattr(command, name) for name in _TEXTS} | {
        "usage": command.collect_usage_pieces(ctx),
        "params": [[kind, *lines] for kind, lines in params if lines is not None],
    }
    if isinstance(command, TyperGroup):
        record["commands"] = records_of(command, ctx)
    return record


def records_of(group: Any, ctx: Any) -> dict[str, Any]:
    homes = group.homes if isinstance(group, LazyGroup) else {}
    inside = group.commands | {name: home.load(name) for name, home in homes.items()}
    for name, home in homes.items():
        inside[name].short_help = home.summary  # by which the group lists it
    return {
        name: record_of(one, one.context_class(one, info_name=name, parent=ctx))
        for name, one in inside.items()
    }


@dataclass(frozen=True, slots=True)
class _RecordedParam:
    param_type_name: str
    lines: tuple[str, str]

    def get_help_record(self, _ctx: Any) -> tuple[str, str]:
        return self.lines

    def get_usage_pieces(self, _ctx: Any) -> list[str]:
        """Return nothing: a group of commands has options only."""
        return []


def _recorded(name: str, record: Mapping[str, Any]) -> Any:
    """Return a command that does nothing but show the help that is recorded."""
    base: Any = TyperGroup if "commands" in record else TyperCommand
    texts = {text: record[text] for text in _TEXTS}
    command = base(name=name, rich_markup_mode=None, **texts)
    command.get_params = lambda _: [
        _RecordedParam(kind, tuple(lines)) for kind, *lines in record["params"]
    ]
    command.collect_usage_pieces = lambda _: record["usage"]
    for inside, own in record.get("commands", {}).items():
        command.add_command(_recorded(inside, own))
    return command


class _Command(TyperCommand):
    """A command that refuses an option given twice, of which the usual parser keeps the last."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raises BadParameter for an option that is given twice and holds one value."""
        if not ctx.resilient_parsing:
            _, _, given = self.make_parser(ctx).parse_args(list(args))
            for option, number in Counter(given).items():
                if number < 2 or not isinstance(option, TyperOption):
                    continue
                if not (option.multiple or option.is_flag):
                    raise typer.BadParameter("it is given more than once", ctx=ctx, param=option)
        return super().parse_args(ctx, args)


class _Typer(typer.Typer):
    def command(self, name: str | None = None, **settings: Any) -> Any:
        """Add a command as the base class does, whose options are given once."""
        return super().command(name, **{"cls": _Command, **settings})


def new_typer(**settings: Any) -> typer.Typer:
    """An app that shows help as plain text: rich alone would double the time of ``--help``."""
    return _Typer(
        add_completion=False, pretty_exceptions_show_locals=False, rich_markup_mode=None, **settings
    )


def new_shell(name: str, summary: str, group: type[LazyGroup]) -> typer.Typer:
    """A program with the commands of the group, ``--help`` and ``--version``."""
    shell = typer.Typer(
        name=name,
        cls=group,
        help=summary,
        no_args_is_help=True,
        pretty_exceptions_show_locals=False,
        rich_markup_mode=None,
    )
    shell.callback()(_options)
    return shell


_AS_TYPED: Sequence[tuple[str, str]] = (
    (r"missing='drop'", "--missing drop"),
    (r"values=\{\.\.\.\}|\bvalues=(?![\w\[{(])", "--values"),
    (r'response="(\w+)"', r"--option response=\1"),
    (r'neighbouring="([\w-]+)"', r"--neighbouring \1"),
    (r"card\.answer\(\.\.\.\), gencard answer", "`gencard answer`"),
    (r"\bcard\.run\b", "`gencard run`"),
    (r"for example, (rows|seed)=(\d+)", r"for example, --\1 \2"),
    (r"card\.generate\(\.\.\.\)", "gencard generate"),
    (r'error\.plan\.propose\(purpose="\.\.\."\)', "`gencard plan` shows it"),
    (
        r'Propose a card with analyses=\{"programs".*',
        "Name it in the proposal: `gencard propose` with --program FILE, and --library NAME for each "
        "library.",
    ),
    (r"release\.save\(folder\)", "gencard generate CARD --output FOLDER"),
)
"""Shell commands for the options and Python calls that error texts name, as pattern and replacement."""


def as_typed(text: str) -> str:
    """A text of an error with the options and commands of the shell.

    >>> as_typed("use missing='drop', or values= from psi")
    'use --missing drop, or --values from psi'
    """
    for call, words in _AS_TYPED:
        text = re.sub(call, words, text)
    return text


def several(number: int, one: str) -> str:
    """A number of things.

    >>> several(1, "label"), several(1_200, "label")
    ('1 label', '1,200 labels')
    """
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def print_error(error: GencardError, advice: str) -> None:
    """Print reason, text and notes of an error in one line, and the advice in the next.

    Notes of several lines, such as a traceback, come after the advice.
    """
    notes: list[str] = getattr(error, "__notes__", [])
    text = as_typed(" ".join([error.message, *(note for note in notes if "\n" not in note)]))
    typer.echo(f"{typer.style(error.reason, fg='red', bold=True)}  {_printable(text)}", err=True)
    typer.echo(typer.style(f"→ {_printable(as_typed(advice))}", dim=True), err=True)
    for note in notes:
        if "\n" in note:
            typer.echo(visible(note), err=True)


def as_written(letter: str) -> str:
    """A character as Python writes it.

    >>> as_written(chr(27))
    '\\\\x1b'
    """
    return letter.encode("unicode_escape").decode()


def visible(text: str, escape: Callable[[str], str] = as_written) -> str:
    """Text of several lines with everything escaped but printable characters and line ends.

    Analysts write purposes and programs: a terminal must not obey what stands in them.
    """
    letters = (letter if letter.isprintable() or letter == "\n" else escape(letter) for letter in text)
    return "".join(letters)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _say_version(requested: bool) -> None:
    if requested:
        typer.echo(f"gencard {version('gencard')}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options of the program itself."""


# Options of decisions, which a steward gives in the same words from afar and on the machine.

Drop = Annotated[
    list[str] | None, typer.Option(help="Marginal to leave out, such as sex,age. Repeatable.")
]
Without = Annotated[
    list[str] | None,
    typer.Option(help="Attribute to leave out, with all statistics about it. Repeatable."),
]
MostRows = Annotated[int | None, typer.Option(help="Most rows in one release.")]
Withhold = Annotated[
    list[str] | None,
    typer.Option(help="Numbers to hold back: OUTPUT, OUTPUT/ROW or OUTPUT/ROW/COLUMN. Repeatable."),
]
Digits = Annotated[
    int | None, typer.Option(min=1, max=DIGITS, help="Round all numbers to this number of digits.")
]
Red = Annotated[
    bool, typer.Option("--red", help="Release red numbers too; by default they are held back.")
]
Complete = Annotated[
    bool,
    typer.Option(
        "--complete", help="Confirm that nothing was decided after the backup, and release the budgets."
    ),
]
