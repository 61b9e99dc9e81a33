"""S36: whoever runs in a cell has three open files, and what it was sent is all there is."""

from gencard.controller.sandbox.boxes import SandboxedProgram
from gencard.controller.sandbox.limits import Isolation
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.sandbox import Sandbox
from tests.system.sandboxes import LIMITS, RECORDS, needs_sandbox, shell

pytestmark = needs_sandbox

ANSWER = """
    printf '{"format":"gencard.box.v1","rows":1}\\n'
    printf "\\\\$(printf %03o "$found")\\\\000\\\\000"
"""


SEEN = r"""
    use POSIX ();
    my $found = 0;
    {text}
    binmode STDOUT; print qq({{"format":"gencard.box.v1","rows":1}}\n), pack "CCC", $found, 0, 0;
"""


def seen(text: str) -> int:
    """Return what a program saw without any file, so that it has opened none."""
    files = tuple((f"part{number}", b"content") for number in range(20))
    program = Program(("/usr/bin/perl", "-e", SEEN.format(text=text)), files)
    made = SandboxedProgram(program, Sandbox(LIMITS, Isolation.NAMESPACES, program.environment()))(
        RECORDS, 1, seed=0
    )
    return int(made.column("a")[0])


def test_s36_three_are_open():
    assert (
        seen("for (0..100) { my $copy = POSIX::dup($_); POSIX::close($copy), $found++ if $copy }") == 3
    )


def test_s36_two_pipes_and_nowhere():
    text = "$found += (-p STDIN) + (-p STDOUT) + 10 * ((stat STDERR)[6] == (stat '/dev/null')[6]);"
    assert seen(text) == 12


def test_s36_what_was_sent_and_no_more():
    """The line says how many records follow; after them the input ends."""
    text = f"""cat > all; read -r line < all; found=$(( $(wc -c < all) - ${{#line}} - 1 )); {ANSWER}"""
    assert shell(text)(RECORDS, 1, seed=0).column("a")[0] == len(RECORDS) * 3
