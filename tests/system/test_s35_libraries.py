"""S35: what a cell shows is digested by its content, and a program in Python finds nothing else."""

import json
import os
import py_compile
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gencard.controller.sandbox import contents, shared_objects, views
from gencard.controller.sandbox.boxes import built_in_view
from gencard.controller.sandbox.contents import CompiledCopies, digest_of_view, remember, stamp_of_view
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.recipes import (
    built_in_recipe,
    in_sandbox,
    program_recipe,
    sandboxed_box_of,
    with_copies,
)
from gencard.controller.sandbox.sandbox import Sandbox
from gencard.controller.sandbox.shared_objects import libraries_of, needs_of
from gencard.controller.sandbox.views import (
    View,
    document_of_view,
    python_view,
    system_view,
    view_of,
    view_of_document,
)
from gencard.core.errors import BlackBoxError, GeneratorChangedError
from tests.system.sandboxes import LIMITS, RECORDS, needs_sandbox, reported_value, reporting_box

ANSWER = """printf '{"format":"gencard.box.v1","rows":1}\\n\\001\\002\\000'"""


@pytest.fixture
def copied(tmp_path) -> View:
    """Parts of libraries that a cell shows, elsewhere: Python, compiled code, and what is no code."""
    shown = python_view().shown
    numpy = next(path for path in shown if path.endswith("site-packages/numpy"))
    standard = next(path for path in shown if os.path.isfile(f"{path}/os.py"))
    taken = [f"{standard}/json", f"{numpy}/random", f"{numpy}/version.py"]
    taken.append(next(path for path in shown if "/libc.so" in path))
    for path in taken:
        target = tmp_path / Path(path).name
        shutil.copytree(path, target) if os.path.isdir(path) else shutil.copy(path, target)
    return View(tuple(sorted(map(str, tmp_path.iterdir()))))


def files_in(view: View) -> list[Path]:
    below = [[path, *path.rglob("*")] for path in map(Path, view.shown)]
    files = [path for group in below for path in group if path.is_file()]
    return [path for path in files if "__pycache__" not in path.parts]


def flipped(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def test_s35_one_flipped_bit_in_any_file_is_another_digest(copied):
    before, tried = digest_of_view(copied), 0
    for path in files_in(copied):
        size = path.stat().st_size
        for place in {0, size // 2, size - 1} if size else ():
            flipped(path, place)
            assert digest_of_view(copied) != before, (path, place)
            flipped(path, place)
            tried += 1
    assert tried > 50
    assert digest_of_view(copied) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "json" / "more.py").write_text(""),
        lambda folder: (folder / "json" / "more.pyc").write_text(""),
        lambda folder: (folder / "json" / "tool.py").unlink(),
        lambda folder: (folder / "json" / "tool.py").rename(folder / "json" / "tools.py"),
        lambda folder: (folder / "json" / "link.py").symlink_to("tool.py"),
    ],
)
def test_s35_files_that_come_go_or_move_are_another_digest(copied, tmp_path, change):
    before = digest_of_view(copied)
    change(tmp_path)
    assert digest_of_view(copied) != before


def test_s35_what_is_not_there_any_more_is_refused(copied, tmp_path):
    (tmp_path / "version.py").unlink()
    for look in (digest_of_view, stamp_of_view):
        with pytest.raises(GeneratorChangedError):
            look(copied)


def test_s35_links_and_the_system_are_in_the_digest(copied):
    others = [
        copied,
        replace(copied, system=True),
        replace(copied, links=(("/a", "b"),)),
        replace(copied, shown=copied.shown[1:]),
        replace(copied, hidden=copied.shown[:1]),
    ]
    assert len({contents._stamp(view, list(contents._files_of(view))) for view in others}) == 5
    assert len(set(map(digest_of_view, others[:4]))) == 4


def test_s35_what_was_read_is_not_read_again_unless_it_was_changed(copied, monkeypatch):
    read = []
    real = contents._content
    monkeypatch.setattr(contents, "_content", lambda file: read.append(file.path) or real(file))
    monkeypatch.setattr(contents, "_SETTLED", -(10**18))
    monkeypatch.setattr(contents, "_read", {})
    before = digest_of_view(copied)
    read.clear()
    assert (digest_of_view(copied), read) == (before, [])
    changed = files_in(copied)[0]
    times = changed.stat().st_atime_ns, changed.stat().st_mtime_ns
    flipped(changed, 0)
    os.utime(changed, ns=times)
    assert digest_of_view(copied) != before
    assert str(changed) in read


