"""One job as a Slurm batch script and as an indexed Job of Kubernetes, and what is wrong with such a Job.

The Job is checked against the fields of the OpenAPI specification of Kubernetes (release 1.36, as in
kubernetes-client/python at commit 02465849, `kubernetes/swagger.json.unprocessed`): batch/v1 Job and JobSpec, and of
core/v1 the parts of a pod that a training uses.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from course_lib.estimate.units import require_whole

RELEASE = "1.36"
FIELDS: Mapping[str, str] = {  # of each type: its fields and their types; ! marks a required one
    "Job": "apiVersion:string kind:string metadata:ObjectMeta spec:JobSpec status:object",
    "JobSpec": "activeDeadlineSeconds:integer backoffLimit:integer backoffLimitPerIndex:integer completionMode:string "
    "completions:integer managedBy:string manualSelector:boolean maxFailedIndexes:integer parallelism:integer "
    "podFailurePolicy:object podReplacementPolicy:string selector:object successPolicy:object suspend:boolean "
    "template!:PodTemplateSpec ttlSecondsAfterFinished:integer",
    "PodTemplateSpec": "metadata:ObjectMeta spec:PodSpec",
    "ObjectMeta": "annotations:object creationTimestamp:string deletionGracePeriodSeconds:integer "
    "deletionTimestamp:string finalizers:array generateName:string generation:integer labels:object "
    "managedFields:array name:string namespace:string ownerReferences:array resourceVersion:string selfLink:string "
    "uid:string",
    "PodSpec": "activeDeadlineSeconds:integer affinity:object automountServiceAccountToken:boolean "
    "containers![]:Container dnsConfig:object dnsPolicy:string enableServiceLinks:boolean ephemeralContainers:array "
    "hostAliases:array hostIPC:boolean hostNetwork:boolean hostPID:boolean hostUsers:boolean hostname:string "
    "hostnameOverride:string imagePullSecrets:array initContainers[]:Container nodeName:string nodeSelector:object "
    "os:object overhead:object preemptionPolicy:string priority:integer priorityClassName:string "
    "readinessGates:array resourceClaims:array resources:object restartPolicy:string runtimeClassName:string "
    "schedulerName:string schedulingGates:array schedulingGroup:object securityContext:object serviceAccount:string "
    "serviceAccountName:string setHostnameAsFQDN:boolean shareProcessNamespace:boolean subdomain:string "
    "terminationGracePeriodSeconds:integer tolerations:array topologySpreadConstraints:array volumes:array",
    "Container": "args:array command:array env[]:EnvVar envFrom:array image:string imagePullPolicy:string "
    "lifecycle:object livenessProbe:object name!:string ports:array readinessProbe:object resizePolicy:array "
    "resources:object restartPolicy:string restartPolicyRules:array securityContext:object startupProbe:object "
    "stdin:boolean stdinOnce:boolean terminationMessagePath:string terminationMessagePolicy:string tty:boolean "
    "volumeDevices:array volumeMounts:array workingDir:string",
    "EnvVar": "name!:string value:string valueFrom:object",
}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
PORT = 29500


@dataclass(frozen=True)
class Job:
    """`nodes` of `gpus` for `minutes`; `command` is what torchrun starts, a module or a file with its flags."""

    name: str
    nodes: int
    gpus: int
    minutes: int
    command: str
    image: str = "registry.example/train:1"

    def __post_init__(self) -> None:
        for field in ("nodes", "gpus", "minutes"):
            require_whole(field, getattr(self, field))
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?", self.name):
            raise ValueError(f"name is {self.name!r}; Kubernetes takes lower-case letters, digits and inner hyphens.")
        if not self.command.strip():
            raise ValueError("command is empty; give a module or a file.")

    def torchrun(self, rank: str, master: str) -> str:
        """The command of one node."""
        return (
            f"python -m torch.distributed.run --nnodes {self.nodes} --nproc-per-node {self.gpus} --node-rank {rank} "
            f"--master-addr {master} --master-port {PORT} {self.command}"
        )


def slurm(job: Job) -> str:
    """The batch script: one task on each node, which starts torchrun."""
    hours, minutes = divmod(job.minutes, 60)
    options = [
        f"job-name={job.name}",
        f"nodes={job.nodes}",
        "ntasks-per-node=1",
        f"gpus-per-node={job.gpus}",
        "exclusive",
        f"time={hours:02}:{minutes:02}:00",
        "requeue",
        f"output={job.name}-%j.log",
    ]
    lines = ["#!/bin/bash", *(f"#SBATCH --{option}" for option in options), "set -eu"]
    lines.append('export MASTER="$(scontrol show hostnames "${SLURM_JOB_NODELIST:?}" | head -n 1)"')
    lines.append(f"srun bash -c {shlex.quote(job.torchrun('$SLURM_NODEID', '$MASTER'))}")
    return "\n".join(lines) + "\n"


def kubernetes(job: Job) -> dict[str, object]:
    """The indexed Job: a pod for each node, numbered by JOB_COMPLETION_INDEX; pod 0 is where the others meet.

    It needs a headless Service of the same name, so that pods find each other by their names.
    """
    container = {
        "name": "train",
        "image": job.image,
        "command": ["bash", "-c", job.torchrun("$JOB_COMPLETION_INDEX", f"{job.name}-0.{job.name}")],
        "resources": {"limits": {"nvidia.com/gpu": job.gpus}},
    }
    pod = {"restartPolicy": "Never", "subdomain": job.name, "containers": [container]}
    spec = {
        "completionMode": "Indexed",
        "completions": job.nodes,
        "parallelism": job.nodes,
        "backoffLimit": 0,
        "activeDeadlineSeconds": 60 * job.minutes,
        "template": {"spec": pod},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job.name}, "spec": spec}


def kubernetes_faults(job: Mapping[str, object]) -> list[str]:
    """Each field of a Job that the published schema does not have, that is of another type, or that is missing; and
    what makes it no gang of numbered pods."""
    faults = list(_faults("Job", job, ""))
    spec = job.get("spec")
    if (job.get("apiVersion"), job.get("kind")) != ("batch/v1", "Job"):
        faults.append("it is no batch/v1 Job")
    if isinstance(spec, dict) and spec.get("completionMode") != "Indexed":
        faults.append("spec.completionMode is not Indexed: pods have no number")
    if isinstance(spec, dict) and spec.get("parallelism") != spec.get("completions"):
        faults.append("spec.parallelism is not spec.completions: pods would wait for pods that have not started")
    return faults


def _faults(kind: str, given: Mapping[str, object], path: str) -> Iterator[str]:
    known: dict[str, tuple[str, bool, bool]] = {}
    for word in FIELDS[kind].split():
        name, _, of = word.partition(":")
        known[name.rstrip("[]").rstrip("!")] = of, name.endswith("[]"), "!" in name
    yield from (f"{path}{name} is missing" for name, (_, _, needed) in known.items() if needed and name not in given)
    for name, value in given.items():
        if name not in known:
            yield f"{path}{name} is no field of {kind}"
            continue
        of, several, _ = known[name]
        expected = "array" if several else "object" if of in FIELDS else of
        if not isinstance(value, _TYPES[expected]) or (expected == "integer" and isinstance(value, bool)):
            yield f"{path}{name} is no {expected}"
        elif of in FIELDS:
            inside = value if isinstance(value, list) else [value]
            for at, each in enumerate(inside):
                yield from _faults(of, each, f"{path}{name}[{at}]." if several else f"{path}{name}.")
