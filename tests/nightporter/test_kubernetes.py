"""``deploy/kubernetes``, as far as it can be checked without a cluster: its form, our settings and commands in it, its
walls, and that what names something names what is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.nightporter.deployments import IMAGE_USER, ROOT, Service, make_secrets, parse

FOLDER = ROOT / "deploy/kubernetes"
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.yaml") if path.stem != "kustomization")
BUILDS = ("base", "overlays/gvisor", "overlays/with-stores")
VERSIONS = ("1.33", "1.37")
Manifest = dict[str, Any]


def read(name: str) -> list[Manifest]:
    return [one for one in yaml.safe_load_all((FOLDER / name).read_text()) if one]


ALL = [manifest for name in FILES for manifest in read(name)]
PODS = {one["metadata"]["name"]: one for one in ALL if one["kind"] in ("Deployment", "StatefulSet")}
STORES = ("postgres", "redis", "s3")


def pod(name: str) -> Manifest:
    found: Manifest = PODS[name]["spec"]["template"]["spec"]
    return found


def labels(name: str) -> dict[str, str]:
    found: dict[str, str] = PODS[name]["spec"]["template"]["metadata"]["labels"]
    return found


def containers(name: str) -> Iterator[Manifest]:
    yield from [*pod(name).get("initContainers", []), *pod(name)["containers"]]


OURS = [(name, one["name"]) for name in PODS for one in containers(name) if one["image"] == "nightporter"]


def container(name: str, which: str) -> Manifest:
    return next(one for one in containers(name) if one["name"] == which)


def of_kind(kind: str) -> list[Manifest]:
    return [one for one in ALL if one["kind"] == kind]


def selects(selector: Manifest, name: str) -> bool:
    """Whether a label selector takes a pod of that name."""
    mine = labels(name)
    for expression in selector.get("matchExpressions", ()):
        assert expression["operator"] == "In"
        if mine.get(expression["key"]) not in expression["values"]:
            return False
    return all(mine.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def service_of(name: str, which: str) -> Service:
    said = container(name, which)
    lines = (FOLDER / "base/nightporter.env").read_text().split()
    environment = dict(line.split("=", 1) for line in lines)
    assert [one["configMapRef"]["name"] for one in said["envFrom"]] == ["nightporter"]
    environment |= {one["name"]: one["value"] for one in said.get("env", ())}
    volume = next(one for one in pod(name)["volumes"] if one["name"] == "secrets")
    where = next(one["mountPath"] for one in said["volumeMounts"] if one["name"] == "secrets")
    secrets = {f"{where}/{item['path']}": item["key"] for item in volume["secret"]["items"]}
    return Service(which, said["args"], environment, secrets)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", FILES)
def test_every_manifest_has_the_form_that_kubernetes_takes(name: str, version: str) -> None:
    for manifest in read(name):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_slip_in_one_would_be_seen() -> None:
    slipped = json.loads(json.dumps(PODS["runner"]))
    slipped["spec"]["template"]["spec"]["containers"][0]["securityContext"]["procMnt"] = "Unmasked"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(slipped, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("name", BUILDS)
def test_kustomize_builds_it_to_valid_manifests(name: str) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not here")
    built = subprocess.run([kubectl, "kustomize", FOLDER / name], check=True, capture_output=True, text=True).stdout
    manifests = list(yaml.safe_load_all(built))
    for manifest in manifests:
        kubernetes_validate.validate(manifest, VERSIONS[-1], strict=True)
    kinds = {(one["kind"], one["metadata"]["name"]): one for one in manifests}
    gateway = kinds["Deployment", "gateway"]["spec"]["template"]["spec"]
    config = kinds["ConfigMap", gateway["containers"][0]["envFrom"][0]["configMapRef"]["name"]]
    assert config["data"]["NIGHTPORTER_VOLUMES_URL"] == "s3://nightporter/volumes"
    assert ("NIGHTPORTER_STORAGE__ENDPOINT" in config["data"]) is (name == "overlays/with-stores")
    assert gateway.get("runtimeClassName") == ("gvisor" if name == "overlays/gvisor" else None)


def test_what_kustomize_reads_is_there_and_nothing_is_left_out() -> None:
    named = set()
    for path in FOLDER.rglob("kustomization.yaml"):
        said = yaml.safe_load(path.read_text())
        for resource in said["resources"]:
            found = (path.parent / resource).resolve()
            assert found.exists(), resource
            named.add(found)
        for generator in said.get("configMapGenerator", ()):
            assert all((path.parent / env).is_file() for env in generator.get("envs", ()))
    assert {(FOLDER / name).resolve() for name in FILES} - named == {(FOLDER / "ingress.example.yaml").resolve()}


@pytest.mark.parametrize(("name", "which"), OURS)
def test_our_settings_and_commands_are_real(name: str, which: str, tmp_path: Path) -> None:
    made = make_secrets(tmp_path)
    found = service_of(name, which)
    settings = found.settings(tmp_path)
    assert (settings.database_url, settings.redis_url) == (made["database_url"], made["redis_url"])
    assert settings.volumes_url == "s3://nightporter/volumes"
    assert (settings.http.token == made["token"]) is (which == "gateway")
    parse(found.command)
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if command := container(name, which).get(probe, {}).get("exec"):
            parse(command["command"])


def test_what_the_overlay_adds_is_a_setting_too(tmp_path: Path) -> None:
    make_secrets(tmp_path)
    said = yaml.safe_load((FOLDER / "overlays/with-stores/kustomization.yaml").read_text())
    (generated,) = said["configMapGenerator"]
    found = service_of("runner", "runner")
    added = dict(line.split("=", 1) for line in generated["literals"])
    settings = Service("runner", (), {**found.environment, **added}, found.secrets).settings(tmp_path)
    (s3,) = (one for one in of_kind("Service") if one["metadata"]["name"] == "s3")
    assert settings.storage.endpoint == f"http://s3:{s3['spec']['ports'][0]['port']}"
    assert settings.storage.allow_http


def test_every_secret_that_is_mounted_is_made_by_the_script(tmp_path: Path) -> None:
    made = make_secrets(tmp_path)
    mounted = set()
    for name in PODS:
        for volume in pod(name)["volumes"]:
            if "secret" in volume:
                assert volume["secret"]["secretName"] == "nightporter"
                mounted |= {item["key"] for item in volume["secret"]["items"]}
    assert mounted == set(made)


@pytest.mark.parametrize("name", PODS)
def test_no_pod_is_privileged(name: str) -> None:
    said = pod(name)
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(said)
    assert not any("hostPath" in volume for volume in said["volumes"])
    assert said["securityContext"]["runAsNonRoot"] is True
    assert said["securityContext"]["runAsUser"] > 0
    assert said["securityContext"]["seccompProfile"]["type"] in ("RuntimeDefault", "Localhost")
    assert said["automountServiceAccountToken"] is False
    assert said["serviceAccountName"] in [one["metadata"]["name"] for one in of_kind("ServiceAccount")]
    for one in containers(name):
        walls = one["securityContext"]
        assert walls["allowPrivilegeEscalation"] is False
        assert walls["capabilities"] == {"drop": ["ALL"]}
        assert walls["readOnlyRootFilesystem"] is True
        assert not {"privileged", "runAsUser", "runAsNonRoot", "seccompProfile"} & set(walls)
        if name != "runner":
            assert not {"procMount", "appArmorProfile"} & set(walls)
        if one["image"] == "nightporter":
            assert said["securityContext"]["runAsUser"] == IMAGE_USER


def test_the_runner_may_unmask_proc_since_it_has_users_of_its_own() -> None:
    """The API server refuses the one without the other; the sandbox needs it, and the profile's six calls."""
    assert pod("runner")["hostUsers"] is False
    assert container("runner", "runner")["securityContext"]["procMount"] == "Unmasked"
    assert pod("runner")["securityContext"]["seccompProfile"]["localhostProfile"].endswith(".json")
    # Containerd reads a profile as the runtime does, and knows no rules that depend on capabilities or kernels.
    for rule in json.loads((ROOT / "deploy/seccomp-bubblewrap.json").read_text())["syscalls"]:
        assert set(rule) <= {"names", "action", "args", "errnoRet", "comment"}


