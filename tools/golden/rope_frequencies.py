"""Writes tests/ir/rope_oracle.h: rotary frequencies by transformers' modeling_rope_utils in real float64.

Usage: rope_frequencies.py OUT.h   (needs the environment of tools/golden/README.md; the output is committed)
"""

import sys

import transformers
from exact import float64_everywhere
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

# name, head_dim, rope parameters
CASES = [
    ("Linear", 64, {"rope_type": "linear", "rope_theta": 10000.0, "factor": 8.0}),
    ("Llama3Factor8", 128, {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}),
    ("Llama3Factor32", 64, {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
                            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}),
    ("YarnFactor4", 128, {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32768}),
    ("YarnFactor40", 64, {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "beta_fast": 24.0, "beta_slow": 2.0,
                          "original_max_position_embeddings": 4096}),
    # The correction range collapses to one pair.
    ("YarnNarrow", 16, {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 2.0, "original_max_position_embeddings": 4}),
]


def cpp(value):
    text = repr(float(value))
    return text if any(c in text for c in ".en") else text + ".0"


def recipe(parameters):
    """The same parameters as attributes of a rope_table recipe."""
    names = {"rope_theta": "theta", "factor": "factor", "low_freq_factor": "low", "high_freq_factor": "high",
             "beta_fast": "beta_fast", "beta_slow": "beta_slow"}
    out = [f'{{"kind", std::string("{parameters["rope_type"]}")}}']
    out += [f'{{"{ours}", {cpp(parameters[theirs])}F}}' for theirs, ours in names.items() if theirs in parameters]
    if "original_max_position_embeddings" in parameters:
        out.append(f'{{"original", int64_t{{{parameters["original_max_position_embeddings"]}}}}}')
    return ", ".join(out)


def main():
    lines = [
        f"// Made by tools/golden/rope_frequencies.py with transformers {transformers.__version__} in float64; do not edit.",
        "#pragma once",
        "#include <cstdint>",
        "#include <string>",
        "#include <utility>",
        "#include <vector>",
        "",
        '#include "ir/module.h"',
        "",
        "namespace llmc::test {",
        "",
        "struct RopeOracle {",
        "  const char* name;",
        "  int64_t dim;",
        "  std::vector<std::pair<std::string, AttrValue>> attrs;",
        "  double attention_factor;  // what transformers multiplies cosines and sines by",
        "  std::vector<double> frequencies;",
        "};",
        "",
        "inline const std::vector<RopeOracle> kRopeOracle = {",
    ]
    for name, dim, parameters in CASES:
        config = LlamaConfig(hidden_size=dim, num_attention_heads=1, head_dim=dim, max_position_embeddings=131072,
                             rope_parameters=parameters)
        with float64_everywhere():
            frequencies, factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, "cpu")
        assert str(frequencies.dtype) == "torch.float64"
        values = ", ".join(cpp(f) for f in frequencies.tolist())
        lines.append(f'    {{"{name}", {dim}, {{{recipe(parameters)}}}, {cpp(factor)}, {{{values}}}}},')
    lines += ["};", "", "}  // namespace llmc::test", ""]
    with open(sys.argv[1], "w") as out:
        out.write("\n".join(lines))


main()
