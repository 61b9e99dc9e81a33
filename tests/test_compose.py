"""S44: compose file, images, manifests and the container's filter of calls: bounds, digests, cells."""

import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.system.sandboxes import needs_sandbox

ROOT = Path(__file__).resolve().parents[1]
SERVICES = YAML(typ="safe").load((ROOT / "docker-compose.yml").read_text())["services"]
MANIFESTS = {
    manifest["kind"]: manifest
    for manifest in YAML(typ="safe").load_all(
        (ROOT / "deploy" / "kubernetes" / "controller.yaml").read_text()
    )
}
PROFILE = json.loads((ROOT / "controller_service" / "seccomp.json").read_text())
DOCKERFILES = ("controller_service/Dockerfile", "analyst_client/Dockerfile")
ALLOW, ENOSYS, EQUAL = 0x7FFF_0000, 0x0005_0000 | 38, 4
"""Constants of libseccomp (seccomp.h)."""

NEVER = {
    *("add_key", "bpf", "clone3", "delete_module", "finit_module", "fsopen", "init_module", "keyctl"),
    *("io_uring_setup", "kexec_load", "mount_setattr", "open_by_handle_at", "perf_event_open"),
    *("process_vm_readv", "ptrace", "quotactl", "reboot", "request_key", "setns", "swapon", "syslog"),
    "userfaultfd",
}
"""System calls that neither the service nor bubblewrap needs."""


@pytest.mark.parametrize("name", SERVICES)
class TestService:
    def test_s44_memory_processes_and_processors_are_bounded(self, name):
        service = SERVICES[name]
        assert service["mem_limit"] == service["memswap_limit"]
        assert re.fullmatch(r"[1-9][0-9]*g", service["mem_limit"])
        assert 0 < service["pids_limit"] <= 1_024
        assert 0 < service["cpus"] <= 8
        assert all("size=" in entry for entry in service["tmpfs"])

    def test_s44_it_has_no_right_that_it_does_not_need(self, name):
        service = SERVICES[name]
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True
        assert "no-new-privileges:true" in service["security_opt"]
        assert not {"privileged", "cap_add", "pid", "ipc", "userns_mode", "devices"} & service.keys()
        assert not any("unconfined" in option for option in service["security_opt"])

    def test_s44_its_image_is_built_here_and_never_pulled(self, name):
        assert SERVICES[name]["pull_policy"] == "build"
        assert SERVICES[name]["build"]["dockerfile"] in DOCKERFILES


def test_s44_the_compose_file_names_the_profile():
    assert "seccomp=controller_service/seccomp.json" in SERVICES["controller"]["security_opt"]


@pytest.mark.parametrize("path", DOCKERFILES)
def test_s44_the_base_image_is_named_by_digest(path):
    text = (ROOT / path).read_text()
    (base,) = re.findall(r"(?m)^ARG BASE=(\S+)", text)
    assert re.fullmatch(r"python:3\.11\.[0-9]+-slim-bookworm@sha256:[0-9a-f]{64}", base)
    assert re.findall(r"(?m)^FROM (\S+)", text) == ["${BASE}", "${BASE}"]


