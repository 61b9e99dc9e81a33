"""Guard: who may call, how much of the service a caller has, and what leaves with an error."""

from tests.mutation.mutant import mutants_of

MAY_CALL = "gencard.controller.service.access"
GUARD = "gencard.controller.service.guard"
SHARED = "gencard.controller.base.fair_use"
ACCESS = ("tests/system/test_s03_access.py", "-k", "every_method_and_role or forgets_later")
SHARES = ("tests/controller/test_shares.py",)
RATES = ("tests/system/test_s12_patience.py", "-k", "burst")
REQUESTS = ("tests/controller/test_requests.py",)
SILENCE = ("tests/system/test_s15_silence.py", "-k", "no_text_of or whatever or guard_itself")
mutant = mutants_of("guard")

MUTANTS = (
    mutant(
        "analysts may read audit reports",
        MAY_CALL,
        '"/gencard.v1.AuditService/GetAuditReport": frozenset({AUDITOR, STEWARD})',
        '"/gencard.v1.AuditService/GetAuditReport": EVERYBODY',
        ACCESS,
    ),
    mutant(
        "a method that the table does not name is open to everybody",
        GUARD,
        "MAY_CALL.get(method, frozenset())",
        "MAY_CALL.get(method, frozenset({who.role}))",
        ACCESS,
    ),
    mutant(
        "an identity that is not enrolled is let in",
        MAY_CALL,
        "self.begins or not admits(self.identity, self.tls_key):",
        "self.begins:",
        ACCESS,
    ),
    mutant(
        "one call more than the share of an identity",
        SHARED,
        "self._running[who] >= self.bounds.per_identity",
        "self._running[who] > self.bounds.per_identity",
        SHARES,
    ),
    mutant(
        "calls that have ended keep their place",
        SHARED,
        "counter[who] -= 1",
        "counter[who] -= 0",
        SHARES,
    ),
    mutant(
        "a long pause saves up calls without bound",
        SHARED,
        "min(most, left + rate * (now - before))",
        "left + rate * (now - before)",
        RATES,
    ),
    mutant("unknown fields are not seen", GUARD, "message.ByteSize() != size", "False", REQUESTS),
    mutant(
        "a list counts as one part, however long",
        GUARD,
        "parts += len(value) if repeated else 1",
        "parts += 1",
        REQUESTS,
    ),
    mutant(
        "the text of an unexpected error is sent to the caller",
        GUARD,
        "InternalError(incident=incident)",
        "InternalError(incident=str(error))",
        SILENCE,
    ),
    mutant(
        "an error after the first message of a stream is swallowed",
        GUARD,
        "            if caught:\n                _end(context, caught)",
        "            caught.clear()",
        SILENCE,
    ),
)
