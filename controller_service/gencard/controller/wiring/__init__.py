"""From settings to a running controller: opened, checked, logged, served, reloaded.

In: settings. Out: a controller that serves until it is stopped. Only the shell imports it.

``serving`` is the main path: ``serve`` uses ``opening`` (state and datasets), ``readiness`` (checks that
may refuse the start), ``rule_log`` (rules in force, and the log of their changes) and ``reloading``
(settings read again while the service runs).
"""
