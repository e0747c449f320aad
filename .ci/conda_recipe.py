"""Print the conda recipe of a build: python .ci/conda_recipe.py DIST [MAINTAINER ...].

In the format of conda-forge (recipe.yaml), with the requirements that the wheel states
and the hash of the sdist: what goes to conda-forge/staged-recipes, once the sdist is on
PyPI. Where py-rattler-build is installed, it judges the recipe first. conda-forge's
linter also asks for at least one maintainer, by a name on GitHub.
"""

import hashlib
import importlib.util
import json
import re
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

RECIPE = """\
schema_version: 1

context:
  name: sklearn-crt
  version: "{version}"
  python_min: "{python}"

package:
  name: ${{{{ name }}}}
  version: ${{{{ version }}}}

source:
  url: https://pypi.org/packages/source/s/${{{{ name }}}}/{sdist}
  sha256: {sha256}

build:
  number: 0
  noarch: python
  script: ${{{{ PYTHON }}}} -m pip install . -vv --no-deps --no-build-isolation

requirements:
  host:
    - python ${{{{ python_min }}}}.*
    - hatchling >=1.27
    - pip
  run:
    - python >=${{{{ python_min }}}}
{requirements}

tests:
  - python:
      imports:
        - sklearn_crt
        - sklearn_crt.attention
        - sklearn_crt.testing
      pip_check: true
      python_version: ${{{{ python_min }}}}.*

about:
  homepage: {Documentation}
  repository: {Source}
  documentation: {Documentation}
  summary: {summary}
  license: {license}
  license_file: LICENSE

extra:
  recipe-maintainers: {maintainers}
"""


def metadata_of(wheel):
    """Return the metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


def recipe_of(dist, maintainers):
    """Return the recipe as text."""
    (wheel,), (sdist,) = Path(dist).glob("*.whl"), Path(dist).glob("*.tar.gz")
    metadata = metadata_of(wheel)
    stated = metadata.get_all("Requires-Dist")
    core = sorted(one for one in stated if "extra ==" not in one)
    pairs = [re.fullmatch(r"([\w.-]+)(.*)", one).groups() for one in core]
    return RECIPE.format(
        version=metadata["Version"],
        python=metadata["Requires-Python"].removeprefix(">="),
        sdist=sdist.name.replace(metadata["Version"], "${{ version }}"),
        sha256=hashlib.sha256(sdist.read_bytes()).hexdigest(),
        requirements="\n".join(f"    - {name} {rest}" for name, rest in pairs),
        summary=metadata["Summary"],
        license=metadata["License-Expression"],
        maintainers=json.dumps(maintainers),
        **dict(url.split(", ") for url in metadata.get_all("Project-URL")),
    )


if __name__ == "__main__":
    recipe = recipe_of(sys.argv[1], sys.argv[2:])
    if importlib.util.find_spec("rattler_build"):
        from rattler_build import Stage0Recipe

        Stage0Recipe.from_yaml(recipe).render()
    print(recipe, end="")
