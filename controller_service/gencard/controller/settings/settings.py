"""The controller's settings: one TOML file, and the environment's ``GENCARD_*`` above it.

Read once, here; everything below takes plain arguments. ``GENCARD_SERVER__ADDRESS`` stands for
``address`` in ``[server]``. Relative paths start at the folder of the file.
"""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from gencard.controller.sandbox.limits import Isolation
from gencard.controller.settings.settings_boxes import BoxEntry, CellTable, LendingTable
from gencard.controller.settings.settings_tables import (
    DatasetEntry,
    Identities,
    Limits,
    Server,
    Signing,
    State,
)
from gencard.controller.settings.toml_file import read_table, refusal_of
from gencard.core.errors import InvalidInputError
from gencard.core.generators.registry import GENERATORS


class Settings(BaseSettings):
    """All of it."""

    model_config = SettingsConfigDict(
        env_prefix="GENCARD_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    server: Server = Server()
    state: State = State()
    identity: Identities
    signing: Signing = Signing()
    limits: Limits = Limits()
    cell: CellTable = CellTable()
    datasets: tuple[DatasetEntry, ...] = ()
    black_boxes: tuple[BoxEntry, ...] = ()
    lending: LendingTable = LendingTable()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  # the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment first, then the file."""
        return env_settings, init_settings

    @model_validator(mode="after")
    def _names_are_used_once(self) -> "Settings":
        for field, entries in (("datasets", self.datasets), ("black_boxes", self.black_boxes)):
            names = [entry.name for entry in entries]
            if len(set(names)) != len(names):
                raise InvalidInputError(field=field, problem="two entries have the same name")
        if any(box.name in GENERATORS for box in self.black_boxes):
            raise InvalidInputError(field="black_boxes", problem="an entry has the name of a generator")
        return self

    @model_validator(mode="after")
    def _what_is_lent_is_there(self) -> "Settings":
        there = {*GENERATORS, *(box.name for box in self.black_boxes)}
        for name in self.lending.black_boxes:
            if name not in there:
                problem = "must name black boxes of these settings, or generators"
                raise InvalidInputError(field="lending.black_boxes", problem=problem)
        return self

    @model_validator(mode="after")
    def _an_open_cell_is_for_development(self) -> "Settings":
        if self.cell.isolation is Isolation.PROCESSES and not self.server.insecure_dev:
            raise InvalidInputError(
                field="cell.isolation", problem="may be processes only with server.insecure_dev"
            )
        return self

    @classmethod
    def load(cls, path: Path) -> "Settings":
        """The settings in a file, with absolute paths.

        Raises:
            InvalidInputError: Names the first field that is wrong, never its value.
        """
        if not path.is_file():
            problem = "cannot be read; name the controller.toml that init made, with --config"
            raise InvalidInputError(field=path, problem=problem)
        try:
            settings = cls(**read_table(path))
        except ValidationError as error:
            refusal = refusal_of(error, path.name)
        else:
            anchored: Settings = _anchored(settings, path.absolute().parent)
            return anchored
        raise refusal


def _anchored(value: Any, folder: Path) -> Any:
    """The same value with every relative path below ``folder``."""
    match value:
        case Path():
            return folder / value
        case BaseModel():
            fields = {name: _anchored(getattr(value, name), folder) for name in type(value).model_fields}
            return value.model_copy(update=fields)
        case tuple():
            return tuple(_anchored(entry, folder) for entry in value)
    return value
