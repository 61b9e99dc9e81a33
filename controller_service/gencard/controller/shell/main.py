"""The console entry: every command in its place."""

import resource
import sys
from typing import Any, ClassVar

import typer

from gencard.controller.shell import run_shell
from gencard.shell import Home, LazyGroup, new_shell

DATASETS = "gencard.controller.shell.datasets"
EMERGENCY = "gencard.controller.shell.emergency"
LOG = "gencard.controller.shell.log"
PEOPLE = "gencard.controller.shell.people"
SCHEMA = "gencard.controller.shell.schema"
SETUP = "gencard.controller.shell.setup"
UPKEEP = "gencard.controller.shell.upkeep"
WORKER = "gencard.controller.shell.worker"

_KEPT = "cards approve counter reject revoke answers risk audits ledger refusals"
MOVED = {name: name for name in _KEPT.split()} | {"refusals seen": "refusals dismiss"}
"""Commands of earlier versions -> their place below ``emergency``; the longest that fits is named."""


class ControllerCommands(LazyGroup):
    """Commands of the controller's machine."""

    homes: ClassVar = {
        "init": Home(SETUP, "init", "Draft settings, schema, certificates and keys."),
        "check": Home(SETUP, "check", "Check settings, schemas, keys and every record."),
        "schema": Home(SCHEMA, "app", "Show, change or review the public schema of a dataset."),
        "dataset": Home(DATASETS, "dataset_app", "Add, list or remove datasets."),
        "caps": Home(
            DATASETS, "caps_app", "Show or set caps: the most that may ever be spent on a dataset."
        ),
        "person": Home(PEOPLE, "app", "Add, list, disable or enable people; give stewards passkeys."),
        "enrol": Home(
            PEOPLE,
            "enrol",
            "Enrol a person who sent a request, and write the answer for the person to install.",
        ),
        "renew": Home(PEOPLE, "renew", "Renew a certificate in place, for the same key."),
        "doctor": Home(UPKEEP, "doctor", "Check that this machine can run the service."),
        "serve": Home(SETUP, "serve", "Run the service until interrupted."),
        "backup": Home(
            UPKEEP, "backup", "Copy ledger, log, cards, psi and rows while the service runs."
        ),
        "restore": Home(UPKEEP, "restore", "Restore a backup."),
        "emergency": Home(EMERGENCY, "app", "Decide on this machine, without the service."),
        "boxes": Home(DATASETS, "boxes_app", "Show or review black boxes."),
        "keys": Home(PEOPLE, "keys_app", "List or replace the keys that sign cards and the log."),
        "log": Home(LOG, "app", "Show, verify or sign the append-only log."),
        "notify": Home(UPKEEP, "notify_app", "Test notifications to stewards by webhook and mail."),
        "worker": Home(WORKER, "app", "Set up machines that run audits."),
    }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve as the base class does; a command that moved names its place and does nothing."""
        old = next((one for one in (" ".join(args[:2]), *args[:1]) if one in MOVED), "")
        if old and not ctx.resilient_parsing:
            new = f"gencard-controller emergency {MOVED[old]}"
            typer.echo(f"`gencard-controller {old}` is now `{new}`.", err=True)
            raise typer.Exit(2)
        return super().resolve_command(ctx, args)


app = new_shell(
    "gencard-controller",
    "Serve datasets, decide on cards, release synthetic data. Records never leave this machine.",
    ControllerCommands,
)


def main() -> None:
    """Run ``gencard-controller``; exit codes: 0 done, 1 refused or failed, 2 misused, 3 overtaken."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold records and keys
    sys.exit(run_shell(app))
