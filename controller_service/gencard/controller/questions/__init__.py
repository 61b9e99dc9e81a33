"""Questions of runs, and what was released before: read by the schema alone, by the service and by jobs.

In: a question and a schema. Out: the statistics that it needs, its price, and what it would tell beside
earlier outputs. No record and no state is read here.
"""
