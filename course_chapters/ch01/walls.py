"""Three walls: which budget a job exceeds first, the cheapest fix, and whether to distribute at all."""

from dataclasses import dataclass, replace

from course_lib.estimate import compute, memory
from course_lib.estimate.facts import Device
from course_lib.estimate.units import require, require_whole

_FULL = 1 + 1e-12  # a load that is 1 up to rounding is a full budget, not a wall
WALLS = ("memory", "compute", "deadline")
FIXES = ("nothing", "shard state", "longer deadline", "more GPUs")  # cheapest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A training run on a cluster, in base units. `device_memory` and `flops_per_s` are those of one device."""

    params: float
    tokens: float  # of the whole run
    step_tokens: float  # of one step, all devices together
    device_memory: float  # B
    flops_per_s: float  # FLOP/s, dense peak
    target_step_s: float
    deadline_s: float
    devices: int = 1
    mfu: float = 0.4
    convention: str = "B"
    sharded: bool = False  # state spread over the devices, else a whole copy on each
    reserve: float = 0.0  # fraction of each device's memory kept for activations and buffers
    latest_s: float | None = None  # the latest possible deadline; None: it cannot move

    def __post_init__(self) -> None:
        for name, unit in (
            ("params", "parameters"),
            ("tokens", "tokens"),
            ("step_tokens", "tokens"),
            ("device_memory", "bytes"),
            ("flops_per_s", "FLOP/s"),
            ("target_step_s", "s"),
            ("deadline_s", "s"),
        ):
            require(name, getattr(self, name), unit)
        require("mfu", self.mfu, "a fraction of one", most=1.0)
        require("reserve", self.reserve, "a fraction of one", most=0.99, open_below=False)
        require_whole("devices", self.devices)
        memory.convention(self.convention)
        if self.latest_s is not None and require("latest_s", self.latest_s, "s") < self.deadline_s:
            raise ValueError(
                f"latest_s is {self.latest_s} s, before the deadline of {self.deadline_s} s; "
                "it is the latest possible deadline."
            )


@dataclass(frozen=True, slots=True)
class Walls:
    """The three loads of a job; 1.0 is a full budget, and anything above it is a wall."""

    memory: float  # training state on one device / its usable memory
    compute: float  # time of one step / target step time
    deadline: float  # time of the run / deadline

    @property
    def loads(self) -> dict[str, float]:
        """The loads by name, in the order of `WALLS`."""
        return {name: getattr(self, name) for name in WALLS}

    @property
    def hit(self) -> tuple[str, ...]:
        """The walls that are hit, heaviest load first."""
        return tuple(sorted((w for w in WALLS if self.loads[w] > _FULL), key=lambda wall: -self.loads[wall]))

    @property
    def first(self) -> str | None:
        """The wall with the heaviest load, None if all loads are at most 1.

        All three loads are proportional to the number of parameters, so this is also the wall that a growing
        model hits first.
        """
        return self.hit[0] if self.hit else None


@dataclass(frozen=True, slots=True)
class Fix:
    """The cheapest fix that leaves a job no wall, and the job after it."""

    name: str  # one of FIXES
    wall: str | None
    job: Job

    @property
    def devices(self) -> int:
        """Devices after the fix."""
        return self.job.devices


def walls(job: Job) -> Walls:
    """The loads of a job on its three budgets.

    Memory counts only training state and the reserve; every device holds a copy unless the job is sharded.
    Compute and deadline count 6 FLOP per parameter and token at the given MFU, with perfect scaling.
    """
    shards = job.devices if job.sharded else 1
    state = memory.state_bytes(job.params, job.convention) / shards
    rate = (job.flops_per_s, job.mfu, job.devices)
    return Walls(
        memory=state / (job.device_memory * (1 - job.reserve)),
        compute=compute.train_seconds(job.params, job.step_tokens, *rate) / job.target_step_s,
        deadline=compute.train_seconds(job.params, job.tokens, *rate) / job.deadline_s,
    )


def apply_fix(job: Job, name: str) -> Job:
    """The job after a fix; "more GPUs" also shards the state and adds the fewest that leave no wall."""
    if name == "nothing":
        return job
    if name == "shard state":
        return replace(job, sharded=True)
    if name == "longer deadline":
        return replace(job, deadline_s=job.latest_s or job.deadline_s)
    if name == "more GPUs":
        return replace(job, sharded=True, devices=_enough_devices(job))
    raise ValueError(f"No fix {name!r}; choose from {', '.join(FIXES)}.")


