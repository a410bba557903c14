"""Results → small pieces of HTML for notebooks: styled in place, without scripts, every text escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch
from typing import Any

from holdfast.attribution.methods import Attribution
from holdfast.bounds import Interval
from holdfast.certification.certificate import Certificate, known_rate
from holdfast.certification.comparison import Comparison
from holdfast.certification.curve import CertificateCurve
from holdfast.certification.mean_curve import MeanCurve
from holdfast.certification.probabilities import ProbabilityCurve
from holdfast.words import outward, percent, shortened

_BOX = "font:14px/1.5 system-ui,sans-serif;border-left:3px solid #1f8f7a;padding:.2em 0 .2em .9em;max-width:46em"
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#b0478a", "#b87f00", "#2f8fc7", "#5a6b70", "#8a8000")
"""Told apart by those who see few colours; legible on white and on black."""

_DASHES = ("", "7 3", "2 3", "9 3 2 3", "5 2", "1 2", "12 3", "4 2 1 2")
"""And by those who see none."""

_SMALL = "font-size:.85em;opacity:.8;margin:.4em 0 0"
_CELL = "padding:.15em .8em .15em 0;text-align:left;border:0;background:none"
_MOST_ROWS, _MOST_FEATURES, _LONGEST_NAME = 12, 10, 60
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 460, 230, 58, 14, 10, 44
"""Of a picture and of its margins, in pixels; it shrinks with the page."""

_TICK_ROOM, _MOST_DOTS = 34.0, 24


@singledispatch
def to_html(result: Any) -> str:
    """What notebooks show of a result: its sentence, unless there is something to draw."""
    return f'<div style="{_BOX}"><div style="white-space:pre-wrap">{_text(result)}</div>{_fold(result)}</div>'


@to_html.register
def _(certificate: Certificate) -> str:
    """A certificate: its rate, drawn with the interval, and its sentence."""
    is_exact = certificate.exact and certificate.judge_errors is None
    rate, (low, high) = known_rate(certificate) if is_exact else certificate.rate, certificate.true_interval
    head = f"<strong>{_percent(rate)}</strong> kept at radius {certificate.radius}"
    drawn = (
        '<svg width="160" height="12" viewBox="0 0 160 12" role="img" aria-label="rate and interval" '
        'style="vertical-align:middle;margin-left:.5em"><line x1="0" x2="160" y1="6" y2="6" stroke="#8a9a9a"/>'
        f'<rect x="{160 * low:.1f}" y="3" width="{max(1.0, 160 * (high - low)):.1f}" height="6" fill="{_COLORS[0]}" '
        f'opacity=".35"/><rect x="{160 * rate - 1.5:.1f}" y="0" width="3" height="12" fill="{_COLORS[0]}"/></svg>'
    )
    return _box(f"<div>{head}{', all masks counted' if is_exact else ''} {drawn}</div>", certificate)


@to_html.register
def _(curve: CertificateCurve) -> str:
    """A curve: drawn with its intervals, and as a table."""
    step = -(-len(curve) // _MOST_ROWS)
    shown = list(zip(curve.places, curve, strict=True))[::-step][::-1]
    rows = [(str(place), _percent(one.rate), _span(one.true_interval)) for place, one in shown]
    return _box(_plot({"": curve}) + _table((curve.unit, "rate", "interval"), rows), curve)


@to_html.register
def _(comparison: Comparison) -> str:
    """A comparison: a curve per explanation, the rates, and what is certified."""
    heads = ("", *(f"r = {radius}" for radius in comparison.radii[:_MOST_ROWS]))
    rows = []
    for i, (name, curve) in enumerate(zip(comparison.names, comparison.curves, strict=True)):
        key = '<svg width="30" height="10" aria-hidden="true" style="margin-right:.4em">'
        key += f'<line x1="0" x2="30" y1="5" y2="5" {_stroke(i)}/></svg>'
        rows.append((key + _text(name), *(_percent(rate) for rate in curve.rates[:_MOST_ROWS])))
    claims = ""
    for radius in comparison.radii[:_MOST_ROWS]:
        pairs = [f"{_text(better)} &gt; {_text(worse)}" for better, worse in comparison.ranking(radius)]
        claims += f"<li>r = {radius}: {', '.join(pairs) or 'cannot tell them apart'}</li>"
    listed = f'<ul style="margin:.4em 0;padding-left:1.2em">{claims}</ul>'
    curves = dict(zip(comparison.names, comparison.curves, strict=True))
    return _box(_plot(curves) + _table(heads, rows) + listed, comparison)


@to_html.register
def _(curve: MeanCurve) -> str:
    """A mean curve: drawn with the intervals for these inputs, and as a table."""
    step = -(-len(curve) // _MOST_ROWS)
    rows = [
        (str(mean.radius), _percent(mean.rate), _span(mean.interval), _span(mean.population))
        for mean in list(curve)[::-step][::-1]
    ]
    heads = ("radius", "rate", "these inputs", "population")
    return _box(_plot({"": curve}) + _table(heads, rows), curve)


@to_html.register
def _(scores: Attribution) -> str:
    """Scores: the largest as bars, those against the target on the other side."""
    largest = max(float(abs(scores.scores).max()), 1e-300)
    rows = []
    for i in scores.ranking[:_MOST_FEATURES]:
        name = f"feature {i}" if scores.feature_names is None else shortened(scores.feature_names[i], _LONGEST_NAME)
        rows.append((_text(name), _bar(float(scores.scores[i]) / largest), f"{scores.scores[i]:.3g}"))
    target = "" if scores.target is None else f" for <strong>{_text(scores.target_name or scores.target)}</strong>"
    head = f"<div>Scores by <strong>{_text(scores.method)}</strong>{target}</div>"
    more = f"<div>The {len(rows)} largest of {scores.n_features}.</div>" if scores.n_features > len(rows) else ""
    return f'<div style="{_BOX}">{head}{_table(("feature", "", "score"), rows)}{more}{_fold(scores)}</div>'


def _box(content: str, result: Any) -> str:
    """What is drawn of a result, its sentence, and what that says."""
    sentence = str(result).partition("\n")[0]
    return f'<div style="{_BOX}">{content}<p style="{_SMALL}">{_text(sentence)}</p>{_fold(result)}</div>'


def _fold(result: Any) -> str:
    """What a result explains, folded away; nothing for a part of one."""
    if not hasattr(result, "explain"):
        return ""
    return f'<details style="{_SMALL}"><summary>What this says</summary>{_text(result.explain())}</details>'


def _text(value: Any) -> str:
    return html.escape(str(value))


def _percent(share: float) -> str:
    return html.escape(percent(share))


def _span(interval: Interval) -> str:
    """An interval, rounded outwards as in the sentence of a certificate; a rate that is known has none."""
    if interval.low == interval.high:
        return "exact"
    low, high = outward(interval)
    return f"[{_percent(low)}, {_percent(high)}]"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of pieces that are escaped already."""
    top = "".join(f'<th scope="col" style="{_CELL}">{head}</th>' for head in heads)
    body = "".join("<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) + "</tr>" for row in rows)
    style = "border-collapse:collapse;margin:.3em 0;font-variant-numeric:tabular-nums"
    return f'<table style="{style}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def _bar(share: float) -> str:
    color = _COLORS[0] if share >= 0 else _COLORS[1]
    start = 60 if share >= 0 else 60 + 60 * share
    return (
        '<svg width="120" height="10" viewBox="0 0 120 10" aria-hidden="true">'
        '<line x1="60" x2="60" y1="0" y2="10" stroke="#8a9a9a"/>'
        f'<rect x="{start:.1f}" y="1" width="{abs(60 * share):.1f}" height="8" fill="{color}"/></svg>'
    )


def _stroke(i: int) -> str:
    """How the i-th line is drawn: by colour and by dashes."""
    dashes = _DASHES[i % len(_DASHES)]
    how = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'fill="none" stroke="{_COLORS[i % len(_COLORS)]}" stroke-width="2"{how}'


def _plot(curves: Mapping[str, CertificateCurve | MeanCurve]) -> str:
    """The rates from 0 to 100 % over radii or probabilities, each curve with its band, in the page's colour."""
    first = next(iter(curves.values()))
    places = first.places if isinstance(first, CertificateCurve) else first.radii
    start, width = places[0], max(places[-1] - places[0], 0) or 1
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def at(place: float, rate: float) -> tuple[str, str]:
        x = _LEFT + (right - _LEFT) * ((place - start) / width if len(places) > 1 else 0.5)
        return f"{x:.1f}", f"{_TOP + (bottom - _TOP) * (1 - rate):.1f}"

    drawn, label = "", 'fill="currentColor" font-size="12"'
    for rate in (0.0, 0.25, 0.5, 0.75, 1.0):
        _, y = at(start, rate)
        drawn += f'<line x1="{_LEFT}" x2="{right}" y1="{y}" y2="{y}" stroke="currentColor" stroke-opacity=".2"/>'
        drawn += f'<text x="{_LEFT - 6}" y="{y}" dy=".35em" text-anchor="end" {label}>{rate:.0%}</text>'
    last = -_TICK_ROOM
    for place in places:
        x, _ = at(place, 0)
        if float(x) - last >= _TICK_ROOM:
            last = float(x)
            drawn += f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" {label}>{place:g}</text>'
    is_distribution = isinstance(first, ProbabilityCurve)
    what = "probability that each other feature is revealed" if is_distribution else "radius (features added)"
    middle = (_LEFT + right) // 2
    drawn += f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle" {label}>{what}</text>'
    upright = f'transform="rotate(-90 12 {(_TOP + bottom) // 2})"'
    drawn += f'<text x="12" y="{(_TOP + bottom) // 2}" {upright} text-anchor="middle" {label}>stability rate</text>'
    told = []
    for i, (name, curve) in enumerate(curves.items()):
        values: Iterable[Any] = curve
        points = [
            (place, value.rate, getattr(value, "true_interval", value.interval))
            for place, value in zip(places, values, strict=True)
        ]
        line = [at(place, rate) for place, rate, _ in points]
        edge = [at(place, interval.high) for place, _, interval in points]
        edge += [at(place, interval.low) for place, _, interval in points][::-1]
        band = " ".join(map(",".join, edge))
        drawn += f'<polygon points="{band}" fill="{_COLORS[i % len(_COLORS)]}" opacity=".18"/>'
        drawn += f'<polyline points="{" ".join(map(",".join, line))}" {_stroke(i)}/>'
        for x, y in line if len(line) <= _MOST_DOTS else ():
            drawn += f'<circle cx="{x}" cy="{y}" r="2.5" fill="{_COLORS[i % len(_COLORS)]}"/>'
        (begin, from_rate, _), (end, to_rate, _) = points[0], points[-1]
        said = f"{shortened(name, _LONGEST_NAME)}: " if name else ""
        told.append(f"{said}{percent(from_rate)} at {begin:g}, {percent(to_rate)} at {end:g}")
    alternative = html.escape(f"stability rate by {what}; {'; '.join(told)}", quote=True)
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{alternative}" style="max-width:100%;height:auto;margin:.3em 0">{drawn}</svg>'
    )
