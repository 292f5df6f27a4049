#!/usr/bin/env python3
"""Compares a plan of Gemma 3 270M with transformers' float64 references in tests/data/gemma3.

    tools/check_gemma3.py greedy  PLAN [--run LLMC_RUN]    for a plan made with --activations f32 --kv-type f32
    tools/check_gemma3.py teacher PLAN [--run LLMC_RUN]    for a plan of any activations (q8 is the default)

greedy: 4 prompts x 200 ids; teacher: a window of 768 ids, more than the model's sliding window of 512; what must hold
stands in references.py. The plan must come from the file that the references name (`tools/models gemma3`). Standard
library only.
"""

from references import check

if __name__ == "__main__":
    check("gemma3", __doc__)