def test_image_and_manifests_agree_on_the_user() -> None:
    assert f"useradd --uid {IMAGE_USER} " in (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("name", PODS)
def test_every_pod_is_bounded_and_probed(name: str) -> None:
    for one in containers(name):
        for bound in ("requests", "limits"):
            assert {"cpu", "memory"} <= set(one["resources"][bound])
        assert one["image"] == "nightporter" or re.fullmatch(r"[\w./-]+:[\d.]+[\w.-]*", one["image"])
        mounted = {mount["name"] for mount in one["volumeMounts"]}
        claims = PODS[name]["spec"].get("volumeClaimTemplates", ())
        for volume in pod(name)["volumes"]:
            if claim := volume.get("persistentVolumeClaim"):
                assert claim["claimName"] in [one["metadata"]["name"] for one in of_kind("PersistentVolumeClaim")]
        assert mounted <= {*(v["name"] for v in pod(name)["volumes"]), *(c["metadata"]["name"] for c in claims)}
    for one in pod(name)["containers"]:
        ports = {port["name"] for port in one.get("ports", ())}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if "httpGet" in one[probe]:
                assert one[probe]["httpGet"]["port"] in ports
    assert PODS[name]["spec"]["selector"]["matchLabels"].items() <= labels(name).items()


def test_the_runner_has_time_to_drain_and_a_name_that_stays(tmp_path: Path) -> None:
    make_secrets(tmp_path)
    drains = service_of("runner", "runner").settings(tmp_path).runner.drain_seconds
    assert 0 < drains <= pod("runner")["terminationGracePeriodSeconds"] - 10
    said = PODS["runner"]
    assert (said["kind"], said["spec"]["replicas"]) == ("StatefulSet", 2)
    (headless,) = (one for one in of_kind("Service") if one["metadata"]["name"] == said["spec"]["serviceName"])
    assert headless["spec"]["clusterIP"] == "None"


def test_services_and_budgets_choose_the_pods_that_they_are_for() -> None:
    for service in of_kind("Service"):
        name = service["metadata"]["name"]
        assert [pod for pod in PODS if selects({"matchLabels": service["spec"]["selector"]}, pod)] == [name]
        ports = {port["name"] for one in pod(name)["containers"] for port in one.get("ports", ())}
        assert {port["targetPort"] for port in service["spec"].get("ports", ())} <= ports
    budgets = of_kind("PodDisruptionBudget")
    assert {one["metadata"]["name"] for one in budgets} == {"gateway", "runner"}
    for budget in budgets:
        chosen = [name for name in PODS if selects(budget["spec"]["selector"], name)]
        assert chosen == [budget["metadata"]["name"]]
        # One may always go, or no node could ever be emptied.
        assert budget["spec"]["maxUnavailable"] == 1
    (ingress,) = of_kind("Ingress")
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    (gateway,) = (one for one in of_kind("Service") if one["metadata"]["name"] == backend["name"])
    assert backend["port"]["name"] in {port["name"] for port in gateway["spec"]["ports"]}


def test_what_no_policy_allows_is_denied() -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind("NetworkPolicy")}
    assert policies["deny-all"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    goes_out = [name for name in PODS if selects(policies["out"]["podSelector"], name)]
    assert goes_out == ["gateway", "runner"]
    for name in STORES:
        reached = [one for one in policies.values() if one.get("ingress") and selects(one["podSelector"], name)]
        assert [rule["from"] for one in reached for rule in one["ingress"]] == [
            [{"podSelector": {"matchLabels": {"nightporter/stores": "yes"}}}]
        ]
    assert not [one for one in policies.values() if one.get("ingress") and selects(one["podSelector"], "runner")]
    for peer in (peer for rule in policies["out"]["egress"] for peer in rule.get("to", ()) if "ipBlock" in peer):
        assert peer["ipBlock"]["except"], "never the cluster's own addresses or a cloud's metadata"


def test_the_runtime_class_is_the_one_that_is_used() -> None:
    (runtime,) = of_kind("RuntimeClass")
    (patch,) = yaml.safe_load((FOLDER / "overlays/gvisor/kustomization.yaml").read_text())["patches"]
    (change,) = yaml.safe_load(patch["patch"])
    assert change["value"] == runtime["metadata"]["name"]
    assert (runtime["handler"], patch["target"]["name"]) == ("runsc", "gateway")
