"""transformers in real float64.

transformers computes rope angles, norms and the softmax in float32 whatever the model's dtype is. Inside
`float64_everywhere()` the names torch.float32, torch.float and Tensor.float mean float64, so those casts widen
instead of narrowing; the weights are widened from what the checkpoint stores, and nothing else rounds.
"""

import contextlib

import torch
from transformers import AutoModelForCausalLM


@contextlib.contextmanager
def float64_everywhere():
    """Within the block, torch code that asks for float32 by name gets float64."""
    saved = torch.float32, torch.float, torch.Tensor.float
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved
        torch.set_default_dtype(default)


def recompute_frequencies(model):
    """Makes the rotary modules anew in float64: models are built outside the block, where names mean what files say."""
    with float64_everywhere():
        for name, module in list(model.named_modules()):
            if type(module).__name__.endswith("RotaryEmbedding"):
                model.set_submodule(name, type(module)(model.config))


class ExactModel:
    """A checkpoint folder as transformers reads it, evaluated in float64 without a cache."""

    def __init__(self, folder):
        self.model, info = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float64,
            attn_implementation="eager",
            experts_implementation="eager",
            output_loading_info=True,
        )
        bad = {
            k: v
            for k, v in info.items()
            if v and k in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")
        }
        if bad:
            raise SystemExit(f"{folder}: transformers reports {bad}")
        self.model.eval().double()  # some routers ask for float32 where they are made
        recompute_frequencies(self.model)

    def logits(self, ids):
        """float64 [positions, vocabulary] for one sequence from position 0."""
        with float64_everywhere(), torch.no_grad():
            out = self.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
        assert out.dtype == torch.float64
        return out.numpy()
