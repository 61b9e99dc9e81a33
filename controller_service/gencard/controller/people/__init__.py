"""People and keys: identities, certificates, enrolment, signing keys and their rotation.

In: certificates and enrolment requests. Out: identities of callers with their roles, and signing keys.
"""