def cheapest_fix(job: Job) -> Fix:
    """The first of `FIXES` that by itself leaves no wall.

    The order is by price: nothing; sharding, which costs traffic but no device; a later date, which costs no
    device-hours either; more devices, which cost money.
    """
    wall = walls(job).first
    for name in FIXES:
        fixed = apply_fix(job, name)
        if walls(fixed).first is None:
            return Fix(name, wall, fixed)
    raise AssertionError("more GPUs always leave no wall")  # every load falls as 1/devices once sharded


def _enough_devices(job: Job) -> int:
    """The fewest devices, no fewer than now, that leave no wall when the state is sharded."""
    alone = max(walls(replace(job, devices=1, sharded=True)).loads.values())
    return max(job.devices, int(-(-(alone * (1 - 1e-12)) // 1)))


# --- do you need this at all? --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Response:
    """The first response to one wall, and the chapter that teaches it."""

    wall: str
    question: str
    what: str
    chapter: str


RESPONSES: dict[str, Response] = {
    one.wall: one
    for one in (
        Response(
            "memory",
            "Does the training state fit one device?",
            "shard the state over several devices",
            "08_sharded_data_parallel",
        ),
        Response(
            "deadline",
            "Is one device fast enough for the deadline?",
            "replicate the model and split the data",
            "07_data_parallel",
        ),
        Response(
            "latency",
            "Does one device produce a user's tokens fast enough?",
            "split each replica over several devices",
            "16_serving",
        ),
        Response("traffic", "Can one replica serve all requests?", "replicate the server", "16_serving"),
    )
}


@dataclass(frozen=True, slots=True)
class Triage:
    """The answer to "do you need this at all?": loads by wall, the walls hit, and the first response."""

    loads: dict[str, float]
    devices: int  # the fewest that training needs for memory and deadline together
    replicas: int  # copies of the server that the requests need; 0 if nothing is served

    @property
    def hit(self) -> tuple[str, ...]:
        """The walls that are hit, in the order in which a project hits them."""
        return tuple(wall for wall in RESPONSES if self.loads.get(wall, 0.0) > _FULL)

    @property
    def first(self) -> Response | None:
        """The first response; None: stay on one device, do not distribute."""
        return RESPONSES[self.hit[0]] if self.hit else None

    @property
    def advice(self) -> str:
        """One sentence."""
        if self.first is None:
            return (
                "No wall is hit: stay on one device. Distribution costs money and time, and this job does not need it."
            )
        return f"The {self.first.wall} wall is hit: {self.first.what} (chapter {self.first.chapter[:2]})."


def triage(
    params: float,
    device: Device,
    *,
    tokens: float = 0.0,
    deadline_s: float = 0.0,
    mfu: float = 0.4,
    convention: str = "B",
    qps: float = 0.0,
    tokens_per_request: float = 500.0,
    tokens_per_s_per_user: float = 0.0,
    serving_utilization: float = 0.3,
) -> Triage:
    """Which walls one device hits, in the order memory, deadline, latency, traffic.

    Training (checked when tokens > 0): memory = state / device memory; deadline = time on one device at
    `mfu` / deadline. Serving (checked when qps > 0): latency = the larger of 16-bit weights / device memory
    and the wanted tokens per second and user × seconds to read all weights once; traffic = requests × tokens
    × 2 FLOP per parameter / (peak × `serving_utilization`). Activations, the KV cache and batching of users
    are left out, so a load slightly below 1 may still not fit.
    """
    params = require("params", params, "parameters")
    loads: dict[str, float] = {}
    devices, replicas = 1, 0
    if require("tokens", tokens, "tokens", open_below=False):
        state = memory.state_bytes(params, convention)
        loads["memory"] = state / device.memory
        alone = compute.train_seconds(params, tokens, device.dense_flops, mfu)
        loads["deadline"] = alone / require("deadline_s", deadline_s, "s")
        devices = max(
            memory.fewest_devices(state, device.memory),
            compute.devices_for_deadline(params, tokens, device.dense_flops, mfu, deadline_s),
        )
    if require("qps", qps, "requests/s", open_below=False):
        weights = memory.weights_bytes(params)
        wanted = require("tokens_per_s_per_user", tokens_per_s_per_user, "tokens/s", open_below=False)
        loads["latency"] = max(weights / device.memory, wanted * weights / device.bandwidth)
        asked = qps * require("tokens_per_request", tokens_per_request, "tokens") * compute.FORWARD * params
        share = require("serving_utilization", serving_utilization, "a fraction of one", most=1.0)
        loads["traffic"] = asked / (device.dense_flops * share)
        replicas = memory.fewest_devices(loads["traffic"], 1.0)
    return Triage(loads, devices, replicas)
