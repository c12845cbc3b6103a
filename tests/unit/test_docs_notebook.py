"""docs/notebook.ipynb runs, and what its cells show is what the views say."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import rlscope_analysis
from page_traces import training

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs/notebook.ipynb"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("notebook")
    training(folder / "demo.duckdb").write()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        # Whose own: of sockets and event loops.
        warnings.simplefilter("ignore")
        import nbformat
        from nbclient import NotebookClient

        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "HOME"):
            patch.setenv(name, str(folder))
        patch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        client = NotebookClient(
            notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        client.execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cells: list[Any], source: str) -> str:
    """Return what the one cell with such a source shows, as text."""
    (cell,) = (cell for cell in cells if source in cell.source)
    (output,) = cell.outputs
    return str(output.data["text/plain"])


def test_tables_are_those_of_the_views(cells: list[Any], tmp_path: Path) -> None:
    with rlscope_analysis.open(training(tmp_path / "demo.duckdb").write()) as trace:
        findings = trace.sql("SELECT code, share FROM finding").fetchall()
        ((mean_ms,),) = trace.sql(
            "SELECT sum(time_ns) / 1e6 / (SELECT count(*) - 1 FROM iteration) FROM training_phase"
            " WHERE operation = 'backpropagation'"
        ).fetchall()
        ((waits,),) = trace.sql(
            "SELECT sum(count) FROM waits_on_peer AS w"
            " JOIN training_process AS p ON p.process_id = w.process_id AND p.is_lead"
            " WHERE w.peer_process_id IS NOT NULL"
        ).fetchall()
    assert findings
    said = shown(cells, "FROM finding")
    for code, share in findings:
        assert re.search(rf"{code}\s+{round(share, 3):.3f}\b", said), said
    phases = shown(cells, "groupby")
    found = re.search(r"backpropagation\s+([\d.]+)", phases)
    assert found, phases
    assert float(found[1]) == pytest.approx(mean_ms, abs=0.006)
    of_workers = re.findall(r"^\d+\s+\d+\s+(\d+)", shown(cells, "waits_on_peer"), re.MULTILINE)
    assert sum(map(int, of_workers)) == waits > 0


def test_charts_are_shown(cells: list[Any]) -> None:
    charts = [cell for cell in cells if re.fullmatch(r"trace\.plot\.\w+\(\)", cell.source)]
    assert len(charts) == 4
    for cell in charts:
        assert "text/html" in cell.outputs[0].data, cell.source
