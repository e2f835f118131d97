# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The example for Kubernetes keeps to the restricted Pod Security Standard, and the check sees what does not."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from dropin.kubernetes import Manifest, read_manifest, violations
from redstart_cli.layout import this_layout

FOLDER = this_layout().repo / "Docker"
Pod = dict[str, Any]


def of_pod(pod: Pod, **settings: object) -> None:
    pod["securityContext"] |= settings


def of_server(pod: Pod, **settings: object) -> None:
    pod["containers"][0]["securityContext"] |= settings


def test_the_example_is_restricted() -> None:
    assert list(violations(read_manifest(FOLDER))) == []


def test_the_example_has_more_than_that() -> None:
    manifest = read_manifest(FOLDER)
    assert manifest.server["securityContext"]["readOnlyRootFilesystem"] is True
    assert {mount["name"] for mount in manifest.server["volumeMounts"]} == set(manifest.volumes)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda pod: pod.update(hostNetwork=True), "hostNetwork"),
        (lambda pod: pod.update(hostPID=True), "hostPID"),
        (lambda pod: pod.update(hostIPC=True), "hostIPC"),
        (lambda pod: pod["volumes"].append({"name": "node", "hostPath": {"path": "/"}}), "volume node"),
        (lambda pod: of_pod(pod, runAsNonRoot=False), "runAsNonRoot"),
        (lambda pod: of_server(pod, runAsNonRoot=False), "runAsNonRoot"),
        (lambda pod: of_pod(pod, runAsUser=0), "runAsUser"),
        (lambda pod: of_pod(pod, seccompProfile={"type": "Unconfined"}), "seccompProfile"),
        (lambda pod: pod["securityContext"].pop("seccompProfile"), "seccompProfile"),
        (lambda pod: of_pod(pod, sysctls=[{"name": "kernel.msgmax", "value": "1"}]), "sysctls"),
        (lambda pod: of_server(pod, privileged=True), "privileged"),
        (lambda pod: pod["containers"][0]["securityContext"].pop("allowPrivilegeEscalation"), "allowPrivilegeEscalation"),
        (lambda pod: of_server(pod, capabilities={"drop": ["SETUID"]}), "capabilities"),
        (lambda pod: of_server(pod, capabilities={"drop": ["ALL"], "add": ["CHOWN"]}), "capabilities"),
        (lambda pod: of_server(pod, procMount="Unmasked"), "procMount"),
        (lambda pod: of_server(pod, appArmorProfile={"type": "Unconfined"}), "seLinuxOptions, appArmorProfile"),
        (lambda pod: pod["containers"][0]["ports"].append({"containerPort": 1, "hostPort": 1}), "hostPort"),
        (lambda pod: pod.update(initContainers=[deepcopy(pod["containers"][0]) | {"securityContext": {}}]),
         "allowPrivilegeEscalation, capabilities"),
    ],
)  # fmt: skip
def test_what_is_not_restricted_is_seen(change: Callable[[Pod], object], wanted: str) -> None:
    manifest = Manifest(deepcopy(read_manifest(FOLDER).spec))
    change(manifest.pod)
    assert ", ".join(violations(manifest)) == wanted