def test_s35_what_was_just_written_is_read_again(copied, monkeypatch):
    """A second change within the resolution of the clock would not be seen by its time."""
    monkeypatch.setattr(contents, "_SETTLED", 10**18)
    digest_of_view(copied)
    assert stamp_of_view(copied) == ""
    monkeypatch.setattr(contents, "_SETTLED", -(10**18))
    digest_of_view(copied)
    assert len(stamp_of_view(copied)) == 64


def test_s35_a_job_takes_the_service_s_word_for_what_did_not_change(copied, monkeypatch):
    monkeypatch.setattr(contents, "_SETTLED", -(10**18))
    digest_of_view(copied)
    remember(stamp_of_view(copied), "as the service read it")
    assert digest_of_view(copied) == "as the service read it"
    flipped(files_in(copied)[0], 0)
    assert digest_of_view(copied) != "as the service read it"


def test_s35_a_view_survives_the_way_to_a_job():
    for view in (
        python_view(),
        built_in_view("mst"),
        system_view("/bin/sh"),
        View(("/a",), links=(("b", "c"),)),
    ):
        assert view_of_document(json.loads(json.dumps(document_of_view(view)))) == view
        assert hash(view)


class TestRecipes:
    """What is in the view decides whether a job runs."""

    @pytest.fixture
    def library(self, tmp_path) -> Path:
        made = tmp_path / "library.so"
        made.write_bytes(b"what a program is loaded with")
        return made

    @pytest.fixture(params=["program", "built_in"])
    def approved(self, request, library, tmp_path, monkeypatch):
        """A recipe whose cell shows that library too."""
        real_python, real_system = views.python_view, views.system_view

        def with_it(view):
            return replace(view, shown=(*view.shown, str(library)))

        monkeypatch.setattr(views, "system_view", lambda *args: with_it(real_system(*args)))
        monkeypatch.setattr(
            "gencard.controller.sandbox.boxes.python_view",
            lambda *args, **how: with_it(real_python(*args, **how)),
        )
        (tmp_path / "box").mkdir()
        (tmp_path / "box" / "run.sh").write_text(ANSWER)
        made = (
            program_recipe(tmp_path / "box", ("/bin/sh", "./run.sh"), {})
            if request.param == "program"
            else built_in_recipe("synthpop", {})
        )
        limits = SandboxLimits(wall_seconds=60)
        return json.loads(json.dumps(in_sandbox(made, limits, Isolation.NAMESPACES)))

    def test_s35_one_flipped_byte_in_a_library_is_refused(self, approved, library):
        sandboxed_box_of(approved)
        for place in range(0, library.stat().st_size, 9):
            flipped(library, place)
            with pytest.raises(GeneratorChangedError):
                sandboxed_box_of(approved)
            flipped(library, place)
        sandboxed_box_of(approved)
        library.unlink()
        with pytest.raises(GeneratorChangedError):
            sandboxed_box_of(approved)

    @needs_sandbox
    def test_s35_a_library_that_changes_between_two_runs_is_refused(self, approved, library):
        if approved["kind"] != "program":
            pytest.skip("the cell is the same")
        made = sandboxed_box_of(approved)
        assert made(RECORDS, 1, seed=0).codes.tolist() == [[1, 2]]
        flipped(library, 3)
        with pytest.raises(GeneratorChangedError):
            made(RECORDS, 1, seed=0)


class TestShared:
    """ELF headers are read as the loader reads them."""

    @pytest.mark.parametrize("program", ["/bin/sh", "/usr/bin/awk", "/usr/bin/env", sys.executable])
    def test_all_that_the_loader_names_is_found(self, program):
        asked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        named = [word for line in asked.splitlines() for word in line.split() if word.startswith("/")]
        assert len(named) > 1
        found = {os.path.realpath(path) for path in libraries_of([os.path.realpath(program)])}
        assert {os.path.realpath(path) for path in named} <= found

    def test_what_is_no_such_file_needs_nothing(self, tmp_path):
        for number, content in enumerate(
            (b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 90)
        ):
            path = tmp_path / str(number)
            path.write_bytes(content)
            with path.open("rb") as file:
                assert not needs_of(file, "/").names
            assert libraries_of([str(path)]) == ()
        assert libraries_of([str(tmp_path / "absent")]) == ()

    def test_a_folder_beside_the_file_is_looked_in(self, tmp_path):
        shutil.copy(os.path.realpath("/bin/sh"), tmp_path / "sh")
        with (tmp_path / "sh").open("rb") as file:
            assert needs_of(file, str(tmp_path)).loader.startswith("/")
        assert shared_objects._folder("${ORIGIN}/../lib", "/here") == "/here/../lib"

    def test_a_script_is_run_by_what_its_first_line_names(self):
        shell = set(system_view("/bin/sh").shown)
        for line in (b"#!/bin/sh", b"#! /usr/bin/env sh\n", b"#!/bin/sh -e\nexit"):
            assert shell <= set(view_of(("./run",), {"run": line}, ()).shown)
        loaded = view_of(("./run",), {"run": Path(os.path.realpath("/bin/sh")).read_bytes()}, ())
        assert loaded.system
        assert shell - set(loaded.shown) <= {os.path.join("/usr/bin", "sh"), "/bin/sh"}


