"""S34: libraries are loaded before runs are forked, and code of the box is not; runs stay apart."""

import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from gencard.controller.sandbox import sandbox as forks
from gencard.controller.sandbox.boxes import SandboxedProgram
from gencard.controller.sandbox.environment import compile_sources
from gencard.controller.sandbox.limits import Isolation
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.sandbox import Sandbox
from tests.system.sandboxes import LIMITS, copies, needs_sandbox
from tests.system.test_s34_forks import BYTES, LOOKS, STATE, told

pytestmark = needs_sandbox

LOADED = """
import sys
LOADED = ["joblib" in sys.modules, "sklearn.tree" in sys.modules, "sklearn.cluster" in sys.modules]
"""
USES = """
from joblib import hash as joblib_hash
def tried():
    return bytes(LOADED)
"""


def box(text, *more, libraries=("scikit-learn",), **changes):
    """A program that declares scikit-learn, with these files beside it."""
    program = Program(("python", "./box"), (("box", text.encode()), *more), {}, libraries, **changes)
    environment = program.environment(copies())
    return SandboxedProgram(program, Sandbox(LIMITS, Isolation.NAMESPACES, environment))


def test_s34_what_a_box_imports_of_declared_packages_is_there_when_it_begins():
    """Packages that are not imported are not loaded; a sandbox that forks without libraries has none."""
    made = box(LOADED + USES + BYTES)
    assert [told(made, 3) for _ in range(2)] == [bytes([1, 0, 0])] * 2
    assert told(box(LOADED + USES + BYTES, preloads=False), 3) == bytes(3)


def test_s34_no_file_of_the_box_runs_before_the_fork():
    """The box's own modules are loaded in each run; a module named as a package takes its place."""
    own = ("helper.py", b"import sys\nfrom joblib import hash\nsys.seen = getattr(sys, 'seen', 0) + 1\n")
    text = "import helper, sys\nimport joblib\n"
    text += "def tried(): return bytes([sys.seen, hasattr(joblib, 'own')])\n"
    made = box(text + BYTES, own)
    assert [told(made, 2) for _ in range(3)] == [bytes([1, 0])] * 3
    shadow = ("joblib.py", b"own = True\nhash = None\n")
    made = box(text + BYTES, own, shadow)
    assert made.program.imports(made.sandbox.environment) == ()
    assert [told(made, 2) for _ in range(3)] == [bytes([1, 1])] * 3


def test_s34_runs_with_libraries_loaded_leave_nothing_and_look_alike():
    made = box("import joblib\nfrom sklearn import tree\n" + STATE + BYTES)
    assert [told(made, 1) for _ in range(3)] == [b"\0"] * 3
    made = box("import joblib\nfrom sklearn import tree\n" + LOOKS + BYTES)
    assert len({told(made) for _ in range(3)}) == 1


def test_s34_a_change_of_a_loaded_library_is_undone_in_the_next_run():
    text = """
import numpy.linalg
import joblib
def tried():
    met = hasattr(joblib, "mark") + 2 * (joblib.hash([1]) == "mine")
    joblib.mark, joblib.hash = 1, lambda _: "mine"
    return bytes([met])
"""
    made = box(text + BYTES)
    assert [told(made, 1) for _ in range(3)] == [b"\0"] * 3


@pytest.mark.parametrize("left", ["a thread", "a file"])
def test_s34_libraries_that_leave_something_are_loaded_in_each_run(monkeypatch, left):
    """A thread would be missing in a fork, and an open file would be shared by all."""
    seen = []
    real = forks._check_alone

    def check(process):
        seen.append(process)
        if left == "a file":
            monkeypatch.setattr(forks, "_PIPES", {"0", "1"})
            real(process)
        raise OSError(left)

    monkeypatch.setattr(forks, "_check_alone", check)
    made = box(LOADED + USES + BYTES)
    assert [told(made, 3) for _ in range(2)] == [bytes(3)] * 2
    assert len(seen) == 1


def test_s34_what_is_not_there_is_the_program_s_own_affair():
    text = "try:\n    from sklearn import nothing_such\nexcept ImportError:\n    pass\n"
    assert told(box(text + "def tried(): return b'x'\n" + BYTES), 1) == b"x"


def test_s34_random_numbers_of_libraries_are_others_in_each_fork():
    """Generators that exist before the fork, as a library may make them when it is imported."""
    text = """
import os, random, sys
import numpy as np
from gencard.controller.sandbox.zygote import reseeding
made = [random.Random(3), np.random.default_rng(3), np.random.RandomState(3)]
reseed = reseeding()
for _ in range(2):
    if os.fork() == 0:
        reseed()
        print(made[0].random(), made[1].random(), made[2].random_sample(), np.random.random())
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    first, second = (line.split() for line in done.stdout.splitlines())
    assert len({*first, *second}) == 8


def test_s34_sources_are_compiled_and_not_run(tmp_path, monkeypatch):
    """By the service, which runs no library: the copies are those that Python would make."""
    site, mark = tmp_path / "site-packages", tmp_path / "mark"
    for path, text in {
        "tiny/__init__.py": f"open({str(mark)!r}, 'w')\nfrom . import parts\nfrom .other import x\n",
        "tiny/parts.py": "import tiny_top, elsewhere\ndef late():\n    import tiny.late\n",
        "tiny/other.py": "x = (\n",
        "tiny/late.py": "",
        "tiny_top.py": "try:\n    import tiny.tried\nexcept ImportError:\n    pass\n",
        "tiny/tried.py": "",
        "elsewhere.py": "",
    }.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "copies"))
    compile_sources(["tiny:parts"], [str(site / "tiny"), str(site / "tiny_top.py")])
    made = {path.name.partition(".")[0] for path in (tmp_path / "copies").rglob("*.pyc")}
    assert made == {"__init__", "parts", "tiny_top", "tried"}
    assert not mark.exists()
    copy = Path(cache_from_source(str(site / "tiny" / "parts.py")))
    assert copy.is_file()


class TestImports:
    """Modules to preload are read from the text of a program, in time linear in its length."""

    def imports(self, text, *more, libraries=("scikit-learn",)):
        program = Program(("python", "./box"), (("box", text.encode()), *more), {}, libraries)
        return program.imports(program.environment())

    def test_of_declared_distributions_alone(self):
        text = "import os, sklearn.tree as t, duckdb\n"
        text += "from sklearn import (\n  svm,  # kernels, too\n  tree as x,\n)\n"
        assert self.imports(text) == ("sklearn.tree", "sklearn:svm", "sklearn:tree")
        assert self.imports(text, libraries=()) == ()

    def test_nothing_private_relative_or_of_tests(self):
        text = "from sklearn import _loss\nfrom . import sklearn\n"
        text += "import sklearn.tests, sklearn.tree.__main__"
        assert self.imports(text) == ()

    def test_none_where_a_file_has_the_name_of_a_module(self):
        for path in ("numpy.py", "json/x.py", "sklearn/__init__.py", "threadpoolctl.so"):
            assert self.imports("import sklearn.tree", (path, b"")) == ()

    @pytest.mark.parametrize(
        "line", ["from sklearn import (", "import ", " \t", "import a,", "from a import b,"]
    )
    def test_a_hostile_text_takes_no_time(self, line):
        self.imports((line + "\n") * (1 << 18))

    def test_not_of_programs_that_are_no_script(self):
        program = Program(("/bin/sh", "./box"), (("box", b"import numpy"),))
        assert program.imports(program.environment()) == ()
