"""S34: answers that are nearly right, and programs that do more than answer, or never end."""

import os

import pytest

from gencard.core.errors import BlackBoxError, JobLimitError
from tests.system.sandboxes import RECORDS, box, needs_sandbox
from tests.system.test_s34_sandbox import running_with

pytestmark = needs_sandbox

MARK = f"CANARY-survivor-of-{os.getpid()}"
RIGHT = r"""
binmode STDOUT; $| = 1;
my $head = qq({"format":"gencard.box.v1","rows":2}\n); my $codes = "\x01\x02\x03\x00\x04\x00";
"""


def perl(text: str, **limits):
    """A program that answers two rows as it should, but for what the text does with them."""
    return box(RIGHT + text, interpreter="/usr/bin/perl", **{"processes": 8} | limits)


NEARLY = {
    "an endless line": "print 'x' x 1_000_000",
    "empty lines": "print qq(\\n) x 5000",
    "another end of line": r"$head =~ s/\n/\r\n/; print $head.$codes",
    "a mark of byte order": r'print "\xef\xbb\xbf".$head.$codes',
    "a space": "$head =~ s/:2/: 2/; print $head.$codes",
    "a leading zero": "$head =~ s/:2/:02/; print $head.$codes",
    "a fraction": "$head =~ s/:2/:2.0/; print $head.$codes",
    "rows below zero": "$head =~ s/:2/:-2/; print $head.$codes",
    "rows beyond counting": "$head =~ s/:2/:99999999999999999999/; print $head.$codes",
    "a name twice": '$head =~ s/}/,"rows":2}/; print $head.$codes',
    "attributes of its own": '$head =~ s/{/{"attributes":[["a",256]],/; print $head.$codes',
    "a column more": 'print $head.$codes."\\0\\0"',
    "a column less": "print $head.substr($codes, 0, 2)",
    "a line after the last code": 'print $head.$codes."\\n"',
    "two answers": "print(($head.$codes) x 2)",
    "two heads": "print $head.$head.$codes",
    "a head and nothing": "print $head",
    "one byte too few": "print $head.substr($codes, 0, 5)",
    "a code below zero": r'print $head."\x01\x02\xff\xff\x04\x00"',
    "the first code outside": r'print $head."\x01\x02\x2c\x01\x04\x00"',
    "floats": 'print $head.pack("f4", 1, 2, 3, 4)',
    "wide integers": 'print $head.pack("q4", 1, 2, 3, 4)',
    "no number": 'print $head."\\x01\\x02".pack("f", 9**9**9 / 9**9**9)',
    "the higher byte first": r'print $head."\x01\x02\x00\x03\x00\x04"',
    "rows for columns": r'print $head."\x01\x03\x00\x02\x04\x00"',
    "progress that stands": r'print qq({"done":1}\n) x 2; print $head.$codes',
    "progress that falls": r'print qq({"done":9}\n{"done":8}\n); print $head.$codes',
    "progress beyond the end": r'print qq({"done":101}\n); print $head.$codes',
    "progress spelled otherwise": r'print qq({"done":007}\n); print $head.$codes',
    "progress below nothing": r'print qq({"done":-0}\n); print $head.$codes',
    "progress within the answer": r'print $head.qq({"done":7}\n).$codes',
    "a refusal with a name in it": r'print qq({"fields":{"field":"Ann"},"refused":"INVALID_INPUT"}\n)',
    "a fit": r'print qq({"format":"gencard.box.v1","saved":6}\n).$codes',
    "an answer, and a failure": "print $head.$codes; exit 1",
    "an answer, and a signal": "print $head.$codes; kill ALRM => $$",
}


@pytest.mark.parametrize("text", NEARLY.values(), ids=NEARLY)
def test_s34_an_answer_that_is_nearly_right_is_caught(text):
    with pytest.raises(BlackBoxError) as caught:
        perl(text)(RECORDS, 2, seed=0)
    assert "Ann" not in str(caught.value)


ODD = {
    "all of progress": r'print qq({"done":$_}\n) for 0..100; print $head.$codes',
    "errors by the megabyte": "print STDERR 'x' x 1_000_000 for 1..20; print $head.$codes",
    "its input closed": "close STDIN; print $head.$codes",
    "blows at its keepers": "kill STOP => 1, getppid(), -1; kill KILL => 1; print $head.$codes",
    "zombies": "for (1..6) { exit 0 unless fork } print $head.$codes",
    "a child that holds the pipe": f"print $head.$codes; exit 0 if fork; exec 'sleep', '100', '{MARK}'",
    "a child that let go": f"print $head.$codes; exit 0 if fork; close STDOUT; $0 = '{MARK}'; sleep 100",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_s34_what_it_does_besides_makes_no_difference(text):
    assert perl(text)(RECORDS, 2, seed=0).codes.tolist() == [[1, 3], [2, 4]]
    assert running_with(MARK) == []


LATE = {
    "a byte at a time": "for (split //, $head.$codes) { print; select undef, undef, undef, 0.2 }",
    "an answer, and no end": "print $head.$codes; close STDOUT; sleep 100",
    "it stops itself": "print $head; kill STOP => $$; print $codes",
    "a herd in sessions of their own": f"""for (1..5) {{ next if fork;
        system 'setsid', '-f', 'perl', '-e', '$SIG{{TERM}} = "IGNORE"; sleep 100', '{MARK}'; sleep 100 }}
        sleep 100""",
}


@pytest.mark.parametrize("text", LATE.values(), ids=LATE)
def test_s34_who_does_not_end_is_ended(text):
    with pytest.raises(JobLimitError, match="time for one run"):
        perl(text, wall_seconds=1, processes=12)(RECORDS, 2, seed=0)
    assert running_with(MARK) == []
