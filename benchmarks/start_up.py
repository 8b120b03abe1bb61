"""How long one start takes, beside yamllint on the same file in the same run.

python benchmarks/start_up.py [RUNS]
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from measure import in_turns, machine, script, times

EXAMPLES = Path(__file__).parents[1] / "examples"


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    with TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(EXAMPLES / "bad/deployment.yaml", folder / "deployment.yaml")
        shutil.copy(EXAMPLES / "good/serve.sh", folder / "serve.sh")
        check = [script("shardlint"), "check", "--exit-zero"]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "shardlint --version": [script("shardlint"), "--version"],
            "shardlint check deployment.yaml": [*check, "deployment.yaml"],
            "yamllint deployment.yaml": [script("yamllint"), "-d", "relaxed", "deployment.yaml"],
            "shardlint check serve.sh": [*check, "serve.sh"],
        }
        found = in_turns(commands, folder, count)
    print(f"{machine()}; {count} runs of each, in turns; milliseconds")
    print(f"{'':34} median    min    max  peak MiB")
    for name, samples in found.items():
        shown = "".join(f"{seconds * 1e3:7.0f}" for seconds in times(samples))
        print(f"{name:34}{shown}{max(sample.peak_mib for sample in samples):10.0f}")
    ours, theirs = (
        times(found[name])
        for name in ("shardlint check deployment.yaml", "yamllint deployment.yaml")
    )
    ratios = " / ".join(f"{one / two:.2f}" for one, two in zip(ours, theirs, strict=True))
    print(f"one file, shardlint / yamllint: {ratios} (median / min / max; goal: 1.5)")


if __name__ == "__main__":
    main()
