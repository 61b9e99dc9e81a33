"""From settings to a running controller: opened, checked, logged, served, reloaded.

In: settings. Out: a controller that serves until it is stopped. Only the shell imports it.

``serving`` is the main path: ``serve`` uses ``opening`` (state, datasets, rules in force, settings that
are read again while the service runs) and ``readiness`` (checks that may refuse the start).
"""
