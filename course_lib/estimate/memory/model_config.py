"""A model from the `config.json` that Hugging Face checkpoints carry: what the planner and the memory functions must
know of it.

`ARCHITECTURES` has one entry for each `model_type`: what the architecture's code fixes, and which field holds which
number. A field that changes parameters or work and is not in the entry is refused by name and value. Nothing is
downloaded and nothing is executed.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from course_lib.estimate import facts
from course_lib.estimate.facts import ModelShape
from course_lib.estimate.facts.fact import find
from course_lib.estimate.memory.shapes import count_params, expert_params, shape

FILE_BYTES = 1_000_000  # the longest config that is read
LARGEST = 100_000_000  # no size in a config is above this
NEUTRAL: tuple[object, ...] = (None, False, 0, "", "default", "none", [], {})  # values that say that a feature is off

Read = Callable[["Config"], dict[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What the code of one `model_type` does, in so far as it changes parameters, memory or time."""

    fixed: Mapping[str, object] = field(default_factory=dict)  # fields of `ModelShape` that every such model has
    keys: Mapping[str, str] = field(default_factory=dict)  # field of `ModelShape` -> field of the config
    tied: bool = False  # where the config does not say
    biases: str = ""  # `attention_biases` if `attention_bias` is true; "": a true one is refused
    window: str = ""  # layers with a window where `layer_types` does not say: "all", "even" or "flag"
    same: Mapping[str, object] = field(default_factory=dict)  # the only values that are understood
    more: tuple[Read, ...] = ()  # further fields
    nested: Mapping[str, object] = field(
        default_factory=dict
    )  # what a nested `text_config` leaves out, as its class fills in


USUAL = {  # field of `ModelShape` -> fields of a config, the first of which is the usual one
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "n_embed"),
    "heads": ("num_attention_heads", "n_head"),
    "vocab": ("vocab_size",),
    "ffn": ("intermediate_size",),
    "seq_len": ("max_position_embeddings", "n_positions", "seq_length"),
}
MATTERS = re.compile(
    "expert|layer|hidden|intermediate|_dim|_size|head|bias|norm|attn|attention|lora|moe|quant|window|ssm|mamba|conv|memory|state|embed|block|chunk|alibi|parallel|mlp|ffn|adapter|latent"
)
HARMLESS = re.compile(  # of those, fields that change neither parameters nor the work of training
    ".*(_eps|_epsilon|dropout|_pdrop|_prob|_act|_activation|_std|_range|_implementation|_coef|_scale|_scaling|_factor|softcapping|_init_method|_scalar|_alpha|_limit|_theta)|_.*|max_window_layers|original_max_position_embeddings|output_.*|scale_attn.*|reorder.*|attention_softmax_in_fp32|apply_residual_connection_post_layernorm|masked_softmax_fusion|slow_but_exact|skip_bias_add.*|hidden_dropout|norm_topk_prob|use_parallel_residual|rotary_emb_base|partial_rotary_factor|bias_dropout_fusion|is_encoder_decoder|max_batch_size|rope_local_base_freq|use_bidirectional_attention|attention_temperature_tuning|floor_scale|.*token.*|chunk_size_feed_forward|cross_attention_hidden_size|ep_size|experts_per_token|num_experts_per_token|seq_aux|pretraining_tp|no_rope_layers|attention_chunk_size|attn_.*config|embd_pdrop|layer_norm_epsilon|summary_.*|n_ctx|sliding_window_size|router_.*|output_router_logits|offset_alibi|unk_.*|multi_query_group_num|.*dtype|full_attn_mod|attn_temperature_tuning|use_cache|query_pre_attn_scalar|final_logit.*|attn_logit.*|rope_.*|initializer.*|tie_.*|model_max_length"
)


