"""Runs of black boxes on other machines: orders by gRPC, and the workers that perform them.

Records are read by the controller alone. A worker gets the inputs of single runs, in memory. All that
comes back is bytes of bounded size, which ``jobs.black_boxes`` compares with runs of the controller.
"""
