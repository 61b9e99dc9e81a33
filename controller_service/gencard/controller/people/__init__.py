"""People and keys: identities, certificates, enrolment, signing keys and their rotation.

In: certificates and enrolment requests. Out: who calls, in which role, and keys that sign.
"""
