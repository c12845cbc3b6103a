"""Libraries in which phases are found, as they are and as another version might be."""

from pathlib import Path

WHOLE = """
class Env:
    def reset(self, seed=None):
        return 0, {}
    def step(self, action):
        return 0, 0.0, False, False, {}
    def close(self):
        pass
"""
RENAMED_METHOD = WHOLE.replace("def reset", "def restart")
RENAMED_CLASS = WHOLE.replace("class Env", "class Environment")


def make_gymnasium(folder: Path, core: str) -> Path:
    """Write a package gymnasium whose module core is this; return the folder for PYTHONPATH."""
    package = folder / "gymnasium"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "core.py").write_text(core)
    return folder