@dataclass(slots=True)
class Config:
    """The fields of a config that are read so far, and how one is read."""

    values: Mapping[str, object]
    name: str
    used: set[str] = field(default_factory=set)

    def refusal(self, key: str, why: str) -> ValueError:
        """The error about one field, with its value as the file has it."""
        said = json.dumps(self.values.get(key), default=str)
        return ValueError(f"{self.name}: {key} is {said if len(said) < 80 else said[:80] + '…'}; {why}")

    def get(self, key: str, default: object = None) -> object:
        """A field as it is."""
        self.used.add(key)
        value = self.values.get(key)
        return default if value is None else value

    def number(self, *keys: str, default: int | None = None, least: int = 1) -> int:
        """A whole number, in the first of these fields that is there."""
        self.used.update(keys)
        key = next((each for each in keys if self.values.get(each) is not None), keys[0])
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if value is None:
            raise ValueError(f"{self.name} does not give {key}, which this model_type needs.")
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
            raise self.refusal(key, f"it must be a whole number from {least} to {LARGEST:,}.")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """A field that is true or false."""
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self.refusal(key, "it must be true or false.")
        return value


def _mixture(experts: str, width: str, **more: str) -> dict[str, str]:
    return {"experts": experts, "expert_ffn": width, "top_k": "num_experts_per_tok", **more}


def _qwen_layers(config: Config) -> dict[str, int]:
    """Qwen's mixtures: every `decoder_sparse_step`-th layer, but for those of `mlp_only_layers`."""
    if config.get("mlp_only_layers", []):
        raise config.refusal(
            "mlp_only_layers", "single dense layers among mixtures are not understood; it must be empty."
        )
    return {"expert_every": config.number("decoder_sparse_step", default=1)}


def _deepseek(config: Config) -> dict[str, int]:
    """Latent attention, shared experts as one wide expert, and the first dense layers."""
    if config.number("moe_layer_freq", default=1) != 1:
        raise config.refusal(
            "moe_layer_freq", "only 1 is understood: every layer after the first dense ones is a mixture."
        )
    found = _shared(config)
    found["query_latent"] = config.number("q_lora_rank", default=0, least=0)
    for name, key in (("router_groups", "n_group"), ("groups_visited", "topk_group")):
        found[name] = config.number(key, default=1)
    numbers = {
        "latent": "kv_lora_rank",
        "rotary_dim": "qk_rope_head_dim",
        "plain_dim": "qk_nope_head_dim",
        "value_dim": "v_head_dim",
    }
    found |= {name: config.number(key) for name, key in numbers.items()}
    config.get("head_dim")  # the rotary part, said once more
    if config.get("qk_head_dim", both := found["rotary_dim"] + found["plain_dim"]) != both:
        raise config.refusal("qk_head_dim", f"qk_rope_head_dim and qk_nope_head_dim add up to {both}.")
    return found | {"head_dim": found["value_dim"]}


def _shared(config: Config) -> dict[str, int]:
    """Shared experts side by side, and the first dense layers."""
    wide = config.number("moe_intermediate_size") * config.number("n_shared_experts", default=0, least=0)
    return {"shared_ffn": wide, "dense_layers": config.number("first_k_dense_replace", default=0, least=0)}


def _indexer(config: Config) -> dict[str, int]:
    """The indexer of sparse attention, which DeepSeek-V3.2 has beside V3's parts."""
    config.number("index_topk")
    return {"index_heads": config.number("index_n_heads"), "index_dim": config.number("index_head_dim")}


def _falcon(config: Config) -> dict[str, int]:
    """One key head, or groups of the new decoder; one norm where attention and MLP run side by side on one input."""
    new, heads = config.flag("new_decoder_architecture"), config.number(*USUAL["heads"])
    many = config.number("num_kv_heads", "n_head_kv", default=heads)
    kv = many if new else (1 if config.flag("multi_query", True) else heads)
    two = config.number("num_ln_in_parallel_attn", default=2) if new else 1
    wide = config.number("ffn_hidden_size", default=4 * config.number(*USUAL["hidden"]))
    side = config.flag("parallel_attn", True)
    config.flag("alibi")
    length = config.number(*USUAL["seq_len"], default=2048)
    norms = two if side or new else 2
    return {"kv_heads": kv, "layer_norms": norms, "biases": config.flag("bias"), "ffn": wide, "seq_len": length}


def _bloom(config: Config) -> dict[str, int]:
    return {"ffn": 4 * config.number(*USUAL["hidden"]), "seq_len": config.number("seq_length", default=2048)}


def _gpt2(config: Config) -> dict[str, int]:
    if config.flag("add_cross_attention"):
        raise config.refusal("add_cross_attention", "cross-attention is not understood.")
    return {"ffn": config.number("n_inner", default=4 * config.number(*USUAL["hidden"]))}


