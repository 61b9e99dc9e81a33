"""From settings to a running controller: opened, checked, logged, served, reloaded.

In: settings. Out: a controller that serves until it is told to stop. Only the shell imports it.
"""
