"""Stage `train@<seed>`: train one student, and trace its error on training batches and held-out examples."""

import argparse

import torch
from tqdm import tqdm

from stages import files, params, tensors
from stages.student import batches, initialise, normals, predict, trace_steps, train
from stages.task import HELDOUT, mse, teacher


def main(seed: int) -> None:
    settings = params.load().train
    mixing, keys = tensors.load("data/mixing.safetensors", mixing=(9, 9), keys=(4, 3))
    request, records = tensors.load(f"data/heldout/{seed}.safetensors", request=(HELDOUT, 9), records=(HELDOUT, 4, 9))
    target = teacher(request, records, keys)
    request, records = request @ mixing, records @ mixing

    normal = normals(seed)
    Wq, Wv = initialise(normal)
    stream = batches(normal, settings.batch_size, mixing, keys)
    steps = train(Wq, Wv, stream, keys, settings.lr, settings.steps)

    traced, trace = set(trace_steps(settings.steps)), []
    bar = tqdm(steps, f"seed {seed}", settings.steps, disable=None, leave=False, unit="step")
    for step, train_mse in bar:
        if step in traced:
            with torch.no_grad():
                heldout_mse = mse(predict(Wq, Wv, request, records, keys), target)
            trace.append({"step": step, "train_mse": train_mse, "heldout_mse": heldout_mse})
            bar.set_postfix_str(f"held-out MSE {heldout_mse:.2e}", refresh=False)

    tensors.save(f"models/{seed}.safetensors", Wq=Wq.detach(), Wv=Wv.detach())
    files.write_csv(f"plots/training/{seed}.csv", trace)
    print(f"seed {seed}: held-out MSE {heldout_mse:.2e} after {settings.steps} steps")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int, help="one of the seeds in params.yaml")
    main(parser.parse_args().seed)
