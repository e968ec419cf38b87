"""Do the wheel and the sdist hold what they must, and nothing else?

usage: python check_distributions.py DIRECTORY
"""

import sys
import tarfile
import zipfile
from pathlib import Path

(wheel,) = Path(sys.argv[1]).glob("*.whl")
(sdist,) = Path(sys.argv[1]).glob("*.tar.gz")
with zipfile.ZipFile(wheel) as archive:
    names = archive.namelist()
    (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
    text = archive.read(metadata).decode()

tops = {name.split("/")[0] for name in names}
info = metadata.split("/")[0]
assert tops == {"elastic_sampler", "elastic_sampler_providers", info}, tops
for name in (
    "elastic_sampler/py.typed",
    "elastic_sampler_providers/static.py",
    f"{info}/licenses/LICENSE",
    f"{info}/entry_points.txt",
):
    assert name in names, f"{name} is not in {wheel.name}"
required = {
    line.split(":", 1)[1].strip().split(">")[0]
    for line in text.splitlines()
    if line.startswith("Requires-Dist") and "extra ==" not in line
}
assert required == {"pluggy", "typing-extensions"}, required
with tarfile.open(sdist) as archive:
    inside = {name.split("/", 1)[-1] for name in archive.getnames()}
for name in (
    "README.md",
    "tests/golden/shuffled-1.json",
    "docs/index.md",
    "elastic_sampler/py.typed",
):
    assert name in inside, f"{name} is not in {sdist.name}"
print(f"{wheel.name}: {len(names)} files; {sdist.name}: {len(inside)} files")
