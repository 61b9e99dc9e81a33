"""Audits of programs by the service, beside the same audits as Python programs of their own.

``python -m benchmarks.boxes_speed [--quick] [--json FILE]``: a controller on loopback, in a process of
its own, lends a box of numpy (``examples/black_boxes/chain``) and one of scikit-learn, and audits them
at 20,000 records, with 70 runs. The program of its own imports the same box from the same file, makes up
the same records and calls the same audit; its time includes the start of Python and all imports. Each
round runs all three, one after the other; a ratio is the median over the rounds of the ratios of one
round. The lent audit and the program must give the same numbers.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks import bench
from gencard.client import Analyst
from gencard.client.audit import Audit
from gencard.client.card import Card
from tests.system.house import House, build, survey

_CHAIN = Path(__file__).parents[1] / "examples" / "black_boxes" / "chain" / "box.py"
_SERVICE = Path(sys.executable).with_name("gencard-controller")
_RECORDS = 20_000
_RUNS = 10
_PAIRS = [("sex", "health"), ("sex", "work"), ("health", "work"), ("work", "region"), ("region", "age")]
_MOST_LENT, _MOST_AT_RECORDS = 5.0, 3.0
"""Times the program of its own."""

TREES = '''
import numpy as np
from sklearn.tree import DecisionTreeClassifier

from gencard.wire.black_box import black_box


@black_box
def trees(table, rows, *, rng):
    """Draw each attribute by a tree that was fitted to the attributes before it."""
    first, *others = table.domain.attributes
    made = {first: rng.choice(table.column(first), rows)}
    for name in others:
        known = np.column_stack([table.column(before) for before in made])
        tree = DecisionTreeClassifier(max_depth=4, random_state=0).fit(known, table.column(name))
        shares = tree.predict_proba(np.column_stack(list(made.values()))).cumsum(axis=1)
        drawn = (shares < rng.random((rows, 1))).sum(axis=1)
        made[name] = tree.classes_[np.minimum(drawn, len(tree.classes_) - 1)]
    return made


if __name__ == "__main__":
    trees.main()
'''

_OWN = """
import json
import sys

sys.path.insert(0, {folder!r})
from box import {function} as box

from gencard.core.audit.uniques import made_up
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.run import audit
from gencard.core.card.terms import AuditTerms
from gencard.core.domain import Domain
from gencard.core.generators.contract import rng_of

domain = Domain({attributes!r}, {sizes!r})
records = made_up(domain, {records}, rng=rng_of({seed}))
plan = AuditPlan({cliques!r}, {records}, {seed}, AuditTerms(runs={runs}))
report = audit(box, records, plan)
print(json.dumps([report.verdict, *report.g_low, *report.g_high, *report.g_original]))
"""


def run(quick: bool) -> bench.Result:
    """Two boxes; ``quick`` takes one round instead of three."""
    rounds = 1 if quick else 3
    rows, targets = [], []
    with (
        tempfile.TemporaryDirectory() as name,
        _service(Path(name)) as (house, address),
        Analyst.connect(address, folder=house.person("ana")) as analyst,
    ):
        card = analyst.propose("survey", _PAIRS, purpose="Speed", rows=_RECORDS).accept()
        for box in ("chain", "trees"):
            timed = [_round(card, house, box, seed) for seed in range(1, 1 + rounds)]
            own, lent, at_records = (median(times) for times in zip(*timed, strict=True))
            lent_ratio = median(one[1] / one[0] for one in timed)
            ratio = median(one[2] / one[0] for one in timed)
            rows.append((box, own, lent, lent_ratio, at_records, ratio))
            targets.append(_target(f"{box}, lent", lent_ratio, _MOST_LENT))
            targets.append(_target(f"{box}, at the records", ratio, _MOST_AT_RECORDS))
    columns = ("box", "own program, s", "lent, s", "ratio", "at the records, s", "ratio")
    return bench.Result([bench.Table(f"Audits of {7 * _RUNS} runs", columns, rows)], targets)


def _target(name: str, value: float, bound: float) -> bench.Target:
    return bench.Target(name, value, bound, "at most", "times the program of its own")


def _round(card: Card, house: House, box: str, seed: int) -> Sequence[float]:
    """Seconds of the program of its own, the lent audit, and the audit at the records."""
    text = _own_program(card, house, box, seed)
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    own = time.perf_counter() - begin
    lent, audit = _timed(card, box, "made-up", seed)
    report = audit.findings
    assert report is not None
    numbers = [report.verdict, *report.g_low, *report.g_high, *report.g_original]
    assert json.loads(done.stdout) == json.loads(json.dumps(numbers))
    at_records, _ = _timed(card, box, "card", seed)
    return own, lent, at_records


def _own_program(card: Card, house: House, box: str, seed: int) -> str:
    domain = card.agreement.domain
    return _OWN.format(
        folder=str(house.folder.parent / box),
        function=box,
        attributes=domain.attributes,
        sizes=domain.sizes,
        cliques=card.terms.marginals,
        records=_RECORDS,
        seed=seed,
        runs=card.terms.audit.sufficient.runs,
    )


def _timed(card: Card, box: str, where: str, seed: int) -> tuple[float, Audit]:
    begin = time.perf_counter()
    audit = card.audit(box, where=where, seed=seed, progress=False)
    return time.perf_counter() - begin, audit


@contextmanager
def _service(folder: Path) -> Iterator[tuple[House, str]]:
    """A service that lends both boxes, and its address."""
    folder.chmod(0o755)
    texts = {"chain": _CHAIN.read_text(encoding="utf-8"), "trees": TREES}
    for box, text in texts.items():
        (folder / box).mkdir()
        (folder / box / "box.py").write_text(text, encoding="utf-8")
    house = build(folder, survey(_RECORDS))
    settings = house.settings_file.read_text(encoding="utf-8")
    settings = re.sub(r"(?m)^\[lending\]\nblack_boxes = .*\n", "", settings)
    libraries = {"chain": "[]", "trees": '["scikit-learn"]'}
    boxes = "".join(
        f'\n[[black_boxes]]\nname = "{box}"\nkind = "program"\nfolder = "{folder / box}"\n'
        f'command = ["python", "./box.py"]\nlibraries = {libraries[box]}\n'
        for box in texts
    )
    lending = '\n[lending]\nblack_boxes = ["chain", "trees"]\n'
    house.settings_file.write_text(settings + boxes + lending, encoding="utf-8")
    house.allow_audits(50)
    house.raise_caps()
    house.review(*texts)
    command = [str(_SERVICE), "serve", "--config", str(house.settings_file)]
    plain = {"NO_COLOR": "1", "TERM": "dumb", "GENCARD_SERVER__ADDRESS": "localhost:0"}
    process = subprocess.Popen(command, env={**os.environ, **plain}, stdout=subprocess.PIPE, text=True)
    try:
        yield house, _address(process)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _address(process: "subprocess.Popen[str]") -> str:
    """Return the address at which the service says that it listens."""
    for line in process.stdout or ():
        if match := re.search(r"Serving on (localhost:\d+)", line):
            return match[1]
    raise RuntimeError("the service did not start; its messages are above")


if __name__ == "__main__":
    bench.main("boxes_speed", run)
