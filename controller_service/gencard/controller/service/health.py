"""Ask the service whether it serves.

``python -m gencard.controller.service.health [--alive] [FOLDER]``

FOLDER holds a client's certificate, its key and ``authority.pem``; by default it is ``health``,
which ``init`` makes. A relative path starts beside the settings, which GENCARD_CONTROLLER names. Exit
code 0 means yes; with ``--alive`` of a standby, too. Too little free space for new work is reported on
standard error.
"""

import os
import sys
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gencard.controller.base.disk import reserve_warning
from gencard.controller.settings import Settings
from gencard.files import KEY_LIMIT, read_file

SECONDS = 4.0

STANDBY = "standby"
"""Name under which a standby reports that it is healthy; under the empty name it serves nothing."""


def is_serving(port: int, person: Path, *, alive: bool = False) -> bool:
    """Return whether the service on this machine, with ``alive`` also a standby, says that it serves."""
    authority, key, certificate = (
        read_file(person / name, name, KEY_LIMIT)
        for name in ("authority.pem", "key.pem", "certificate.pem")
    )
    credentials = grpc.ssl_channel_credentials(authority, key, certificate)
    with grpc.secure_channel(f"localhost:{port}", credentials) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        return any(_says_yes(stub, name) for name in ("", *([STANDBY] if alive else [])))


def _says_yes(stub: health_pb2_grpc.HealthStub, service: str) -> bool:
    try:
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=SECONDS)
    except grpc.RpcError:
        return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def main(*words: str) -> int:
    """Return the exit code: 0 if the service serves."""
    folder = next((word for word in words if not word.startswith("--")), "health")
    config = Path(os.environ.get("GENCARD_CONTROLLER", "controller.toml")).absolute()
    settings = Settings.load(config)
    if warning := reserve_warning(settings.state.folder, settings.limits.reserve_mib):
        sys.stderr.write(f"{warning}\n")
    port = int(settings.server.address.rpartition(":")[2])
    return 0 if is_serving(port, config.parent / folder, alive="--alive" in words) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
