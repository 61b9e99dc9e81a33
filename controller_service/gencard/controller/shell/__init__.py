"""``gencard-controller``: the steward's shell."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC reads it once, when it is imported