class TestCompiled:
    """Copies are the service's own, and as it made them."""

    def test_s35_one_flipped_byte_in_a_copy_is_refused(self, tmp_path):
        made = CompiledCopies(tmp_path / "work", [])
        recipe = in_sandbox(built_in_recipe("mst", {}), SandboxLimits(), Isolation.NAMESPACES)
        approved = json.loads(json.dumps(with_copies(recipe, made.folder())))
        sandboxed_box_of(approved)
        assert approved["digest"] == recipe["digest"]
        (copy, *_) = sorted((tmp_path / "work").rglob("numpy/__init__.*.pyc"))
        flipped(copy, copy.stat().st_size // 2)
        with pytest.raises(GeneratorChangedError):
            sandboxed_box_of(approved)
        with pytest.raises(GeneratorChangedError):
            made.folder()
        flipped(copy, copy.stat().st_size // 2)
        sandboxed_box_of(approved)

    def test_they_are_made_once_and_nobody_else_comes_near(self, tmp_path):
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
        recipe = built_in_recipe("mst", {})
        assert with_copies(recipe, made.folder()) == recipe

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
        view = replace(made.sandbox.view, shown=(*made.sandbox.view.shown, str(source), str(copy)))
        shown = replace(made, sandbox=replace(made.sandbox, view=view))
        assert shown(RECORDS, 1, seed=0).column("a")[0] == 107


class TestPython:
    """Its cell shows what was digested, and nothing else that could run."""

    def test_torch_is_there_for_those_that_need_it(self, monkeypatch):
        asked = []
        monkeypatch.setattr(
            "gencard.controller.sandbox.boxes.python_view",
            lambda *args, **how: asked.append((args, how)),
        )
        for name in ("mst", "ctgan", "pate-gan"):
            built_in_view(name)
        assert [("torch" in names[0]) for names, _ in asked] == [False, True, True]

    def test_what_a_distribution_requires_comes_along(self):
        names = {Path(path).name for path in views.entries_of(["scikit-learn"])}
        assert {"sklearn", "joblib", "numpy", "scipy", "scipy.libs"} <= names
        assert not {"", "..", "torch"} & names
        assert views.entries_of(["there-is-none-of-this-name"]) == frozenset()

    @needs_sandbox
    def test_s35_every_file_in_the_cell_was_digested(self):
        """But for the loader's index of names, and compiled copies, which are not run."""
        view = python_view()
        body = f"""
import os
SHOWN, HIDDEN = {(*view.shown, "/etc/ld.so.cache")!r}, {view.hidden!r}
def is_known(path):
    return os.path.islink(path) or any((path + "/").startswith(known + "/") for known in SHOWN)
def tried():
    strange = []
    for folder, below, names in os.walk("/"):
        below[:] = [name for name in below if folder != "/" or name not in ("proc", "dev", "cell")]
        paths = [os.path.join(folder, name) for name in names]
        strange += [path for path in paths if not is_known(path)]
        strange += [path for path in paths for folder in HIDDEN if path.startswith(folder + "/")]
    return min(len(strange), 200)
"""
        assert reported_value(body) == 0

    @needs_sandbox
    def test_s35_hidden_folders_cannot_be_written_to(self):
        body = f"""
def tried():
    written = 0
    for folder in {python_view().hidden!r}:
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
        named = replace(
            made, program=program, sandbox=Sandbox(LIMITS, Isolation.NAMESPACES, program.view())
        )
        assert named(RECORDS, 1, seed=0).column("a")[0] == 1
        assert Program(("python",), ()).digest(python_view()) != program.digest(program.view())

    @needs_sandbox
    def test_s35_the_system_s_programs_are_not_there(self):
        body = "import subprocess\ndef tried():\n    return len(subprocess.check_output(['ls']))"
        with pytest.raises(BlackBoxError):
            reported_value(body, processes=4)
