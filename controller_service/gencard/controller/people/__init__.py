"""People and keys: identities, certificates, enrolment, signing keys and their rotation."""
