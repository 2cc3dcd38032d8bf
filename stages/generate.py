"""Stage `generate`: the mixing matrix, the keys, and each seed's held-out latents."""

import torch

from stages import params, tensors
from stages.task import HELDOUT, KEYS, draw_heldout, draw_mixing


def main() -> None:
    settings = params.load()
    mixing = draw_mixing(torch.Generator().manual_seed(settings.mixing.seed))
    tensors.save("data/mixing.safetensors", mixing=mixing, keys=torch.tensor(KEYS, dtype=torch.float64))
    for seed in settings.seeds:
        request, records = draw_heldout(seed)
        tensors.save(f"data/heldout/{seed}.safetensors", request=request, records=records)
    print(f"mixing matrix, and {HELDOUT} held-out examples of each of {len(settings.seeds)} seeds")


if __name__ == "__main__":
    main()
