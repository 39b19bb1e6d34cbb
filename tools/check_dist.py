"""Check what `make dist` has built: the files in the wheel, and a broker run from an empty environment.

The wheel must hold the compiled kernel and the type markers, and none of the developer tools. It is installed
into a new virtual environment in which no compiler can be found; the `ottla` command of that environment then
starts a broker on a free port, writes records and reads them back.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"ottla", "pyspark_ottla", "pyspark_ottla_lake"}
REQUIRED = [
    "ottla/py.typed",
    "pyspark_ottla/py.typed",
    "pyspark_ottla_lake/py.typed",
    "ottla/testing/cluster.py",
]
# Developer tools: the simulator and the fuzzers run from a checkout.
FORBIDDEN = re.compile(r"simulat|hostile|fuzz|(^|/)tests?/|\.(pyx|pxi|c)$", re.IGNORECASE)
READY = re.compile(r"ready on (\S+:\d+) ")
LINES = ["first", "second", "third"]
STEP_SECONDS_MAX = 300


def only(directory: Path, pattern: str) -> Path:
    found = sorted(directory.glob(pattern))
    if len(found) != 1:
        sys.exit(f"{directory}: expected one {pattern}, found {[path.name for path in found]}")
    return found[0]


def wheel_problems(names: list[str]) -> list[str]:
    """What is wrong with the list of files in a wheel."""
    inside = [name for name in names if ".dist-info/" not in name]
    problems = [f"{name} is missing" for name in REQUIRED if name not in names]
    problems += [f"{name} does not belong in the wheel" for name in inside if FORBIDDEN.search(name)]
    extra = {name.split("/")[0] for name in inside} - PACKAGES
    problems += [f"unexpected top-level package {name}" for name in sorted(extra)]
    if not any(
        name.startswith("ottla/records/_kernel.") and name.endswith((".so", ".pyd")) for name in names
    ):
        problems.append("the compiled kernel is missing: was there a C compiler?")
    return problems


def run(command: list[str | Path], env: dict[str, str], text: str = "") -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env=env,
        input=text,
        capture_output=True,
        text=True,
        timeout=STEP_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def smoke(bin_dir: Path, env: dict[str, str], data: Path) -> None:
    """Start a broker on a free port with the installed command, produce, consume and stop it."""
    ottla = bin_dir / "ottla"
    serve = [str(ottla), "serve", "--listen", "127.0.0.1:0", "--data", str(data), "--log-level", "warning"]
    with subprocess.Popen(serve, env=env, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        try:
            line = broker.stdout.readline()
            ready = READY.search(line)
            if ready is None:
                sys.exit(f"the broker did not start: {line!r}")
            at = ["--bootstrap", ready[1]]
            run([ottla, "topic", "create", "smoke", *at], env)
            run([ottla, "produce", "smoke", *at], env, "".join(f"{line}\n" for line in LINES))
            got = run([ottla, "consume", "smoke", "--until-end", *at], env)
            if [line for line in LINES if line not in got]:
                sys.exit(f"wrote {LINES}, read back {got!r}")
        finally:
            broker.terminate()
        if broker.wait(30):
            sys.exit(f"the broker stopped with exit code {broker.returncode}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", nargs="?", default="dist", help="where the sdist and the wheel are")
    directory = Path(parser.parse_args().directory)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    only(directory, f"ottla-{version}.tar.gz")
    wheel = only(directory, f"ottla-{version}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        problems = wheel_problems(archive.namelist())
    if problems:
        sys.exit("\n".join(f"{wheel.name}: {problem}" for problem in problems))
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        venv.create(place / "env", with_pip=True)
        bin_dir = place / "env" / "bin"
        # No PATH but the environment's own, and no compiler: a dependency without a wheel fails here.
        env = {
            key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))
        }
        env |= {"PATH": str(bin_dir), "CC": "false", "CXX": "false", "HOME": str(place)}
        pip: list[str | Path] = [
            bin_dir / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        run([*pip, "-c", ROOT / "constraints.txt", wheel.resolve()], env)
        shown = run([bin_dir / "python", "-c", "import ottla; print(ottla.__version__)"], env).strip()
        if shown != version:
            sys.exit(f"pyproject.toml says version {version}, ottla.__version__ {shown}")
        compiled = "from ottla.records import kernel; print(kernel.COMPILED)"
        if run([bin_dir / "python", "-c", compiled], env).strip() != "True":
            sys.exit("the installed package does not use its compiled kernel")
        smoke(bin_dir, env, place / "data")
    print(f"{wheel.name}: installed without a compiler, served {len(LINES)} records")


if __name__ == "__main__":
    main()
