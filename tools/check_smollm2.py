#!/usr/bin/env python3
"""Compares a plan of SmolLM2-135M with transformers' float64 references in tests/data/smollm2.

    tools/check_smollm2.py greedy  PLAN [--run LLMC_RUN]    for a plan made with --activations f32 --kv-type f32
    tools/check_smollm2.py teacher PLAN [--run LLMC_RUN]    for a plan of any activations (q8 is the default)

greedy: 12 prompts x 48 ids; teacher: 4 windows of 512 ids; what must hold stands in references.py. The plan must come
from the file that the references name (`tools/models smollm2`). Standard library only.
"""

from references import check

if __name__ == "__main__":
    check("smollm2", __doc__)
