"""examples/anywhere.py on a Ray cluster, stopped and resumed on one host and back, sees the same global batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from anywhere_support import assert_goes_on_elsewhere


def test_a_run_goes_from_a_cluster_to_one_host_and_back(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    assert_goes_on_elsewhere(("alone", "on_ray", "alone", "on_ray"), tmp_path)
