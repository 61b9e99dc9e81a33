"""From settings to a running controller: opened, checked, logged, served, reloaded.

In: settings. Out: a controller that serves until it is stopped. Only the shell imports it.
"""
