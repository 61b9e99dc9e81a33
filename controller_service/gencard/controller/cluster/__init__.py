"""Runs of black boxes on other machines, by Dask: what is sent, who may send it, who performs it.

Records are read by the controller alone. A worker gets the inputs of single runs, in memory.
"""
