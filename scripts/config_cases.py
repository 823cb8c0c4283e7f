#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/models/cases.json: what transformers makes of configs in which keys are absent,
biases are on, layers differ, towers have their head; each with its count of parameters, tensors and
linear weights. Wants transformers 5 and torch; no weights are made.
usage: scripts/config_cases.py FILE"""
import json
import sys

import torch
import transformers
from transformers import AutoConfig, CONFIG_MAPPING

SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 320}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
LINEAR = {"linear_key_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
          "linear_value_head_dim": 8}
LATENT = {"kv_lora_rank": 20, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 16}
SIGLIP = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
          "image_size": 56, "patch_size": 14}
QWEN_TOWER = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 4, "out_hidden_size": 64}

CASES = {
    "gpt2": [{}, {"n_embd": 64, "n_head": 4, "n_layer": 2, "n_inner": 100, "vocab_size": 320},
             {"n_embd": 64, "n_head": 4, "n_layer": 2, "tie_word_embeddings": False}],
    "bert": [{}, {**SMALL, "num_key_value_heads": None, "type_vocab_size": 5},
             {**SMALL, "architectures": ["BertModel"]}],
    "llama": [{}, {**SMALL, "attention_bias": True, "mlp_bias": True}, {**SMALL, "head_dim": 24},
              {**SMALL, "num_key_value_heads": None, "tie_word_embeddings": True},
              {**SMALL, "architectures": ["LlamaModel"]}],
    "mistral": [{}, {**SMALL, "head_dim": 32}],
    "qwen2": [{}, SMALL],
    "qwen3": [{}, {**SMALL, "attention_bias": True}, {**SMALL, "head_dim": 16, "tie_word_embeddings": True}],
    "gemma2": [{}, {**SMALL, "attention_bias": True}],
    "gemma3_text": [{}, {**SMALL, "head_dim": 24, "attention_bias": True}, {**SMALL, "tie_word_embeddings": False}],
    "gemma3": [{"text_config": {**SMALL, "head_dim": 16}, "vision_config": SIGLIP},
               {"text_config": SMALL, "vision_config": {**SIGLIP, "vision_use_head": False}}],
    "phi3": [{}, {**SMALL, "pad_token_id": None, "attention_bias": True}],
    "mixtral": [{}, {**SMALL, "num_local_experts": 3}],
    "qwen3_moe": [{}, {**SMALL, **EXPERTS, "mlp_only_layers": [1]},
                  {**SMALL, **EXPERTS, "decoder_sparse_step": 2, "attention_bias": True}],
    "deepseek_v2": [{"num_experts_per_tok": 6},
                    {**SMALL, **LATENT, "num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
                     "moe_intermediate_size": 24, "first_k_dense_replace": 2, "q_lora_rank": None,
                     "attention_bias": True}],
    "deepseek_v3": [{}, {**SMALL, **LATENT, "num_key_value_heads": 4, "n_routed_experts": 8,
                         "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_group": 2, "topk_group": 1,
                         "q_lora_rank": 28, "first_k_dense_replace": 1, "attention_bias": True}],
    "qwen3_next": [{}, {**SMALL, **EXPERTS, **LINEAR, "mlp_only_layers": [2],
                        "shared_expert_intermediate_size": 40, "attention_bias": True},
                   {**SMALL, **EXPERTS, **LINEAR, "full_attention_interval": 2}],
    "qwen3_5_text": [{}, {**SMALL, **LINEAR, "attention_bias": True}],
    "qwen3_5": [{"text_config": {**SMALL, **LINEAR}, "vision_config": QWEN_TOWER},
                {"text_config": {**SMALL, **LINEAR, "layer_types": ["full_attention", "linear_attention"] * 2},
                 "vision_config": QWEN_TOWER, "tie_word_embeddings": True}],
}


def model_class(kind, config):
    names = config.get("architectures")
    if names:
        return getattr(transformers, names[0])
    if kind == "bert":
        return transformers.BertForMaskedLM
    if kind in ("gemma3", "qwen3_5"):
        return transformers.AutoModelForImageTextToText
    return transformers.AutoModelForCausalLM


def count(kind, values):
    config = CONFIG_MAPPING[kind].from_dict({k: v for k, v in values.items() if k != "architectures"})
    with torch.device("meta"):
        chosen = model_class(kind, values)
        model = chosen.from_config(config) if hasattr(chosen, "from_config") else chosen(config)
    model.tie_weights()
    parameters = list(model.parameters())
    head = model.get_output_embeddings()
    linear = [m for m in model.modules() if m is not head and
              (isinstance(m, torch.nn.Linear) or type(m).__name__ == "Conv1D") and
              type(m).__name__ != "NonDynamicallyQuantizableLinear"]
    return {"parameters": sum(p.numel() for p in parameters), "tensors": len(parameters),
            "linear_weights": sum(m.weight.numel() for m in linear)}


def main():
    made = []
    for kind, configs in CASES.items():
        for values in configs:
            told = {"model_type": kind, **values}
            made.append({"config": told, **count(kind, values)})
    with open(sys.argv[1], "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in made) + "\n]\n")


main()
