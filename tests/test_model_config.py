"""Hugging Face configs: parameters of public models counted to the last one, and every field that is not understood
refused by name."""

import json
from pathlib import Path

import pytest

from course_lib.estimate import memory
from course_lib.estimate.memory.model_config import ARCHITECTURES, FILE_BYTES, find_model, model_from_config
from course_lib.parallel import planner
from tests.tables import each_alone

# Configs as published, without the fields that change nothing; parameters from `source`, with what a checkpoint holds
# besides.
KNOWN = [json.loads(line) for line in (Path(__file__).parent / "model_configs.jsonl").read_text().splitlines()]
LLAMA = KNOWN[0]["config"]
BY_NAME = {one["model"]: one["config"] for one in KNOWN}


@pytest.mark.parametrize("one", KNOWN, ids=lambda one: one["model"])
def test_parameters_of_a_public_model_are_counted_to_the_last_one(one):
    found = model_from_config(one["config"])
    assert found.params == one["parameters"] - one["besides"] and one["source"]
    assert 0 < found.active_params <= found.params
    assert memory.count_params(found) == found.params


MORE = {  # fields that published configs have, and that change neither parameters nor work
    "architectures": ["X"], "auto_map": {"AutoConfig": "x"}, "attention_dropout": 0.0, "bos_token_id": 1,
    "eos_token_id": [1, 2],
    "hidden_act": "silu", "hidden_activation": "gelu", "initializer_range": 0.02, "rms_norm_eps": 1e-6,
    "layer_norm_epsilon": 1e-5,
    "rope_scaling": {"factor": 8.0}, "rope_theta": 10000.0, "rope_local_base_freq": 10000, "torch_dtype": "bfloat16",
    "use_cache": True,
    "transformers_version": "4.51", "pretraining_tp": 1, "resid_pdrop": 0.1, "summary_first_dropout": 0.1,
    "scale_attn_weights": True,
    "router_aux_loss_coef": 0.9, "router_jitter_noise": 0.0, "moe_router_dtype": "float32", "swiglu_limit": 7.0,
    "aux_loss_alpha": 0.001,
    "ep_size": 1, "seq_aux": True, "full_attn_mod": 1, "attn_temperature_tuning": 4, "masked_softmax_fusion": True,
    "_name_or_path": "x",
    "original_max_position_embeddings": 4096, "clip_qkv": 8.0, "unsloth_fixed": True, "attention_softmax_in_fp32": True,
}  # fmt: skip


@pytest.mark.parametrize("one", KNOWN, ids=lambda one: one["model"])
def test_fields_that_change_nothing_are_no_reason_to_refuse(one):
    inner = one["config"].get("text_config")
    config = {**one["config"], "text_config": {**MORE, **inner}} if inner else {**MORE, **one["config"]}
    assert model_from_config(config).params == one["parameters"] - one["besides"]


def test_every_architecture_of_the_public_models_is_read_and_the_others_are_few():
    kinds = {one["config"].get("text_config", one["config"])["model_type"] for one in KNOWN}
    assert ARCHITECTURES.keys() - kinds == {"olmo3", "deepseek_v32"}


@each_alone(
    "model, window, layers",
    ("Mistral-7B-v0.1", 4096, 32),
    ("gemma-2-9b", 4096, 21),
    ("gemma-3-1b", 512, 22),
    ("gpt-oss-20b", 128, 12),
    ("Qwen2.5-7B", 0, 0),  # use_sliding_window is false
    ("Llama-4-Scout, decoder", 8192, 36),
)
def test_layers_with_a_window_compute_fewer_pairs_of_tokens(model, window, layers):
    found = model_from_config(BY_NAME[model])
    assert (found.window, found.local_layers) == (window, layers)
    one = memory.shape(found)
    assert one.attended(128) == 1
    if window:
        seq, pairs = 4 * window, 4 * window - window / 2  # a token sees the whole window but at the beginning
        assert one.attended(seq) == pytest.approx(1 - layers / one.layers * (1 - pairs * window / (seq * seq / 2)))


