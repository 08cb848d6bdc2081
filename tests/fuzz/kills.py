"""kill -9 at random moments of saving over an old model:  python tests/fuzz/kills.py TIMES [SEED]

After each, the old model or the new one has to load, with every byte as it was written.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from chainrule.storage.model_folder import open_model, verify_model

SAVES_FOREVER = """
import sys, numpy as np
from pathlib import Path
from chainrule.storage.config_json import TokenizerEntry
from chainrule.storage.model_folder import save_model
for i in range(int(sys.argv[2]), 10**9):
    save_model(
        Path(sys.argv[1]), family="uniform", settings={}, arrays={"a": np.full(10**6, i, np.int32)}, record={"i": i},
        tokenizer=TokenizerEntry(kind="word", markers="error", unicode="15"), card=str(i), overwrite=True,
        texts={"tokenizer.json": str(i).encode()},
    )
    print(i, flush=True)
"""


def main(times: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    saved, commits = -1, 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "lm"
        for killed in range(1, times + 1):
            command = [sys.executable, "-c", SAVES_FOREVER, str(folder), str(saved + 1)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
                assert child.stdout is not None
                told = int(child.stdout.readline())
                time.sleep(random.uniform(0, 0.1))
                child.kill()
                told = int((child.stdout.read().split() or [told])[-1])
            saved = verify_model(folder).record["i"]
            _, arrays, texts, _ = open_model(folder)
            assert saved in (told, told + 1), f"{saved} is there, but {told} was the last that was saved"
            assert np.all(arrays["a"] == saved)
            assert texts == {"tokenizer.json": str(saved).encode()}
            commits += saved == told + 1
            if killed % 10 == 0:
                print(f"{killed} of {times} kills survived, {commits} behind the commit", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time()))
