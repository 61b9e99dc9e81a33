"""The controller's service: negotiates cards, measures psi, makes and signs releases, audits."""
