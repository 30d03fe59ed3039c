"""`mixedmode deploy`: what systemd and Kubernetes read in the files."""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from mixedmode.cli.deploy import _for_systemd
from tests.cli.shell import command
from tests.cli.test_log_options import JOB


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    file = tmp_path / "job of 100%.yaml"
    file.write_text(
        JOB.replace("./in", str(tmp_path / "in")).replace(
            "runtime-mode: batch", "runtime-mode: mixed, checkpointing: {dir: /state/ckpt}"
        )
        + 'spark: {hadoop.fs.s3a.secret.key: "${env:STORE_KEY}"}\n'
        + "serve: {listen: 0.0.0.0:8443, cert: /tls/cert.pem, key: /tls/key.pem}\n"
    )
    return file


def test_the_unit_runs_the_job_restarts_it_after_a_crash_and_stops_the_driver_alone(job: Path) -> None:
    result = command("deploy", "systemd", job, "--set", "name=a $b")
    assert result.exit_code == 0, result.output
    unit = configparser.RawConfigParser(strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(result.stdout)
    service = unit["Service"]
    written = service["ExecStart"].replace("%%", "%").replace("$$", "$")
    expected = [sys.executable, "-m", "mixedmode", "run", str(job), "--log-format", "text", "--set", "name=a $b"]
    assert shlex.split(written) == expected
    assert (service["Restart"], service["RestartPreventExitStatus"], service["KillMode"]) == (
        "on-failure",
        "2",
        "mixed",
    )
    assert service["WorkingDirectory"] == f"{job.parent}/"


@pytest.mark.parametrize(
    ("part", "written"), [("a", "a"), ("a b", '"a b"'), ("50%", "50%%"), ('"$x"\\', '"\\"$$x\\"\\\\"')]
)
def test_an_argument_is_written_as_systemd_reads_it(part: str, written: str) -> None:
    assert _for_systemd(part) in {written, f'"{written}"'}


def documents(job: Path, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    result = command("deploy", "kubernetes", job, "--image", "jobs:3", *options)
    assert result.exit_code == 0, result.output
    config, deployment = yaml.safe_load_all(result.stdout)
    return config, deployment


def args_of(driver: Mapping[str, Any]) -> list[str]:
    """The arguments as Kubernetes passes them on: $(NAME) is a variable of the container, and $$ is a $."""
    values = {one["name"]: "a secret" for one in driver["env"]}

    def written(found: re.Match[str]) -> str:
        return "$" if found[1] is None else values.get(found[1], found[0])

    return [re.sub(r"\$(?:\$|\(([^)]*)\))", written, part) for part in driver["args"]]


def test_the_manifest_has_the_job_file_one_driver_its_probes_and_its_secrets(job: Path) -> None:
    config, deployment = documents(job, "--log-level", "info")
    assert config["data"]["job.yaml"] == job.read_text()
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    pod = deployment["spec"]["template"]
    for document in (config, deployment):
        kubernetes_validate.validate(document, "1.34", strict=True)  # the schema of Kubernetes' API
    assert pod["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
    (driver,) = pod["spec"]["containers"]
    assert driver["image"] == "jobs:3"
    assert driver["args"] == ["run", "/etc/mixedmode/job.yaml", "--log-format", "json", "--log-level", "info"]
    assert driver["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": 8443, "scheme": "HTTPS"}
    secrets = {one["name"]: one["valueFrom"]["secretKeyRef"] for one in driver["env"]}
    assert list(secrets) == ["STORE_KEY", "MIXEDMODE_SERVE_READ_TOKEN", "MIXEDMODE_SERVE_CONTROL_TOKEN"]
    assert secrets["STORE_KEY"] == {"name": "totals-secrets", "key": "STORE_KEY"}
    assert [mount["mountPath"] for mount in driver["volumeMounts"]] == ["/etc/mixedmode", "/state"]
    assert {one["name"] for one in driver["volumeMounts"]} == {one["name"] for one in pod["spec"]["volumes"]}


def test_a_job_with_its_state_in_an_object_store_needs_no_volume_and_without_a_server_there_are_no_probes(
    job: Path,
) -> None:
    text = job.read_text().replace("/state/ckpt", "s3://bucket/ckpt")
    job.write_text("\n".join(line for line in text.splitlines() if not line.startswith("serve")))
    (driver,) = documents(job)[1]["spec"]["template"]["spec"]["containers"]
    assert len(driver["volumeMounts"]) == 1
    assert "readinessProbe" not in driver
    assert [one["name"] for one in driver["env"]] == ["STORE_KEY"]


def test_the_manifest_is_for_the_job_that_the_options_make(job: Path) -> None:
    """The options win over the file in the pod, so the volumes, probes and secrets must be theirs."""
    job.write_text("\n".join(line for line in job.read_text().splitlines() if not line.startswith("serve")))
    job.write_text(job.read_text().replace("checkpointing: {dir: /state/ckpt}", "checkpointing: {interval: 1s}"))
    options = ["--set", "execution.checkpointing.dir=s3://bucket/ckpt", "--set", "spark.hadoop.x=${env:OTHER}"]
    served = ["--serve", "0.0.0.0:8443", "--cert", "/tls/cert.pem", "--key", "/tls/key.pem"]
    (driver,) = documents(job, *options, *served)[1]["spec"]["template"]["spec"]["containers"]
    assert args_of(driver) == ["run", "/etc/mixedmode/job.yaml", "--log-format", "json", *options, *served]
    assert [mount["mountPath"] for mount in driver["volumeMounts"]] == ["/etc/mixedmode"]
    assert driver["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": 8443, "scheme": "HTTPS"}
    tokens = ["MIXEDMODE_SERVE_READ_TOKEN", "MIXEDMODE_SERVE_CONTROL_TOKEN"]
    assert [one["name"] for one in driver["env"]] == ["STORE_KEY", "OTHER", *tokens]
    relative = command("deploy", "kubernetes", job, *options, "--set", "sources.sales.path=./in")
    assert "relative to its file" in relative.stderr


def test_a_volume_is_not_mounted_over_the_whole_image(job: Path) -> None:
    refused = command("deploy", "kubernetes", job, "--set", "execution.checkpointing.dir=/ckpt")
    assert refused.exit_code == 2
    assert "such as /state/ckpt. folder=/ckpt" in refused.stderr


def test_a_batch_job_and_an_unknown_option_are_refused(job: Path) -> None:
    job.write_text(JOB)
    assert "keeps no checkpoints" in command("deploy", "kubernetes", job).stderr
    assert command("deploy", "systemd", job, "--sevre", "1").exit_code == 2
    assert command("deploy", "nomad", job).exit_code == 2


def test_relative_paths_are_refused_for_a_pod(job: Path) -> None:
    job.write_text(job.read_text().replace(f"{job.parent}/in", "./in"))
    refused = command("deploy", "kubernetes", job)
    assert refused.exit_code == 2
    assert "relative to its file" in refused.stderr
    assert refused.stderr.rstrip().endswith("settings=sources")


def test_an_option_reaches_the_pod_as_it_was_written(job: Path) -> None:
    options = ["--set", "name=$(STORE_KEY) $$ $", "--set", "spark.hadoop.x=${env:OTHER}$$(STORE_KEY)"]
    (driver,) = documents(job, *options)[1]["spec"]["template"]["spec"]["containers"]
    assert args_of(driver)[4:] == options


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("odd", ["a", "b \\", '$x "y" %i ', "'", ";"])
def test_systemd_finds_no_mistake_in_the_unit(job: Path, tmp_path: Path, odd: str) -> None:
    unit, folder = tmp_path / "totals.service", tmp_path / odd
    folder.mkdir()
    job = job.rename(folder / f"{odd}.yaml")
    unit.write_text(command("deploy", "systemd", job, "--set", f"name=job {odd}").stdout)
    found = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert "totals.service" not in found.stderr
    assert str(unit) not in found.stderr
