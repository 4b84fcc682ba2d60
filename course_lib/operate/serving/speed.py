"""Seconds of an iteration of a served model on one replica of `tp` devices: arithmetic, memory traffic, messages and
overhead.

All weights pass through the arithmetic units once per iteration, however many tokens it computes. Each sequence adds
its own keys and values. So an iteration with few tokens takes the time to *read* weights and caches, and one with many
tokens the time to *compute*. The sustained fractions in `Sustained` were chosen on half of the published rows;
`./course bench serving` shows the errors on the rest.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from course_lib.cluster.collectives import ring_cost
from course_lib.estimate import compute, facts
from course_lib.estimate.facts import Device
from course_lib.estimate.units import US, require, require_whole
from course_lib.operate.serving.kv_cache import kv_numbers_per_token


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """What software reaches of a device's peaks, and what it adds to every iteration."""

    compute: float = 0.56  # of the dense peak, in matrix products with many tokens
    memory: float = 0.80  # of the memory bandwidth
    cache: float = 0.85  # of the memory bandwidth, in attention kernels that read pages
    wire: float = 0.60  # of the link's rate in one direction
    layer_seconds: float = 45 * US  # gaps between the kernels of one layer
    message_seconds: float = 48 * US  # latency of one all-reduce within a server
    host_seconds: float = 0.5e-3  # scheduling and sampling of one iteration
    sequence_seconds: float = 3 * US  # the same, for each sequence


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A model on `tp` devices that hold one copy of it together. Sizes are bytes per number."""

    model: Any  # a name of `facts.models` or a ModelShape
    device: Any  # a name of `facts.devices` or a Device
    tp: int = 1
    weight_size: float = 2.0
    kv_size: float = 2.0
    reserve: float = 0.06  # of memory: activations, CUDA context, fragments
    sustained: Sustained = Sustained()

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", facts.model(self.model) if isinstance(self.model, str) else self.model)
        object.__setattr__(self, "device", facts.device(self.device) if isinstance(self.device, str) else self.device)
        require_whole("tp", self.tp, "devices")
        for name in ("weight_size", "kv_size"):
            require(name, getattr(self, name), "bytes per number")
        require("reserve", self.reserve, "a fraction of one", most=0.99, open_below=False)
        if self.model.heads % self.tp:
            fits = [n for n in range(1, self.model.heads + 1) if self.model.heads % n == 0]
            raise ValueError(f"tp={self.tp} does not divide the {self.model.heads} heads; choose from {fits}.")
        if self.kv_capacity < 1:
            need = self.weight_bytes / (1 - self.reserve) / self.device.memory
            raise ValueError(
                f"{self.model.name} with {self.weight_size:g} bytes per weight leaves no room for a cache on "
                f"{self.tp} × {self.device.name}; its weights alone need {need:.2f} of them."
            )

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights, on all devices of the replica together."""
        return self.model.params * self.weight_size

    @cached_property
    def kv_token_bytes(self) -> float:
        """Bytes of one token's keys and values on all devices together.

        Ranks share out the key-value heads; beyond their number they keep copies, and each keeps all of a latent
        vector.
        """
        heads = 1 if self.model.latent_width else self.model.kv_heads
        return kv_numbers_per_token(self.model) * self.kv_size * max(1.0, self.tp / heads)

    @property
    def kv_capacity(self) -> int:
        """Tokens whose keys and values fit beside the weights; 0 if none do."""
        room = self.tp * self.device.memory * (1 - self.reserve) - self.weight_bytes
        return max(0, int(room // self.kv_token_bytes))

    @cached_property
    def flops(self) -> float:
        """FLOP/s that matrix products sustain on all devices: the 8-bit peak for 8-bit weights where there is one."""
        device: Device = self.device
        eight = self.weight_size <= 1 and device.get("fp8_flops") is not None
        return self.tp * self.sustained.compute * float(device.fp8_flops if eight else device.dense_flops)

    @cached_property
    def bandwidth(self) -> float:
        """Bytes/s that reading sustains on all devices."""
        return self.tp * self.sustained.memory * float(self.device.bandwidth)

    @cached_property
    def _products(self) -> tuple[float, float, float]:
        """FLOP of a token's products without the head, FLOP of the head, and bytes of all weights that products
        use."""
        head = self.model.vocab * self.model.hidden
        outside = head * (1 if self.model.tied else 2)
        body = self.model.active_params - outside
        return compute.FORWARD * body, compute.FORWARD * head, (self.model.params - outside + head) * self.weight_size

    def idle_bytes(self, tokens: float) -> float:
        """Bytes of experts that no token visits, under even routing: (1 - top_k/experts)^tokens of them."""
        missed = 1 - self.model.top_k / self.model.experts if self.model.experts else 0.0
        beyond = self.model.params - self.model.active_params  # what one token leaves unread
        return beyond * missed ** max(tokens - 1, 0) * self.weight_size

    @cached_property
    def attention_flops(self) -> float:
        """FLOP of one query token and one key token, over all layers and heads: scores and weighted values."""
        width = self.model.heads * self.model.head_dim
        return compute.attention_flops_per_token(self.model.layers, width, 1) * compute.FORWARD / compute.TRAIN

    @cached_property
    def _fixed(self) -> tuple[float, float]:
        """Seconds of an iteration for gaps and latencies, and seconds that each token adds on the wire."""
        gaps = self.model.layers * self.sustained.layer_seconds + self.sustained.host_seconds
        if self.tp == 1:
            return gaps, 0.0
        each = ring_cost(2.0 * self.model.hidden, self.tp, 0.0, 1.0).nbytes  # of a token, in 16 bits
        sent = 2 * self.model.layers * each
        link = self.device.link_one_way
        if link is None:
            raise ValueError(f"{self.device.name} has no link between devices in the facts; use tp=1.")
        return gaps + 2 * self.model.layers * self.sustained.message_seconds, sent / (self.sustained.wire * float(link))

    def parts(self, chunk: float, pairs: float, batch: float, context: float, outputs: float) -> dict[str, float]:
        """Seconds of one iteration by cause.

        `chunk` prompt tokens attend to `pairs` pairs of tokens; `batch` sequences compute one token each and attend to
        `context` tokens together; `outputs` sequences need the head.
        """
        body, head, read = self._products
        fixed, on_wire = self._fixed
        return {
            "compute": (body * (chunk + batch) + head * outputs) / self.flops,
            "weights": (read - self.idle_bytes(chunk + batch)) / self.bandwidth,
            "cache": context * self.kv_token_bytes / self.bandwidth * self.sustained.memory / self.sustained.cache,
            "attention": self.attention_flops
            * (pairs + context)
            / (self.tp * self.sustained.compute * self.device.dense_flops),
            "wire": on_wire * (chunk + batch),
            "overhead": fixed + self.sustained.sequence_seconds * outputs,
        }

    def iteration_seconds(
        self,
        chunk: float = 0,
        chunk_pairs: float = 0,
        batch: float = 0,
        context_total: float = 0,
        outputs: float | None = None,
    ) -> float:
        """Seconds of one iteration: the longer of reading weights and computing products, then attention, messages and
        overhead.

        `chunk` prompt tokens attend to `chunk_pairs` tokens in all; `batch` sequences decode and hold `context_total`
        tokens together.
        """
        part = self.parts(chunk, chunk_pairs, batch, context_total, batch if outputs is None else outputs)
        products = max(part["compute"], part["weights"])
        return products + max(part["cache"], part["attention"]) + part["wire"] + part["overhead"]


def causal_pairs(tokens: float, cached: float = 0) -> float:
    """Pairs of a query and a key token if `tokens` new tokens follow `cached` ones and each sees those up to itself."""
    return tokens * cached + tokens * (tokens + 1) / 2


def prefill_seconds(deployment: Deployment, tokens: int, cached: int = 0) -> float:
    """Seconds until the first token of a prompt of `tokens` tokens, of which `cached` are in the prefix cache, without
    a queue.

    At least one token is computed even if all are cached: its logits give the first token of the reply.
    """
    tokens, cached = require_whole("tokens", tokens), require_whole("cached", cached, least=0)
    if cached > tokens:
        raise ValueError(f"cached is {cached} tokens of a prompt of {tokens}.")
    new = max(1, tokens - cached)
    return deployment.iteration_seconds(chunk=new, chunk_pairs=causal_pairs(new, tokens - new), outputs=1)


def decode_seconds(deployment: Deployment, batch: int, context: float) -> float:
    """Seconds between two tokens of each of `batch` sequences with `context` tokens each on average."""
    batch = require_whole("batch", batch, "sequences")
    return deployment.iteration_seconds(
        batch=batch, context_total=batch * require("context", context, "tokens", open_below=False)
    )


def ridge_batch(deployment: Deployment) -> float:
    """Sequences at which the products of a decode iteration compute as long as reading the weights takes."""
    body, head, read = deployment._products
    return read / deployment.bandwidth * deployment.flops / (body + head)


def largest_batch(deployment: Deployment, tokens: int, most: int = 1024) -> int:
    """Sequences of `tokens` tokens (their length when they end) whose caches fit, at most `most`."""
    return min(most, deployment.kv_capacity // require_whole("tokens", tokens))


def steady_tokens_per_s(
    deployment: Deployment, prompt: int, output: int, batch: int | None = None, most: int = 1024
) -> float:
    """Output tokens/s of one replica that always has requests waiting: prompts computed one by one between decode
    iterations.

    Sequences are spread evenly over their lives, so that each holds its prompt and half of its output on average.
    `batch` None takes as many as fit on average, at most `most`.
    """
    mean = prompt + output / 2
    if batch is None:
        batch = int(min(most, deployment.kv_capacity // (prompt + output)))
    if batch < 1:
        raise ValueError(
            f"No sequence of {prompt} + {output} tokens fits in a cache of {deployment.kv_capacity:,} tokens."
        )
    pairs = causal_pairs(prompt)
    alone = deployment.parts(prompt, pairs, 0, 0, 1)
    prefill = alone["compute"] + alone["attention"] + alone["wire"]  # read and launched together with decoding
    return 1 / (prefill / output + decode_seconds(deployment, batch, mean) / batch)


def static_tokens_per_s(deployment: Deployment, batch: int, prompt: int, output: int) -> float:
    """Output tokens/s of a batch that starts and ends together: one prefill of all prompts, then `output` − 1 decode
    iterations."""
    prefill = deployment.iteration_seconds(
        chunk=batch * prompt, chunk_pairs=batch * causal_pairs(prompt), outputs=batch
    )
    decode = (output - 1) * decode_seconds(
        deployment, batch, prompt + output / 2
    )  # linear in context: its mean is exact
    return batch * output / (prefill + decode)
