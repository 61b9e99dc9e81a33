"""Asks the service whether it serves: ``python -m gencard.controller.upkeep.health [FOLDER]``.

FOLDER holds a client's certificate, its key and ``authority.pem``; where it is not given, ``health``,
which ``init`` makes. A relative one starts beside the settings, which GENCARD_CONTROLLER names. Exit
code 0 means yes. Too little free space for new work is told on standard error.
"""

import os
import sys
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gencard.controller.policy.quotas import quotas_of
from gencard.controller.settings.settings import Settings

SECONDS = 4.0


def is_serving(port: int, person: Path) -> bool:
    """Whether the service on this machine answers somebody's call, and says that it serves."""
    authority, key, certificate = (
        (person / name).read_bytes() for name in ("authority.pem", "key.pem", "certificate.pem")
    )
    credentials = grpc.ssl_channel_credentials(authority, key, certificate)
    with grpc.secure_channel(f"localhost:{port}", credentials) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=SECONDS
            )
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def main(folder: str = "health") -> int:
    """Exit code of the question: 0 where the service serves."""
    config = Path(os.environ.get("GENCARD_CONTROLLER", "controller.toml")).absolute()
    settings = Settings.load(config)
    if warning := quotas_of(settings).reserve_warning():
        sys.stderr.write(f"{warning}\n")
    port = int(settings.server.address.rpartition(":")[2])
    return 0 if is_serving(port, config.parent / folder) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
