"""S35: distributions are those of their RECORDs, and a program in Python finds nothing undeclared."""

import hashlib
import json
import os
import py_compile
import shutil
import stat
import subprocess
import sys
from base64 import urlsafe_b64encode
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from gencard.boxes.registry import BOXES
from gencard.controller.jobs.tasks import JOBS
from gencard.controller.sandbox import environment
from gencard.controller.sandbox.boxes import (
    ProgramRecipe,
    built_in_program,
    built_in_recipe,
    program_recipe,
    sandboxed_box_of,
)
from gencard.controller.sandbox.environment import CompiledCopies, checked, python_environment, stamp_of
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.sandbox import Sandbox
from gencard.core.errors import BlackBoxError, GeneratorChangedError, InvalidInputError
from tests.compiled_copies import compiled_anew
from tests.system.sandboxes import (
    LIMITS,
    RECORDS,
    box,
    copies,
    needs_sandbox,
    reported_value,
    reporting_box,
)

SOURCES = {"tiny/__init__.py": b"ANSWER = 3\n", "tiny/parts/data.bin": bytes(64), "tiny_top.py": b""}


def install(folder: Path, name: str = "tiny", sources=SOURCES, requires: str = "") -> None:
    """A distribution, as pip would have left it."""
    info = f"{name}-1.0.dist-info"
    record = [f"{info}/RECORD,,", f"{name}/__pycache__/__init__.cpython-311.pyc,,", f"../bin/{name},,"]
    for path, content in sources.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
        value = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{path},sha256={value},{len(content)}")
    (folder / info).mkdir(exist_ok=True)
    (folder / info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n{requires}\n")
    (folder / info / "RECORD").write_text("\n".join(record) + "\n")


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Path:
    """A folder with one distribution, found by Python."""
    folder = tmp_path / "site-packages"
    install(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(environment, "_checked", {})
    return folder


def flipped(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def sent(recipe):
    """The recipe as a job is told of it."""
    recipe = replace(recipe, limits=SandboxLimits(wall_seconds=60))
    return JOBS.read(ProgramRecipe, json.loads(json.dumps(JOBS.write(recipe))), field="recipe")


class TestRecord:
    def test_s35_one_flipped_bit_in_any_file_is_refused(self, installed):
        (before,) = checked(["tiny"]).distributions
        for path in (installed / name for name in SOURCES if SOURCES[name]):
            for place in range(0, path.stat().st_size, 7):
                flipped(path, place)
                with pytest.raises(InvalidInputError, match=r"differs from its RECORD"):
                    checked(["tiny"])
                flipped(path, place)
        assert checked(["tiny"]).distributions == (before,)

    @pytest.mark.parametrize(
        "change",
        [
            lambda folder: (folder / "tiny" / "more.py").write_text(""),
            lambda folder: (folder / "tiny" / "__init__.cpython-311-x86_64-linux-gnu.so").write_text(""),
            lambda folder: (folder / "tiny" / "__init__.py").unlink(),
            lambda folder: (folder / "tiny_top.py").unlink(),
            lambda folder: (folder / "tiny_top.py").rename(folder / "tiny" / "top.py"),
            lambda folder: (folder / "tiny" / "link.py").symlink_to("__init__.py"),
        ],
    )
    def test_s35_files_that_come_go_or_move_are_refused(self, installed, change):
        checked(["tiny"])
        change(installed)
        with pytest.raises((InvalidInputError, GeneratorChangedError)):
            checked(["tiny"])

    def test_s35_another_release_is_another_record(self, installed):
        (before,) = checked(["tiny"]).distributions
        install(installed, sources=SOURCES | {"tiny/__init__.py": b"ANSWER = 4\n"})
        (after,) = checked(["tiny"]).distributions
        assert (before.version, before.record != after.record) == (after.version, True)

    def test_what_an_installer_adds_changes_nothing(self, installed):
        (before,) = checked(["tiny"]).distributions
        record = installed / "tiny-1.0.dist-info" / "RECORD"
        (installed / "tiny-1.0.dist-info" / "INSTALLER").write_text("another")
        record.write_text(record.read_text() + "tiny-1.0.dist-info/INSTALLER,sha256=AAAA,7\n")
        py_compile.compile(str(installed / "tiny" / "__init__.py"))
        assert checked(["tiny"]).distributions == (before,)

    def test_what_a_distribution_requires_comes_along(self, installed):
        install(installed, "large", {"large.py": b""}, "Requires-Dist: tiny>=1\nRequires-Dist: absent")
        assert [each.name for each in checked(["large"]).distributions] == ["large", "tiny"]
        names = {each.name for each in checked(["scikit_learn"]).distributions}
        assert {"scikit-learn", "joblib", "numpy", "scipy"} <= names
        assert not {"", "torch", "pytest"} & names

    def test_what_cannot_be_compared_is_refused(self, installed):
        with pytest.raises(InvalidInputError, match="not installed"):
            checked(["there-is-none-of-this-name"])
        (installed / "tiny-1.0.dist-info" / "RECORD").unlink()
        with pytest.raises(InvalidInputError, match="no RECORD"):
            checked(["tiny"])

    def test_s35_what_was_read_is_not_read_again_unless_it_was_changed(self, installed, monkeypatch):
        read, real = [], environment._check_hashes
        monkeypatch.setattr(environment, "_check_hashes", lambda *args: read.append(1) or real(*args))
        checked(["tiny"])
        before = stamp_of(checked(["tiny"]).entries)
        assert len(read) == 1
        path = installed / "tiny" / "__init__.py"
        times = path.stat().st_atime_ns, path.stat().st_mtime_ns
        flipped(path, 0)
        os.utime(path, ns=times)
        assert stamp_of([str(path.parent)]) != before
        with pytest.raises(InvalidInputError):
            checked(["tiny"])
        assert len(read) == 2

    def test_s35_a_change_after_the_comparison_is_noticed_at_the_next_run(self, installed, monkeypatch):
        """A change is noticed before the environment is put together, when all has been compared."""
        real = environment._interpreter

        def meanwhile():
            flipped(installed / "tiny" / "__init__.py", 0)
            return real()

        python_environment(["tiny"]).check_unchanged()
        monkeypatch.setattr(environment, "_interpreter", meanwhile)
        with pytest.raises(GeneratorChangedError):
            python_environment(["tiny"]).check_unchanged()

    def test_the_distributions_of_built_in_boxes_are_those_of_their_records(self):
        for entry in BOXES.values():
            if not entry.extra:
                assert "opendp" in {each.name for each in checked(entry.libraries).distributions}


DIGESTS = """
import sys
sys.path[:0] = filter(None, [{path!r}])
from gencard.controller.sandbox.boxes import built_in_program
from gencard.core.generators.registry import generator_digest, source_digest
programs = [built_in_program(name, {{}}) for name in ("mst", "synthpop")]
print(*(program.digest({{}}) for program in programs), generator_digest("ipf"), source_digest())
"""


class TestDigest:
    PROGRAM = "from gencard.wire.black_box import black_box\n"

    def recipe(self, installed, tmp_path):
        folder = tmp_path / "box"
        folder.mkdir(exist_ok=True)
        (folder / "box.py").write_text(self.PROGRAM)
        return program_recipe(folder, ("python", "./box.py"), {}, ("tiny",))

    def test_s35_a_declared_distribution_is_in_the_digest(self, installed, tmp_path):
        before = self.recipe(installed, tmp_path)
        named = {each.name for each in before.runtime.distributions}
        assert {"tiny", "numpy", "scipy", "rfc8785"} <= named
        install(installed, sources=SOURCES | {"tiny/__init__.py": b"ANSWER = 4\n"})
        assert self.recipe(installed, tmp_path).digest != before.digest

    def test_s35_a_distribution_that_was_changed_is_refused_at_the_start_and_by_a_job(
        self, installed, tmp_path
    ):
        approved = sent(self.recipe(installed, tmp_path))
        sandboxed_box_of(approved)
        flipped(installed / "tiny" / "__init__.py", 2)
        with pytest.raises(InvalidInputError, match="differs from its RECORD"):
            self.recipe(installed, tmp_path)
        with pytest.raises(GeneratorChangedError):
            sandboxed_box_of(approved)
        flipped(installed / "tiny" / "__init__.py", 2)
        self.recipe(installed, tmp_path)

    @needs_sandbox
    def test_s35_one_that_changes_between_two_runs_is_refused(self, installed):
        made = box(RESAMPLE)
        program = replace(made.program, libraries=("tiny",))
        environment = program.environment(copies())
        watched = replace(
            made, program=program, sandbox=Sandbox(LIMITS, Isolation.NAMESPACES, environment)
        )
        assert len(watched(RECORDS, 1, seed=0)) == 1
        flipped(installed / "tiny" / "__init__.py", 2)
        with pytest.raises(GeneratorChangedError):
            watched(RECORDS, 1, seed=0)

    def test_s35_a_hard_link_made_elsewhere_changes_no_content_and_refuses_nothing(self, installed):
        """An installer that shares files between environments makes such a link, while an audit runs."""
        present = python_environment(["tiny"])
        os.link(installed / "tiny" / "__init__.py", installed.parent / "elsewhere.py")
        assert stamp_of(present.distributions) != present.stamp
        present.check_unchanged()
        (installed.parent / "elsewhere.py").unlink()
        present.check_unchanged()
        content = (installed / "tiny" / "__init__.py").read_bytes()
        (installed / "tiny" / "__init__.py").write_bytes(content[:-1] + b" ")
        with pytest.raises(GeneratorChangedError, match="what the service read at its start"):
            present.check_unchanged()

    def test_s35_a_comparison_goes_on_while_links_are_made(self, installed, monkeypatch):
        real, left = environment._check_hashes, [3]

        def linked(*arguments):
            if left[0]:
                left[0] -= 1
                os.link(installed / "tiny_top.py", installed.parent / f"link{left[0]}")
            return real(*arguments)

        monkeypatch.setattr(environment, "_check_hashes", linked)
        assert checked(["tiny"]).distributions[0].name == "tiny"

    def test_s35_an_edited_source_of_gencard_changes_no_digest(self, tmp_path):
        """Only name and version of an algorithm count; another process imports the edited copy."""
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(str(files("gencard.core")), tmp_path / "gencard" / "core", ignore=ignored)
        edited = tmp_path / "gencard" / "core" / "generators" / "__init__.py"
        edited.write_text('"""Other words."""\n')
        told = [DIGESTS.format(path=path) for path in ("", str(tmp_path))]
        before, after = (
            subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
            .stdout.split()
            for script in told
        )  # fmt: skip
        assert (before[:3], before[3] != after[3]) == (after[:3], True)

    def test_s35_another_version_of_an_algorithm_is_another_digest(self, monkeypatch):
        before = built_in_recipe("mst", {}).digest
        monkeypatch.setitem(BOXES, "mst", replace(BOXES["mst"], version=2))
        assert built_in_recipe("mst", {}).digest != before


RESAMPLE = """
from gencard.wire.black_box import black_box

@black_box
def resample(table, rows, *, rng):
    return table.dataset.take(rng.integers(len(table), size=rows))

resample.main()
"""


class TestCompiled:
    """Copies are the service's own, and as it made them."""

    def test_s35_one_flipped_byte_in_a_copy_is_refused(self, tmp_path):
        made = CompiledCopies(tmp_path / "work", [])
        recipe = built_in_recipe("mst", {})
        environment = replace(built_in_program("mst", {}).environment(made.folder()))
        environment.check_unchanged()
        (copy, *_) = sorted((tmp_path / "work").rglob("numpy/__init__.*.pyc"))
        flipped(copy, copy.stat().st_size // 2)
        with pytest.raises(GeneratorChangedError):
            environment.check_unchanged()
        with pytest.raises(GeneratorChangedError):
            made.folder()
        assert built_in_recipe("mst", {}).digest == recipe.digest

    def test_they_are_made_once_and_nobody_else_comes_near(self, tmp_path, monkeypatch):
        monkeypatch.setattr(CompiledCopies, "_compile", compiled_anew)
        made = CompiledCopies(tmp_path, [])
        first = made.folder()
        times = {path: path.stat().st_mtime_ns for path in Path(first).rglob("*")}
        assert (made.folder(), len(times) > 100) == (first, True)
        assert times == {path: path.stat().st_mtime_ns for path in Path(first).rglob("*")}
        assert stat.S_IMODE(Path(first).parent.stat().st_mode) == 0o700
        assert all(path.stat().st_mode & 0o044 == 0o044 for path in times)

    def test_where_none_can_be_made_programs_run_all_the_same(self, tmp_path):
        (tmp_path / "work").write_text("a file")
        made = CompiledCopies(tmp_path / "work", [])
        assert made.folder() == ""
        assert python_environment((), made.folder()) == python_environment(())

    @needs_sandbox
    def test_s35_a_cell_runs_them_and_no_other(self, tmp_path):
        """Python would run the copy beside a source, whose time and size fit."""
        source, copy = tmp_path / "victim.py", tmp_path / "__pycache__" / "victim.cpython-xy.pyc"
        source.write_text("FOUND = 7\n")
        times = source.stat().st_atime_ns, source.stat().st_mtime_ns
        source.write_text("FOUND = 9\n")
        os.utime(source, ns=times)
        copy = Path(py_compile.compile(str(source), doraise=True))
        source.write_text("FOUND = 7\n")
        os.utime(source, ns=times)
        script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from victim import FOUND"
        fooled = subprocess.run([sys.executable, "-c", f"{script}; sys.exit(FOUND)"], check=False)
        assert (copy.exists(), fooled.returncode) == (True, 9)
        body = f"""
import json, os
{script}
def tried():
    return FOUND + 100 * os.path.exists(json.__cached__)
"""
        made = reporting_box(body)
        environment = made.sandbox.environment
        environment = replace(environment, shown=(*environment.shown, str(source), str(copy)))
        shown = replace(made, sandbox=replace(made.sandbox, environment=environment))
        assert shown(RECORDS, 1, seed=0).column("a")[0] == 107


class TestPython:
    """The cell shows the system, the interpreter, Gencard and the declared packages."""

    @needs_sandbox
    def test_s35_every_file_in_the_cell_is_of_the_system_or_declared(self):
        environment = python_environment(())
        body = f"""
import os
SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives", "/etc/R")
SHOWN, HIDDEN = {environment.shown!r}, {environment.hidden!r}
def is_below(path, folders):
    return any((path + "/").startswith(known + "/") for known in folders)
def tried():
    strange = []
    for folder, below, names in os.walk("/"):
        below[:] = [name for name in below if folder != "/" or name not in ("dev", "cell", "usr")]
        paths = [os.path.join(folder, name) for name in names]
        paths = [path for path in paths if not os.path.islink(path)]
        strange += [path for path in paths if not is_below(path, SHOWN + SYSTEM)]
    hidden = [os.path.join(folder, name) for folder in HIDDEN for name in os.listdir(folder)]
    strange += [path for path in hidden if not is_below(path, SHOWN)]
    return min(len(strange), 200)
"""
        assert environment.hidden
        assert reported_value(body) == 0

    @needs_sandbox
    def test_s35_nothing_of_the_controller_is_there(self):
        """No code of the controller but the noise of private boxes; no home, no system settings."""
        folders = {"/home", "/proc", "/sys", "/tmp", "/var", "/run", "/etc/passwd", "/etc/ssl"}
        folders |= {"/etc/shadow", str(Path.cwd() / "tests"), str(Path.cwd() / ".git")}
        folders -= {*map(str, Path.cwd().parents)}  # the packages themselves lie below these
        body = f"""
import os
from importlib.util import find_spec
FOLDERS = {sorted(folders)!r}
MODULES = ["gencard.controller." + name for name in ("sandbox", "records", "state", "wiring")]
def tried():
    return sum(map(os.path.exists, FOLDERS)) + sum(find_spec(name) is not None for name in MODULES)
"""
        assert reported_value(body) == 0

    @needs_sandbox
    def test_s35_hidden_folders_cannot_be_written_to(self):
        body = f"""
def tried():
    written = 0
    for folder in {python_environment(()).hidden!r}:
        try:
            open(folder + "/hello.py", "w")
            written += 1
        except OSError:
            pass
    return written
"""
        assert reported_value(body) == 0

    @needs_sandbox
    def test_s35_compiled_copies_beside_the_sources_are_not_run(self):
        body = """
import importlib.util, json, numpy, sys
def tried():
    copies = [sys.modules[name].__cached__ for name in ("json", "numpy", "gencard.wire.black_box")]
    return sum(not path.startswith("/cell/compiled/") for path in copies)
"""
        assert reported_value(body) == 0

    @needs_sandbox
    def test_s35_other_distributions_are_there_when_they_are_named(self):
        body = """
from importlib.util import find_spec
def tried():
    return sum(find_spec(name) is not None for name in ("joblib", "pandas", "grpc"))
"""
        assert reported_value(body) == 0
        made = reporting_box(body)
        program = replace(made.program, libraries=("joblib",))
        environment = program.environment(copies())
        named = replace(
            made, program=program, sandbox=Sandbox(LIMITS, Isolation.NAMESPACES, environment)
        )
        assert named(RECORDS, 1, seed=0).column("a")[0] == 1
        assert made.program.runtime() != program.runtime()

    @needs_sandbox
    def test_s35_one_process_starts_no_program_of_the_system(self):
        body = "import subprocess\ndef tried():\n    return len(subprocess.check_output(['ls']))"
        with pytest.raises(BlackBoxError):
            reported_value(body)
