"""`mixedmode deploy systemd|kubernetes JOB`: files by which a service manager runs a job. Pure, but for the job file.

A manager starts the job again after a crash, and a new start resumes it. It must not repeat a start that ends with 2:
the job file or its input is wrong. At a stop, only the driver gets SIGTERM: it finishes its epoch and ends Spark.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.config import JobSpec, load_job
from mixedmode.config.serve import ServeSpec
from mixedmode.errors import InvalidJobError
from mixedmode.secrets import variables_in
from mixedmode.serve.address import CONTROL_TOKEN, READ_TOKEN, parse_address

__all__ = ["kubernetes_manifest", "systemd_unit"]

_STOP_SECONDS = 900  # for the epoch under way
_NOT_A_LABEL = re.compile(r"[^a-z0-9-]+")
_LABEL_LENGTH_MAX = 50
_JOB_FOLDER = "/etc/mixedmode"
_UID = 1000


def systemd_unit(spec: JobSpec, file: Path, python: str, options: Sequence[str]) -> str:
    """Return a unit that runs a job.  options: of `mixedmode run`.

    No line ends with a name of the user: systemd drops blanks at the end of a line, and a backslash continues it.
    """
    command = [python, "-m", "mixedmode", "run", str(file.absolute()), "--log-format", "text", *options]
    texts = " ".join(_for_systemd(part) for part in command)
    return f"""# systemd runs the job {spec.name}. Put this file into /etc/systemd/system or ~/.config/systemd/user.
# Variables of the environment that the job names as ${{env:...}} go into a file for EnvironmentFile=.
[Unit]
Description=The job {spec.name.replace("%", "%%")} of mixedmode
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
WorkingDirectory={str(file.absolute().parent).replace("%", "%%")}/
ExecStart={texts}
Restart=on-failure
RestartSec=10
# 2: the job file or its input is wrong, and a new start ends in the same way
RestartPreventExitStatus=2
# only the driver gets SIGTERM: it finishes the epoch under way, and ends Spark
KillMode=mixed
TimeoutStopSec={_STOP_SECONDS}

[Install]
WantedBy=default.target
"""


def kubernetes_manifest(
    spec: JobSpec,
    text: str,
    image: str,
    options: Sequence[str],
    overrides: Sequence[str] = (),
    server: ServeSpec | None = None,
) -> str:
    """Return a ConfigMap with the job file, and a Deployment of one pod.

    text: of the job file. options: of `mixedmode run`, with the overrides (--set), which `spec` has too. server: what
    the run serves. Raise InvalidJobError for a job without checkpoints, and for one with relative paths, which would
    lead elsewhere in the pod.
    """
    folder = spec.execution.checkpointing.dir
    if folder is None:
        msg = f"a Deployment is for a job that goes on, and this one keeps no checkpoints. name={spec.name}"
        raise InvalidJobError(msg)
    _check_absolute(spec, text, overrides)
    name = _label(spec.name)
    labels = {"app.kubernetes.io/name": "mixedmode", "app.kubernetes.io/instance": name}
    mounts = [{"name": "job", "mountPath": _JOB_FOLDER, "readOnly": True}]
    volumes: list[dict[str, Any]] = [{"name": "job", "configMap": {"name": name}}]
    if "://" not in folder:
        if Path(folder).parent == Path("/"):
            msg = (
                "a pod mounts the folder around the checkpoint folder, and here that is /. Set execution.checkpointing."
                f"dir to a folder in a folder, such as /state{folder}. folder={folder}"
            )
            raise InvalidJobError(msg)
        mounts.append({"name": "checkpoints", "mountPath": str(Path(folder).parent), "readOnly": False})
        volumes.append({"name": "checkpoints", "persistentVolumeClaim": {"claimName": f"{name}-checkpoints"}})
    arguments = ["run", f"{_JOB_FOLDER}/job.yaml", "--log-format", "json", *options]
    container: dict[str, Any] = {
        "name": "driver",
        "image": image,
        "command": ["python", "-m", "mixedmode"],
        "args": [argument.replace("$", "$$") for argument in arguments],  # Kubernetes fills in $(NAME)
        "volumeMounts": mounts,
        **_server(server, name, "\n".join((text, *overrides))),
    }
    pod = {
        "terminationGracePeriodSeconds": _STOP_SECONDS,
        "securityContext": {"runAsNonRoot": True, "runAsUser": _UID, "fsGroup": _UID},
        "containers": [container],
        "volumes": volumes,
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},  # two drivers of a job would fence each other
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}
    found = yaml.safe_dump_all([config | {"data": {"job.yaml": text}}, deployment], sort_keys=False, width=120)
    return f"# Kubernetes runs the job {spec.name}: kubectl apply -f FILE\n{found}"


def _check_absolute(spec: JobSpec, text: str, overrides: Sequence[str]) -> None:
    """Raise InvalidJobError if the job is another one when its file is in another folder."""
    with temporary_folder("deploy-") as folder:
        elsewhere = folder / "job.yaml"
        elsewhere.write_text(text, encoding="utf-8")
        found, wanted = load_job(elsewhere, overrides).spec.as_document(), spec.as_document()
    differing = [name for name in wanted if found.get(name) != wanted[name]]
    if differing:
        msg = (
            "the job has paths that are relative to its file, or code beside it, and both are elsewhere in a pod. Name "
            f"absolute paths or URLs, also `folder` of the code in the image. settings={', '.join(differing)}"
        )
        raise InvalidJobError(msg)


def _server(server: ServeSpec | None, name: str, text: str) -> Mapping[str, Any]:
    """Return the variables of the environment that a text names, and the ports and probes of the server."""
    names = variables_in(text)
    address = None if server is None else parse_address(server.listen)
    if server is None or address is None or address.is_loopback:
        return _variables(name, names)
    scheme = "HTTP" if server.cert is None else "HTTPS"
    probes = {
        probe: {"httpGet": {"path": path, "port": address.port, "scheme": scheme}, "periodSeconds": 10}
        for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz"))
    }
    return {
        **_variables(name, [*names, READ_TOKEN], CONTROL_TOKEN),
        "ports": [{"name": "serve", "containerPort": address.port}],
        # the server begins before the job; until then the machine is checked and the job is read
        "startupProbe": {**probes["livenessProbe"], "failureThreshold": 30},
        **probes,
    }


def _variables(name: str, required: Sequence[str], *optional: str) -> Mapping[str, Any]:
    """Return variables of the environment from the Secret of the job."""
    found = [
        {
            "name": variable,
            "valueFrom": {
                "secretKeyRef": {"name": f"{name}-secrets", "key": variable}
                | ({"optional": True} if variable in optional else {})
            },
        }
        for variable in (*required, *optional)
    ]
    return {"env": found} if found else {}


def _label(name: str) -> str:
    """Return a job's name as Kubernetes allows it.

    >>> _label("Orders by_customer!")
    'orders-by-customer'
    """
    return _NOT_A_LABEL.sub("-", name.lower()).strip("-")[:_LABEL_LENGTH_MAX].strip("-") or "job"


def _for_systemd(part: str) -> str:
    """Return an argument as ExecStart needs it: $ and % have a meaning there, and so have quotes and backslashes."""
    escaped = part.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$").replace('"', '\\"')
    return escaped if shlex.quote(part) == part else f'"{escaped}"'