BAD = [
    ({"num_attention_heads": "32"}, r'num_attention_heads is "32"; it must be a whole number'),
    ({"num_hidden_layers": -1}, "num_hidden_layers is -1"),
    ({"num_hidden_layers": True}, "num_hidden_layers is true"),
    ({"hidden_size": 4096.5}, "hidden_size is 4096.5"),
    ({"vocab_size": 10**12}, "vocab_size is 1000000000000"),
    ({"hidden_size": None}, "does not give hidden_size"),
    ({"num_key_value_heads": 7}, "num_key_value_heads is 7; it must divide the 32 attention heads"),
    ({"num_attention_heads": 30, "num_key_value_heads": 30}, "num_attention_heads is 30; it must divide hidden_size"),
    ({"tie_word_embeddings": "yes"}, 'tie_word_embeddings is "yes"; it must be true or false'),
    ({"model_type": None}, "model_type is null"),
    ({"model_type": "mamba2"}, "No architecture .* 'mamba2'"),
    ({"model_type": "lama"}, "Near it: llama"),
    ({"mlp_bias": True}, "mlp_bias is true; this field is not understood"),
    ({"num_local_experts": 8}, "num_local_experts is 8; this field is not understood"),
    ({"kv_lora_rank": 512}, "kv_lora_rank is 512"),
    ({"sliding_window": 4096}, "sliding_window is 4096"),
    ({"layer_types": ["linear_attention"] * 32}, "layer_types is"),
    (
        {"quantization_config": {"quant_method": "gptq", "bits": 4}},
        "quantization_config .* a quantized copy is not trained",
    ),
    ({"attention_type": "ring"}, 'attention_type is "ring"'),
]
DEEPSEEK = [
    ({"moe_layer_freq": 2}, "moe_layer_freq is 2"),
    ({"num_experts_per_tok": 65}, "num_experts_per_tok is 65; it must be at most the 64 experts"),
    ({"first_k_dense_replace": 99}, "first_k_dense_replace is 99; there are 27 layers"),
    ({"index_topk": 2048}, "index_topk is 2048"),
    ({"qk_head_dim": 128}, "qk_head_dim is 128; .* add up to 192"),
]


@pytest.mark.parametrize(
    ("config", "said"),
    [({**LLAMA, **change}, said) for change, said in BAD]
    + [({**BY_NAME["DeepSeek-V2-Lite"], **change}, said) for change, said in DEEPSEEK]
    + [({**BY_NAME["Qwen3-30B-A3B"], "mlp_only_layers": [3]}, "mlp_only_layers"), ({}, "model_type is null")],
)
def test_a_field_that_is_not_understood_is_named_with_its_value(config, said):
    with pytest.raises(ValueError, match=said):
        model_from_config(config)


@each_alone(
    "text, said",
    (b"", "no JSON text"),
    (b"[1, 2]", "holds \\[1, 2\\]"),
    (b'{"model_type": "llama", "hidden_size": NaN}', "NaN, which is no number"),
    ("{}".encode("utf-16"), "no JSON text"),
    (b"[" * 100_000, "no JSON text"),
    (b'{"a": "' + b"x" * FILE_BYTES + b'"}', "longer than"),
    (b'{"hidden_size": ' + b"9" * 5000 + b"}", "no JSON text"),
)
def test_a_file_that_is_no_config_is_refused_in_words(tmp_path, text, said):
    path = tmp_path / "config.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=said):
        find_model(str(path))


def test_a_model_is_found_by_name_by_file_and_by_folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    by_file, by_folder = find_model(str(tmp_path / "config.json")), find_model(str(tmp_path))
    assert by_file == by_folder and by_file.params == find_model("llama3-8b").params
    for text, said in (
        ("meta-llama/Llama-3.1-8B", "The course downloads nothing"),
        (str(tmp_path / "absent.json"), "There is no file"),
        ("llama3", "Near it: llama3-"),
    ):
        with pytest.raises(ValueError, match=said):
            find_model(text)


def test_a_table_model_and_its_config_are_planned_alike():
    where = memory.Layout(dp=8, zero=3, microbatches=8)
    for name, own in (("qwen3-30b-a3b", "Qwen3-30B-A3B"), ("deepseek-v3", "DeepSeek-V3")):
        jobs = [planner.Job(model=each, seq=4096, sequences=64) for each in (name, model_from_config(BY_NAME[own]))]
        ours, theirs = (planner.estimate(job, planner.cluster("8xH100"), where) for job in jobs)
        assert ours.seconds == theirs.seconds and ours.memory == theirs.memory
