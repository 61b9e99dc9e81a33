"""S36: whoever runs in a cell has three open files, and what it was sent is all there is."""

from gencard.controller.cell.box import CellBox
from gencard.controller.cell.cell import Cell
from gencard.controller.cell.limits import Isolation
from gencard.controller.cell.program import Program
from tests.system.cells import LIMITS, RECORDS, needs_cell, shell

pytestmark = needs_cell

ANSWER = """
    printf '{"format":"gencard.box.v1","rows":1}\\n'
    printf "\\\\$(printf %03o "$found")\\\\000\\\\000"
"""


def test_s36_three_and_the_one_that_lists_them():
    files = tuple((f"part{number}", b"content") for number in range(20))
    text = f"found=$(ls /proc/self/fd | wc -l); {ANSWER}"
    program = Program(("/bin/sh", "./box"), (("box", text.encode()), *files))
    made = CellBox(program, Cell(LIMITS, Isolation.NAMESPACES, program.view()))(RECORDS, 1, seed=0)
    assert made.column("a")[0] == 4


def test_s36_two_pipes_and_nowhere():
    text = f"""found=0
    for number in 0 1; do
        case $(readlink /proc/$$/fd/$number) in pipe:*) found=$((found + 1));; esac
    done
    [ "$(readlink /proc/$$/fd/2)" = /dev/null ] && found=$((found + 10))
    {ANSWER}"""
    assert shell(text)(RECORDS, 1, seed=0).column("a")[0] == 12


def test_s36_what_was_sent_and_no_more():
    """The line says how many records follow; after them the input ends."""
    text = f"""cat > all; read -r line < all; found=$(( $(wc -c < all) - ${{#line}} - 1 )); {ANSWER}"""
    assert shell(text)(RECORDS, 1, seed=0).column("a")[0] == len(RECORDS) * 3
