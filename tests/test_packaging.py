"""One wheel, thin for analysts; a lock that fits it; and nothing in the tree that should not be."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from docs.house.sources import SOURCES

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = {
    "requirements.lock": (("report", "parquet", "utility", "controller", "files"), ("dev", "demo")),
    "controller_service/requirements.lock": (("controller",), ()),
    "analyst_client/requirements.lock": (("report", "parquet", "utility", "files"), ()),
}
ROOTS = ("protos", "shared", "controller_service", "analyst_client")
ROOMS = {
    "analysis",
    "boxes",
    "files",
    "measures",
    "run",
    "v1",
    "wire",
    "core",
    "shell",
    "controller",
    "client",
}
EXTRAS = {"alembic", "duckdb", "jinja2", "matplotlib", "psycopg", "pyarrow", "pydantic", "sqlalchemy"}


def tracked(*patterns):
    """Files under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def asked(extras, groups):
    """Requirements of pyproject.toml, with those extras and groups."""
    project = PROJECT["project"]
    texts = [*project["dependencies"]]
    for extra in extras:
        texts += project["optional-dependencies"][extra]
    for group in groups:
        texts += PROJECT["dependency-groups"][group]
    return [Requirement(text) for text in texts]


def locked(name):
    """Version of each package that a lock names for this Python."""
    found = {}
    for line in (ROOT / name).read_text().splitlines():
        if "==" in line and line[0].isalnum():
            requirement = Requirement(line.rstrip(" \\"))
            if requirement.marker is None or requirement.marker.evaluate(default_environment()):
                found[canonicalize_name(requirement.name)] = next(iter(requirement.specifier)).version
    return found


class TestLocks:
    @pytest.mark.parametrize("name", LOCKS)
    def test_it_satisfies_the_project(self, name):
        versions = locked(name)
        for requirement in asked(*LOCKS[name]):
            version = versions.get(canonicalize_name(requirement.name))
            assert version, f"{requirement.name} is not in {name}: run `make lock`"
            assert requirement.specifier.contains(version), requirement

    @pytest.mark.parametrize("name", LOCKS)
    def test_every_package_has_a_hash_and_none_a_host(self, name):
        text = (ROOT / name).read_text()
        assert "://" not in text
        assert not re.search(r"--(extra-)?index-url|--find-links|-f ", text)
        blocks = re.split(r"\n(?=\S)", text)
        assert all("--hash=sha256:" in block for block in blocks if "==" in block)

    def test_images_run_what_was_tested(self):
        whole = locked("requirements.lock")
        for name in LOCKS:
            assert locked(name).items() <= whole.items()


def hashes_in(text):
    """SHA-256 of the files of each package, by name and version."""
    blocks = [block for block in re.split(r"\n(?=\S)", text) if "==" in block.split("\n")[0]]
    pinned = re.compile(r"([\w.-]+)==(\S+)")
    return {
        pinned.match(block).groups(): set(re.findall(r"--hash=sha256:(\w+)", block)) for block in blocks
    }


def test_s37_the_list_of_packages_names_all_of_a_lock_with_its_hashes(tmp_path):
    lock, output = ROOT / "analyst_client/requirements.lock", tmp_path / "found.json"
    made_by = re.search(r"^SBOM +:= \S+ (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    command = [sys.executable, *made_by.split(), "--output-file", output, lock]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    found = json.loads(output.read_text())
    assert (found["bomFormat"], found["metadata"]["component"]["name"]) == ("CycloneDX", "gencard")
    assert hashes_in(lock.read_text()) == {
        (part["name"], part["version"]): {
            digest["content"] for place in part["externalReferences"] for digest in place["hashes"]
        }
        for part in found["components"]
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Names of the files in a freshly built wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "from hatchling.build import build_wheel; import sys; build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", build, folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built).namelist()


class TestWheel:
    def test_it_holds_the_four_roots_as_one_package(self, wheel):
        inside = {name.split("/")[1] for name in wheel if name.startswith("gencard/")}
        assert inside == ROOMS
        assert all(name.startswith(("gencard/", "gencard-")) for name in wheel)

    def test_nothing_is_missing(self, wheel):
        for root in ROOTS:
            for path in tracked(f"{root}/gencard/**"):
                assert str(path.relative_to(ROOT / root)) in wheel

    def test_the_namespace_stays_open(self, wheel):
        assert "gencard/__init__.py" not in wheel

    def test_licence_and_types_are_inside(self, wheel):
        assert any(name.endswith("licenses/LICENSE") for name in wheel)
        assert {f"gencard/{room}/py.typed" for room in ROOMS} <= set(wheel)


def test_the_analysts_install_is_thin():
    """A plain install brings in enough to import the client."""
    look = "import sys, gencard.client.analyst; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert not {name.split(".")[0] for name in done.stdout.split()} & EXTRAS


@pytest.mark.parametrize("target", PROJECT["project"]["scripts"].values())
def test_commands_are_there(target):
    module, _, name = target.partition(":")
    assert callable(getattr(import_module(module), name))


def test_modules_that_images_pages_and_manifests_run_exist():
    """A module that moved is named by its new place in each file that runs it."""
    command = re.compile(r"""-m[\s"',\[]+(gencard\.[a-z_.]+[a-z_])""")
    named = {
        (str(path.relative_to(ROOT)), module)
        for path in tracked()
        if not path.is_relative_to(ROOT / "tests")
        for module in command.findall(path.read_text(errors="ignore"))
    }
    files = {Path(name).name for name, _ in named}
    assert files >= {"Dockerfile", "images", "controller.yaml", "deploy.md"}
    assert not {(name, module) for name, module in named if module not in SOURCES}


def test_no_place_of_anybodys_machine_is_named():
    """Paths below a home, a workplace or a temporary folder mean nothing to anybody else."""
    place = re.compile(r"(?<![\w.}])/(?:home|root|Users|work|opt)/\w")
    allowed = {"Dockerfile", "docker-compose.yml", "images"}  # places inside a container
    named = [
        str(path.relative_to(ROOT))
        for path in tracked()
        if path.name not in allowed
        and path != Path(__file__)
        and place.search(path.read_text(errors="ignore"))
    ]
    assert named == []


def test_third_party_protos_have_their_notice():
    notice = (ROOT / "protos" / "third_party" / "NOTICE").read_text()
    for path in tracked("protos/third_party/*.proto"):
        assert path.stem in notice
        assert "Apache License" in path.read_text()
    assert "Apache License" in (ROOT / "LICENSE").read_text()
