"""People who enrol as the README says: keys on their own machine, a request, the steward's answer."""

from pathlib import Path

from typer.testing import CliRunner, Result

from gencard.client.connection.credentials import PENDING
from gencard.client.shell.main import app as person_shell
from gencard.controller.shell.main import app as steward_shell
from gencard.wire.keys import request_of_document
from tests.system.house import House


def person(*words: object, code: int = 0) -> Result:
    """Run a command of the client's shell."""
    result = CliRunner().invoke(person_shell, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def steward(house: House, *words: object, typed: str = "") -> Result:
    """Run a command of the steward's shell."""
    words = (*words, "--steward", "sam", "--config", house.settings_file)
    return CliRunner().invoke(steward_shell, [str(word) for word in words], input=typed)


def request_in(folder: Path) -> Path:
    (request,) = (folder / PENDING).glob("*-request.json")
    return request


def answered(house: House, request: Path, *words: object) -> Path:
    """The steward's answer to a request whose fingerprint was told."""
    output = house.folder.parent / f"{request.stem}-answer.json"
    fingerprint = request_of_document(request.read_bytes()).fingerprint
    words = ("enrol", request, "--fingerprint", fingerprint, "--output", output, *words)
    result = steward(house, *words)
    assert result.exit_code == 0, (result.output, result.exception)
    return output


def enrolled_person(house: House, folder: Path, name: str = "ana", role: str = "analyst") -> Path:
    """A person's own folder, somewhere else than the controller's."""
    person("enrol", name, "-c", folder)
    answer = answered(house, request_in(folder), "--role", role, "--project", "survey")
    person("enrol", "--answer", answer, "-c", folder)
    return folder