def _llama4(config: Config) -> dict[str, int]:
    """Every `interleave_moe_layer_step`-th layer is a mixture with a shared expert; the others are wider."""
    wide = config.number("intermediate_size")
    every = config.number("interleave_moe_layer_step", default=1)
    config.get("moe_layers"), config.flag("use_qk_norm")  # its norms have no weights
    return {
        "expert_ffn": wide,
        "shared_ffn": wide,
        "expert_every": every,
        "ffn": config.number("intermediate_size_mlp"),
    }


RMS: dict[str, object] = {"gated": True, "norm": "RMSNorm", "biases": False}
PLAIN: dict[str, object] = {"gated": False, "norm": "LayerNorm", "biases": True}
LLAMA = Architecture(
    fixed=RMS,
    biases="qkvo",
    nested={
        **{"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32},
        **{"vocab_size": 32000, "max_position_embeddings": 2048},
    },
)
QWEN2 = Architecture(fixed={**RMS, "attention_biases": "qkv"}, window="flag", same={"qkv_bias": True})
QWEN3 = Architecture(fixed={**RMS, "head_norms": 1}, biases="qkvo", window="flag")
GEMMA = Architecture(fixed=RMS, tied=True, biases="qkvo")
GEMMA3 = replace(
    GEMMA,
    fixed={**RMS, "layer_norms": 4, "head_norms": 1},
    window="pattern",
    nested={
        **{
            "vocab_size": 262208,
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "head_dim": 256,
        },
        **{
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "max_position_embeddings": 131072,
            "sliding_window": 4096,
        },
    },
)
DEEPSEEK2 = Architecture(
    fixed=RMS, keys=_mixture("n_routed_experts", "moe_intermediate_size"), more=(_deepseek,), same={"index_topk": None}
)
DEEPSEEK3 = replace(DEEPSEEK2, fixed={**RMS, "router_bias": 1})
GLM4_MOE = Architecture(
    fixed={**RMS, "router_bias": 1},
    keys=_mixture("n_routed_experts", "moe_intermediate_size"),
    biases="qkv",
    more=(_shared, lambda config: {"head_norms": int(config.flag("use_qk_norm"))}),
)
OLMO2 = Architecture(fixed={**RMS, "wide_norms": 1}, biases="qkvo", window="flag")

ARCHITECTURES: dict[str, Architecture] = {
    "llama": LLAMA,
    "mistral": Architecture(fixed=RMS, window="all"),
    "mixtral": Architecture(fixed=RMS, window="all", keys=_mixture("num_local_experts", "intermediate_size")),
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "qwen2_moe": replace(
        QWEN2,
        fixed={**QWEN2.fixed, "shared_gate": 1},
        keys=_mixture("num_experts", "moe_intermediate_size", shared_ffn="shared_expert_intermediate_size"),
        more=(_qwen_layers,),
    ),
    "qwen3_moe": replace(QWEN3, keys=_mixture("num_experts", "moe_intermediate_size"), more=(_qwen_layers,)),
    "gemma": GEMMA,
    "gemma2": replace(GEMMA, fixed={**RMS, "layer_norms": 4}, window="even"),
    "gemma3_text": GEMMA3,
    "phi": Architecture(fixed={**PLAIN, "layer_norms": 1, "head_bias": 1}, same={"qk_layernorm": False}),
    "phi3": Architecture(fixed=RMS, window="all"),
    "gpt2": Architecture(fixed={**PLAIN, "learned_positions": True}, tied=True, more=(_gpt2,)),
    "gpt_neox": Architecture(fixed=PLAIN, same={"attention_bias": True}),
    "olmo": Architecture(fixed={**RMS, "norm": "LayerNorm without weights"}, biases="qkvo"),
    "olmo2": OLMO2,
    "olmo3": replace(OLMO2, window="types"),
    "olmoe": replace(OLMO2, keys=_mixture("num_experts", "intermediate_size")),
    "deepseek_v2": DEEPSEEK2,
    "deepseek_v3": DEEPSEEK3,
    "kimi_k2": DEEPSEEK3,
    "deepseek_v32": replace(DEEPSEEK3, more=(_deepseek, _indexer), same={}),
    "glm4_moe": GLM4_MOE,
    "gpt_oss": Architecture(
        fixed={**RMS, "sinks": 1, "router_bias": 1, "expert_biases": 1},
        keys=_mixture("num_local_experts", "intermediate_size"),
        biases="qkvo",
        window="types",
    ),
    "llama4_text": replace(
        LLAMA, keys={"experts": "num_local_experts", "top_k": "num_experts_per_tok"}, more=(_llama4,), nested={}
    ),
    "falcon": Architecture(fixed=PLAIN, tied=True, more=(_falcon,)),
    "bloom": Architecture(fixed={**PLAIN, "embedding_norm": 1}, tied=True, more=(_bloom,)),
}


def find_model(text: str) -> ModelShape:
    """The model that somebody asks for: a name of the course's table, the path of a config, or a folder that holds
    `config.json`."""
    path = Path(text).expanduser()
    with suppress(ValueError):
        return facts.model(text)
    if path.exists() or path.suffix == ".json":
        return model_from_config(path)
    if re.fullmatch(r"[\w.-]+/[\w.-]+", text):
        raise ValueError(
            f"{text!r} is no file here and no name of the table. The course downloads nothing: save the model's "
            "config.json from its page on the Hub, and give that file."
        )
    return facts.model(text)


def model_from_config(source: str | Path | Mapping[str, object]) -> ModelShape:
    """The model that a Hugging Face config describes, its parameters counted; `note` names what the config leaves to
    know.

    `source` is the file, a folder that holds `config.json`, or the parsed object. A nested `text_config` is followed:
    of a multimodal model the decoder is read. ValueError that names the field and its value if one is missing, no
    number, or not understood.
    """
    values, name = (dict(source), "config") if isinstance(source, Mapping) else _loaded(Path(source).expanduser())
    notes: list[str] = []
    inner = values.get("text_config")
    if isinstance(inner, Mapping):
        notes.append(f"the decoder of {_word(values.get('model_type'))}; what encodes images or sound is left out")
    config = Config(dict(inner) if isinstance(inner, Mapping) else values, name)
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise ValueError(f"{name}: model_type is {_word(kind)}; a Hugging Face config names its architecture there.")
    known = find("architecture (model_type)", kind, ARCHITECTURES)
    if config.values is not values:
        added = {key: value for key, value in known.nested.items() if key not in config.values}
        config.values = {**config.values, **added}
        notes += [f"{', '.join(added)} as the class fills them in"] if added else []
    outer = [] if config.values is values else _quantized(Config(values, name))
    notes += outer + _quantized(config)
    found = _fields(config, known)
    if config.number("num_nextn_predict_layers", default=0, least=0):
        notes.append("without the module that predicts a second token")
    _understood(config, known)
    path = Path(name)
    label = path.resolve().parent.name if path.name == "config.json" else path.stem
    return _counted(found, label, name, "; ".join(notes))


def _loaded(path: Path) -> tuple[dict[str, object], str]:
    """The object in a file, which is foreign: of bounded size, and refused in words if it is no config."""
    path = path / "config.json" if path.is_dir() else path
    if not path.is_file():
        raise ValueError(f"There is no file {path}.")
    with path.open("rb") as file:
        raw = file.read(FILE_BYTES + 1)
    if len(raw) > FILE_BYTES:
        raise ValueError(f"{path} is longer than {FILE_BYTES // 1000} kB; a model's config has a few kB.")

    def constant(word: str) -> None:
        raise ValueError(f"it holds {word}, which is no number of JSON")

    try:
        values = json.loads(raw.decode("utf-8-sig"), parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON text: {str(error)[:120]}.") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds {_word(values)}; a config is one JSON object.")
    return values, str(path)


def _word(value: object) -> str:
    said = json.dumps(value, default=str)
    return said if len(said) < 60 else f"{said[:60]}…"


def _quantized(config: Config) -> list[str]:
    """A note for weights that were trained in few bits; others were quantized after training, and are not trained as
    they are."""
    said = config.get("quantization_config")
    if said is None:
        return []
    method = said.get("quant_method") if isinstance(said, Mapping) else None
    if method in ("fp8", "mxfp4"):
        return [f"quantization_config ({method}) is left out: the plan trains weights in 16 bits"]
    raise config.refusal(
        "quantization_config", "a quantized copy is not trained as it is; give the config of the original model."
    )


def _fields(config: Config, known: Architecture) -> dict[str, object]:
    """The fields of a `ModelShape` that the config gives."""
    found: dict[str, Any] = dict(known.fixed)
    for read in known.more:
        found |= read(config)
    for name, keys in USUAL.items():
        if name not in found:
            found[name] = config.number(*keys)
    for name, key in known.keys.items():
        found[name] = config.number(key)
    found.setdefault("kv_heads", config.number("num_key_value_heads", default=found["heads"]))
    if "head_dim" not in found:
        usual = max(1, found["hidden"] // found["heads"])
        found["head_dim"] = config.number("head_dim", default=usual)
        if config.get("head_dim") is None and found["hidden"] % found["heads"]:
            raise config.refusal(
                USUAL["heads"][0], f"it must divide hidden_size, {found['hidden']}, where head_dim is not given."
            )
    if found["heads"] % found["kv_heads"]:
        raise config.refusal("num_key_value_heads", f"it must divide the {found['heads']} attention heads.")
    if found.get("top_k", 0) > found.get("experts", 0):
        raise config.refusal("num_experts_per_tok", f"it must be at most the {found['experts']} experts.")
    if found.get("dense_layers", 0) > found["layers"]:
        raise config.refusal("first_k_dense_replace", f"there are {found['layers']} layers.")
    found["tied"] = config.flag("tie_word_embeddings", known.tied)
    if known.biases and config.flag("attention_bias"):
        found["attention_biases"] = known.biases
    return found | _window(config, known, found["layers"])


def _window(config: Config, known: Architecture, layers: int) -> dict[str, int]:
    """The window of local attention, and how many layers have it: as `layer_types` lists them, or as the architecture
    does."""
    size, kinds = config.number("sliding_window", "attention_chunk_size", default=0, least=0), config.get("layer_types")
    every = config.number("sliding_window_pattern", default=6)
    on = config.flag("use_sliding_window") or known.window != "flag"
    if kinds is not None:
        local = ("sliding_attention", "chunked_attention")
        if (
            not isinstance(kinds, list)
            or len(kinds) != layers
            or not set(map(str, kinds)) <= {*local, "full_attention"}
        ):
            raise config.refusal(
                "layer_types", f"it must list full_attention or sliding_attention for each of the {layers} layers."
            )
        many = sum(kind in local for kind in kinds)
    elif not size or not on:
        many = 0
    elif known.window == "flag":
        many = layers - min(layers, config.number("max_window_layers", default=layers, least=0))
    elif known.window in ("all", "even", "types", "pattern"):
        counts = {"all": layers, "even": -(-layers // 2), "types": layers // 2, "pattern": layers - layers // every}
        many = counts[known.window]
    elif "sliding_window" in config.values:
        raise config.refusal("sliding_window", "this model_type has no window that is understood here.")
    else:
        many = 0
    return {"window": size if many else 0, "local_layers": many}


def _understood(config: Config, known: Architecture) -> None:
    """Refuse a field that changes the model and that nothing has read, unless its value says that the feature is
    off."""
    for key, value in known.same.items():
        if config.get(key, value) != value:
            raise config.refusal(key, f"only {json.dumps(value)} is understood for this model_type.")
    for key, value in config.values.items():
        off = value in NEUTRAL or HARMLESS.fullmatch(key) or not MATTERS.search(key)
        if key not in config.used and not off:
            raise config.refusal(key, "this field is not understood for this model_type and may change the model.")


def _counted(found: dict[str, Any], name: str, source: str, note: str) -> ModelShape:
    """The model with its parameters, all of them and those that one token meets."""
    zero = {"experts": 0, "top_k": 0, "expert_ffn": 0, "learned_positions": False, "params": 0, "active_params": 0}
    about = {"name": name, "published_billion": 0.0, "note": note, "source": source, "date": ""}
    one = ModelShape(**{**zero, **about, **found})
    params = count_params(one)
    idle = round(one.layers * float(expert_params(shape(one))) * (1 - one.top_k / one.experts)) if one.experts else 0
    return replace(one, params=params, active_params=params - idle, published_billion=params / 1e9)
