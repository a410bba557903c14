"""A study's file of results → a run of MLflow: its settings, mean rates per radius, and the file itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import MissingExtraError
from holdfast.study.store import Store
from holdfast.study.summary import StudySummary, summarize_study


def log_study(path: str | Path, *, confidence: float = 0.95, artifacts: bool = True) -> StudySummary:
    """Log a study to the active run of MLflow, or to a new one.

    Parameters of the run are the settings of the study, such as ``certify.tolerance``. Metrics are mean
    rates with the radius as their step: ``rate/<method>/<fraction>/<keep probability>``, and the ends of
    their guaranteed intervals, ``rate_low/…`` and ``rate_high/…``.

    Parameters
    ----------
    path : str or Path
        The file of results.
    confidence : float
        Of the intervals.
    artifacts : bool
        Also store the summary as JSON and the file of results with the run.

    Returns
    -------
    StudySummary
        What was logged.
    """
    try:
        import mlflow
    except ImportError as error:  # pragma: no cover - the test environment has it
        raise MissingExtraError("This needs MLflow: pip install mlflow-skinny") from error
    summary = summarize_study(path, confidence=confidence)
    with Store(path) as store:
        mlflow.log_params(dict(_flat(store.spec.plain())))
    for group in summary.groups:
        name = f"{group.method}/{group.top_fraction:g}/{group.keep_probability:g}"
        for mean in group.soft:
            mlflow.log_metric(f"rate/{name}", mean.mean, step=mean.radius)
            for end, value in mean.guaranteed._asdict().items():
                mlflow.log_metric(f"rate_{end}/{name}", value, step=mean.radius)
    if artifacts:
        mlflow.log_text(summary.to_json(), "summary.json")
        mlflow.log_artifact(str(path))
    return summary


def _flat(settings: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as dotted names; MLflow takes no parameter that is longer than 6,000 characters."""
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)[:6000]