class TestKubernetes:
    """That the manifests fit their schema, ``make check`` says."""

    def test_s44_a_pod_has_no_right_that_it_does_not_need(self):
        spec = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 10001
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"].keys() == {"cpu", "memory", "ephemeral-storage"}
        mounts = {mount["name"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}
        assert mounts == {"controller": False, "records": True, "temporary": False}

    def test_s44_the_controller_reaches_its_database_and_names_alone(self):
        policy = MANIFESTS["NetworkPolicy"]["spec"]
        pod = MANIFESTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
        assert policy["podSelector"]["matchLabels"] == pod == MANIFESTS["Service"]["spec"]["selector"]
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        assert [port["port"] for rule in policy["ingress"] for port in rule["ports"]] == [7443]
        assert [port["port"] for rule in policy["egress"] for port in rule["ports"]] == [5432, 53, 53]
        assert all("ipBlock" not in peer for rule in policy["egress"] for peer in rule["to"])

    def test_a_standby_is_alive_and_gets_no_calls(self):
        (container,) = MANIFESTS["Deployment"]["spec"]["template"]["spec"]["containers"]
        ready, alive, start = (
            container[f"{probe}Probe"]["exec"]["command"]
            for probe in ("readiness", "liveness", "startup")
        )
        assert ready == ["python", "-m", "gencard.controller.service.health"]
        assert alive == start == [*ready, "--alive"]

    def test_no_secret_is_written_down(self):
        (variable,) = MANIFESTS["Deployment"]["spec"]["template"]["spec"]["containers"][0]["env"]
        assert variable["name"] == "GENCARD_STATE__URL"
        assert variable["valueFrom"].keys() == {"secretKeyRef"}
        assert "Secret" not in MANIFESTS


def test_s44_the_profile_refuses_what_it_does_not_name():
    assert (PROFILE["defaultAction"], PROFILE["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 38)
    assert {rule["action"] for rule in PROFILE["syscalls"]} == {"SCMP_ACT_ALLOW"}
    assert not NEVER & {name for rule in PROFILE["syscalls"] for name in rule["names"]}
    assert not any(entry["subArchitectures"] for entry in PROFILE["archMap"])


class Comparison(ctypes.Structure):
    """``struct scmp_arg_cmp``."""

    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


def compiled(profile) -> int:
    """A descriptor of the filter that a container engine makes of a profile, by libseccomp."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ENOSYS)))
    for rule in profile["syscalls"]:
        tests = [Comparison(entry["index"], EQUAL, entry["value"], 0) for entry in rule.get("args", ())]
        for name in rule["names"]:
            number = library.seccomp_syscall_resolve_name(name.encode())
            added = library.seccomp_rule_add_array(
                context, ctypes.c_uint32(ALLOW), number, len(tests), (Comparison * len(tests))(*tests)
            )
            assert added == 0, name
    descriptor = os.memfd_create("filter", 0)
    assert library.seccomp_export_bpf(context, descriptor) == 0
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


CONTAINER = """
import ctypes, errno, os, sys
from pathlib import Path
from gencard.controller.sandbox.limits import Isolation
from gencard.controller.sandbox.boxes import check_isolation

libc = ctypes.CDLL(None, use_errno=True)
assert os.getuid() != 0 and libc.prctl(39, 0, 0, 0, 0) == 1 and libc.prctl(21, 0, 0, 0, 0) == 2
for number in (101, 175, 246, 248, 298, 308, 321, 323, 425, 442):
    assert libc.syscall(number, 0, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == errno.ENOSYS, number
assert libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == -1 and ctypes.get_errno() == errno.EPERM
assert libc.unshare(0x00020000) == -1 and ctypes.get_errno() == errno.EPERM
check_isolation(Isolation.NAMESPACES, Path("/etc/shadow"))
print("closed")
"""


def reachable(path: Path) -> list[str]:
    """Words of bubblewrap by which others than root reach what lies in a folder of root's."""
    above = list(reversed(path.parents))
    closed = [folder for folder in above if not folder.stat().st_mode & 0o001]
    if not closed:
        return []
    made = [folder for folder in above if closed[0] in folder.parents]
    folders = [word for folder in made for word in ("--perms", "0755", "--dir", str(folder))]
    return ["--perms", "0755", "--tmpfs", str(closed[0]), *folders, "--ro-bind", str(path), str(path)]


@needs_sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can play a container engine")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of another machine")
def test_s44_cells_close_within_a_container_of_this_profile():
    """The container is as an engine starts it: without rights, with this filter, parts of /proc covered.

    A fresh /proc cannot be mounted there, because another one is covered in part; cells need none.
    """
    if not Path("/usr/lib/x86_64-linux-gnu/libseccomp.so.2").exists():
        pytest.skip("libseccomp is not here")
    filtered = compiled(PROFILE)
    rights = [
        word for right in ("SETUID", "SETGID", "SETPCAP") for word in ("--cap-add", f"CAP_{right}")
    ]
    container = ["bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--unshare-ipc", "--proc", "/proc"]
    container += ["--ro-bind", "/dev/null", "/proc/keys", "--tmpfs", "/proc/fs", "--cap-drop", "ALL"]
    container += ["--ro-bind", "/proc/sys", "/proc/sys", *reachable(Path(sys.base_prefix))]
    become = ["setpriv", "--reuid", "64011", "--regid", "64011", "--clear-groups", "--no-new-privs"]
    become += ["--inh-caps=-all", "--bounding-set=-all"]
    done = subprocess.run(
        [
            *container,
            *rights,
            "--seccomp",
            str(filtered),
            "--",
            *become,
            sys.executable,
            "-c",
            CONTAINER,
        ],
        pass_fds=(filtered,),
        capture_output=True,
        text=True,
        cwd="/",
        timeout=120,
        check=False,
    )
    os.close(filtered)
    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stderr
