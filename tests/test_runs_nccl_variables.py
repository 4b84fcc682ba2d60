"""What the doctor says of the variables of NCCL, Gloo and torch: on machines that are made up."""

from course_runs import nccl_variables, preflight
from tests.tables import each_of

NETWORKS = ["lo", "eth0", "eth1", "ib0", "docker0"]
ADAPTERS = {"mlx5_0": True, "mlx5_1": True, "mlx5_2": False}


def line(adapters=None, **environment):
    return preflight.nccl_line(environment, NETWORKS, bool(adapters), adapters)


@each_of(
    "text, picked",
    ("eth", ["eth0", "eth1"]),
    ("eth1,ib", ["eth1", "ib0"]),
    ("=eth0", ["eth0"]),
    ("=eth", []),
    ("^docker,lo", ["eth0", "eth1", "ib0"]),
    ("^=eth0", ["lo", "eth1", "ib0", "docker0"]),
    ("wlan", []),
)
def test_a_list_of_networks_is_read_as_nccl_reads_it(text, picked):
    assert nccl_variables.chosen(text, NETWORKS) == picked


@each_of(
    "name, value, found, way_out",
    ("NCCL_SOCKET_IFNAME", "ens5", "NCCL_SOCKET_IFNAME=ens5 is no network of this machine (lo, eth0", "=eth0"),
    ("NCCL_SOCKET_IFNAME", "lo", "selects lo, which ends inside this machine", "export NCCL_SOCKET_IFNAME=eth0"),
    ("NCCL_SOCKET_IFNAME", "docker", "selects docker0, which ends inside", "export NCCL_SOCKET_IFNAME=eth0"),
    ("GLOO_SOCKET_IFNAME", "eth", "GLOO_SOCKET_IFNAME=eth is no network", "export GLOO_SOCKET_IFNAME=eth0"),
    ("NCCL_IB_HCA", "mlx4", "NCCL_IB_HCA=mlx4 is no adapter of this machine (mlx5_0", "=mlx5_0,mlx5_1"),
    ("NCCL_IB_HCA", "mlx5_2:1", "no port of mlx5_2 is active", "export NCCL_IB_HCA=mlx5_0,mlx5_1"),
    ("NCCL_P2P_DISABLE", "1", "degraded: NCCL_P2P_DISABLE is set", "unset NCCL_P2P_DISABLE"),
    ("NCCL_P2P_LEVEL", "LOC", "degraded: NCCL_P2P_LEVEL is set", "unset NCCL_P2P_LEVEL"),
    ("NCCL_IB_DISABLE", "1", "degraded: NCCL_IB_DISABLE is set", "unset NCCL_IB_DISABLE"),
)
def test_a_variable_that_fits_another_machine_is_named_with_what_fits_this_one(name, value, found, way_out):
    said = line(ADAPTERS, **{"NCCL_IB_HCA": "^mlx5_2", name: value})
    assert said.state == "warn" and found in said.found and way_out in said.way_out


def test_an_adapter_without_an_active_port_is_left_out():
    said = line(ADAPTERS)
    assert said.state == "warn" and "no port of mlx5_2" in said.found
    assert said.way_out == "export NCCL_IB_HCA=mlx5_0,mlx5_1"
    assert line({"mlx5_2": False}).state == "ok", "without another adapter there is nothing to choose"


@each_of(
    "environment",
    {},
    {"NCCL_SOCKET_IFNAME": "eth"},
    {"NCCL_SOCKET_IFNAME": "^docker,lo"},
    {"GLOO_SOCKET_IFNAME": "eth0"},
    {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"},
    {"NCCL_P2P_DISABLE": "0", "NCCL_P2P_LEVEL": "NVL"},
)
def test_what_fits_this_machine_is_no_warning(environment):
    said = line({"mlx5_0": True, "mlx5_1": True}, **environment)
    assert said.state == "ok" and not said.way_out


@each_of(
    "name, value",
    ("NCCL_DEBUG", "INFO"),
    ("NCCL_DEBUG", "trace"),
    ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),
    ("CUDA_LAUNCH_BLOCKING", "1"),
    ("TORCH_NCCL_BLOCKING_WAIT", "1"),
    ("NCCL_ALGO", "Ring"),
    ("NCCL_PROTO", "Simple"),
)
def test_what_a_search_for_an_error_left_on_is_named(name, value):
    said = preflight.debugging_line({name: value, "HOME": "/root"})
    assert said.state == "warn" and f"{name}={value}" in said.found
    assert said.way_out == f"unset {name} before you measure"


def test_warnings_and_versions_may_stay_on():
    quiet = {"NCCL_DEBUG": "WARN", "TORCH_DISTRIBUTED_DEBUG": "OFF", "CUDA_LAUNCH_BLOCKING": "0"}
    assert preflight.debugging_line(quiet).state == "ok"
    assert preflight.debugging_line({"NCCL_DEBUG": "VERSION"}).state == "ok"


def test_adapters_and_their_ports_are_read_from_the_system(tmp_path):
    for name, states in (
        ("mlx5_0", ["4: ACTIVE\n"]),
        ("mlx5_1", ["1: DOWN\n", "4: ACTIVE\n"]),
        ("mlx5_2", ["2: INIT\n"]),
    ):
        for port, state in enumerate(states, 1):
            path = tmp_path / name / "ports" / str(port) / "state"
            path.parent.mkdir(parents=True)
            path.write_text(state)
    assert preflight._adapters(tmp_path) == {"mlx5_0": True, "mlx5_1": True, "mlx5_2": False}
    assert preflight._adapters(tmp_path / "none") == {}


def test_the_doctor_shows_both_lines_where_there_are_gpus(monkeypatch):
    monkeypatch.setattr(preflight, "gpus", lambda: [preflight.Gpu("NVIDIA H100 80GB HBM3")])
    monkeypatch.setattr(preflight, "_interfaces", lambda: NETWORKS)
    monkeypatch.setattr(preflight, "_adapters", lambda: ADAPTERS)
    monkeypatch.setattr(preflight, "_shared_memory", lambda: 64e6)
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "ens5")
    found = {each.what: each for each in preflight.lines(measure=False)}
    assert "ens5 is no network" in found["NCCL"].found and "NCCL_DEBUG=INFO" in found["debug settings"].found
    assert found["shared memory"].state == "warn" and "--shm-size" in found["shared memory"].way_out
