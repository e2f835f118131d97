# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The example for Kubernetes, and what the restricted Pod Security Standard asks of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

# Of a pod's volumes; all others, which reach the node, are not allowed.
_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
_SECCOMP = {"RuntimeDefault", "Localhost"}
_OF_THE_NODE = ("hostNetwork", "hostPID", "hostIPC")


@dataclass(frozen=True)
class Manifest:
    """The StatefulSet, as YAML gives it."""

    spec: dict[str, Any]

    @property
    def pod(self) -> dict[str, Any]:
        found: dict[str, Any] = self.spec["template"]["spec"]
        return found

    @property
    def server(self) -> dict[str, Any]:
        """The only container."""
        (found,) = self.pod["containers"]
        return dict(found)

    @property
    def volumes(self) -> dict[str, dict[str, Any]]:
        """By their names, those of claims as well: one key, the kind, with its settings."""
        templates = self.spec.get("volumeClaimTemplates", [])
        claims: dict[str, dict[str, Any]] = {claim["metadata"]["name"]: {"persistentVolumeClaim": {}} for claim in templates}
        return claims | {volume["name"]: {k: v for k, v in volume.items() if k != "name"} for volume in self.pod["volumes"]}


def read_manifest(folder: Path) -> Manifest:
    """That of the folder."""
    documents = yaml.safe_load_all((folder / "kubernetes.yaml").read_text(encoding="utf-8"))
    (found,) = (document for document in documents if document["kind"] == "StatefulSet")
    return Manifest(found["spec"])


def violations(manifest: Manifest) -> Iterator[str]:
    """What the restricted standard does not allow, by the names of the fields; for Linux, and no fields of old releases."""
    pod = manifest.pod
    of_pod = pod.get("securityContext", {})
    yield from (name for name in _OF_THE_NODE if pod.get(name))
    yield from (f"volume {name}" for name, volume in manifest.volumes.items() if not set(volume) <= _VOLUMES)
    if of_pod.get("sysctls"):
        yield "sysctls"
    for container in (*pod["containers"], *pod.get("initContainers", []), *pod.get("ephemeralContainers", [])):
        own = container.get("securityContext", {})
        # What a container says is valid, else what its pod says.
        both = of_pod | own
        if both.get("runAsNonRoot") is not True:
            yield "runAsNonRoot"
        if both.get("runAsUser") == 0:
            yield "runAsUser"
        if both.get("seccompProfile", {}).get("type") not in _SECCOMP:
            yield "seccompProfile"
        if both.get("seLinuxOptions") or both.get("appArmorProfile", {"type": "RuntimeDefault"})["type"] == "Unconfined":
            yield "seLinuxOptions, appArmorProfile"
        if own.get("privileged"):
            yield "privileged"
        if own.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation"
        if own.get("procMount", "Default") != "Default":
            yield "procMount"
        capabilities = own.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []) or not set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"}:
            yield "capabilities"
        if any(port.get("hostPort") for port in container.get("ports", [])):
            yield "hostPort"
