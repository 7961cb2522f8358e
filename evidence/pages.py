"""Write the pages of `docs/evidence` from the stored figures: texts with tables in them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from evidence.growth import GROWTHS, exponent
from evidence.policies import POLICIES, slug
from evidence.questions import DELTA, QUESTIONS, Question
from evidence.records import RESULTS, Record, read_all
from evidence.scaling import SCALINGS
from evidence.scaling import on_paper as model

__all__ = ["pages", "write_pages"]

TEXTS = Path(__file__).parent / "texts"
PAGES = RESULTS.parent
_PLACE = re.compile(r"^\{\{(\w+)(?: ([\w-]+))?\}\}$", re.MULTILINE)

_WORKERS = (1, 10, 100, 1_000)
"""Numbers of workers of the computed tables."""
_WORKS = {"a minute": 60.0, "an hour": 3_600.0, "a day": 86_400.0, "a year": 365 * 86_400.0}
"""Processor seconds of all replications together."""
_LENGTHS = {"a tenth of a second": 0.1, "a second": 1.0, "10 seconds": 10.0, "an hour": 3_600.0}
"""Seconds that a worker measures for one pull."""

Records = Mapping[str, Record]
Figures = dict[str, Any]


def write_pages(records: Records | None = None, folder: Path = PAGES) -> Iterator[str]:
    """Write all pages; yield their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(read_all() if records is None else records).items():
        (folder / name).write_text(text, encoding="utf-8")
        yield name


def pages(records: Records) -> dict[str, str]:
    """Return the text of every page by the name of its file."""
    return {
        file.name: _PLACE.sub(lambda place: _filled(place, records), file.read_text("utf-8"))
        for file in sorted(TEXTS.glob("*.md"))
    }


def _filled(place: re.Match[str], records: Records) -> str:
    render, argument = _TABLES[place[1]], place[2]
    return "\n".join(render(records) if argument is None else render(records, argument))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> Iterator[str]:
    """Yield the lines of a table, whose first columns are texts and whose others are numbers.

    Examples
    --------
    >>> list(table(["rule", "pulls"], [["a", "1"]]))
    ['| rule | pulls |', '|---|--:|', '| a | 1 |']
    """
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * texts}{'--:|' * (len(head) - texts)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with that many significant digits, and all digits before the point.

    Examples
    --------
    >>> number(12345.6), number(1.2345), number(0.0123456), number(0.0), number(None)
    ('12,346', '1.23', '0.0123', '0', '-')
    """
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    return f"{value:,.{decimals}f}"


# ------------------------------------------------------------------------------- provenance


def provenance(records: Records, beginning: str = "") -> Iterator[str]:
    """Yield a table that says where figures come from, and whether the machine was busy."""
    chosen = [record for part, record in records.items() if part.startswith(beginning)]
    if not chosen:
        yield "*Nothing has been measured yet.*"
        return
    chosen.sort(key=_origin)
    rows, busy = [], False
    for origin, grouped in groupby(chosen, key=_origin):
        group = list(grouped)
        loads = [record.machine["load"] for record in group]
        busy = busy or max(loads) > group[0].machine["cores"]
        commit, date, seed, effort, processor, cores, python, numpy, numba = origin
        versions = f"{python}, {numpy}, {numba}"
        machine = f"{processor}, {cores} cores"
        load = " to ".join(f"{each:g}" for each in sorted({min(loads), max(loads)}))
        rows.append(
            [
                *(f"`{commit}`", date, machine, versions, str(seed), effort, str(len(group))),
                *(_processor_minutes(group), load),
            ]
        )
    head = ["commit", "day", "machine", "Python, numpy, numba", "seed", "effort"]
    yield from table([*head, "parts", "processor minutes", "load"], rows, texts=4)
    yield ""
    command = f"./dev evidence {beginning}".strip()
    yield f"Measured with `{command}`, with the `--effort` and `--seed` of the table."
    if busy:
        yield (
            "**The machine was busy**: more processes were running or waiting (load) than it has "
            "cores. All times are processor time, which other processes lengthen, too, because "
            "they share its caches. Pulls and errors do not depend on this."
        )


def _processor_minutes(records: list[Record]) -> str:
    times = [record.processor_seconds for record in records]
    known = [seconds for seconds in times if seconds is not None]
    return number(sum(known) / 60, 2) if len(known) == len(times) else "-"


def _origin(record: Record) -> tuple[Any, ...]:
    machine, versions = record.machine, record.machine["versions"]
    return (
        record.commit[:10],
        record.date,
        record.seed,
        f"{record.effort:g} s",
        *(machine["processor"], machine["cores"], machine["python"]),
        *(versions["numpy"], versions["numba"]),
    )


# ---------------------------------------------------------------------------------- policies


def decisions(records: Records, family: str) -> Iterator[str]:
    """Yield a table of all policies for each question of a family."""
    bounds = _by_case(records.get(f"bounds/{family}"))
    after = _by_case(records.get(f"labels/{family}"))
    for question in QUESTIONS[family]:
        bound = bounds.get(question.name, {}).get("lower_bound")
        yield from _heading(question, bound)
        rows = []
        for policy, figures in _of_policies(records, family, question):
            if "missing" in figures:
                continue
            low, high = figures["interval"]
            shown = f"{figures['wrong']} [{_share(low)}, {_share(high)}]"
            ratio = figures["mean"] / bound if bound and not figures["undecided"] else None
            tail = figures["quantile_99"] / bound if bound and not figures["undecided"] else None
            claimed = figures["label"] if "budget" not in figures else "none"
            if question.broken and claimed != "none" and "label" in after.get(policy, {}):
                claimed = _changed(claimed, after[policy])
            rows.append(
                [
                    policy,
                    claimed,
                    number(figures["replications"], 1),
                    f"{number(figures['mean'])} ({number(figures['standard_error'], 2)})",
                    number(ratio),
                    number(tail),
                    f"**{shown}**" if low > DELTA else shown,
                    number(figures["undecided"], 1),
                    number(figures["microseconds"], 2),
                ]
            )
        head = ["policy", "label", "runs", "mean pulls", "mean / bound", "99 % / bound"]
        yield from table([*head, "wrong", "undecided", "µs a pull"], rows, texts=2)
        yield from _left_out(records, family, question)
        yield ""


def shares(records: Records, family: str = "allocation") -> Iterator[str]:
    """Yield a table of all allocation policies for each question."""
    for question in QUESTIONS[family]:
        yield from _heading(question, None)
        rows = []
        for policy, figures in _of_policies(records, family, question):
            if "missing" in figures:
                continue
            behind = number(figures["behind"], 1)
            rows.append(
                [
                    policy,
                    figures["label"],
                    number(figures["replications"], 1),
                    behind if figures["behind"] == 0 else f"**{behind}**",
                    f"{number(figures['regret'])} ({number(figures['standard_error'], 2)})",
                    number(figures["microseconds"], 2),
                ]
            )
        head = ["policy", "label", "runs", "most behind", "r-regret", "µs a pull"]
        yield from table(head, rows, texts=2)
        yield from _left_out(records, family, question)
        yield ""


def _changed(before: str, found: Figures) -> str:
    """Return a label with what it was after a run, and after how many pulls it changed."""
    if found["label"] == before:
        return f"{before}, still so after {number(found['pulls'], 1)} pulls"
    return f"{before}, {found['label']} from pull {number(found['pulls'], 1)} on"


def _heading(question: Question, bound: float | None) -> Iterator[str]:
    yield f"### {question.kind[0].upper()}{question.kind[1:]}: {question.name}"
    yield ""
    if question.broken:
        yield (
            f"An assumption of all guarantees is false here: {question.broken}. So labels must "
            "change; the table says after how many pulls that happened in one live run."
        )
        yield ""
    told = [f"Runs end after {question.horizon:,} pulls at the latest"]
    if question.parallel > 1:
        told.append(f"{question.parallel} pulls are in flight at once")
    if bound is not None:
        told.append(f"the lower bound is {number(bound)} pulls")
    elif question.family != "allocation":
        told.append("there is no lower bound in this table")
    yield "; ".join(told) + "."
    yield ""


def _of_policies(
    records: Records, family: str, question: Question
) -> Iterator[tuple[str, Figures]]:
    for policy in POLICIES[family]:
        record = records.get(f"policies/{family}.{slug(policy)}")
        yield policy, _by_case(record).get(question.name, {"missing": "not measured yet"})


def _left_out(records: Records, family: str, question: Question) -> Iterator[str]:
    """Yield why policies are missing in the table, those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for policy, figures in _of_policies(records, family, question):
        if "missing" in figures:
            reason = figures["missing"].partition("; got ")[0]
            reasons.setdefault(reason, []).append(policy)
    for reason, policies in reasons.items():
        yield ""
        yield f"Not in the table: {', '.join(policies)} ({reason})."


def _by_case(record: Record | None) -> dict[str, Figures]:
    return {case["case"]: case for case in record.cases} if record else {}


def _share(value: float) -> str:
    return f"{value:.3f}".lstrip("0") or "0"


# ------------------------------------------------------------------------------- growth, peers


def growth(records: Records) -> Iterator[str]:
    """Yield a table of time and memory for each quantity that grows."""
    for name, grown in GROWTHS.items():
        record = records.get(f"growth/{name}")
        yield f"### {grown.name[0].upper()}{grown.name[1:]}: {grown.policy}"
        yield ""
        if record is None:
            yield "*Not measured yet.*"
            yield ""
            continue
        found = [case for case in record.cases if "missing" not in case]
        rows = [
            [
                number(float(case["case"]), 1),
                number(case["units"], 1),
                number(case["total_seconds"]),
                number(case["microseconds"]),
                number(case["megabytes"]),
                number(max(case["growth_megabytes"], 0.0), 2),
            ]
            for case in found
        ]
        unit = grown.unit
        head = [grown.name, f"{unit}s", "seconds", "µs each", "peak MB", "MB more"]
        yield from table(head, rows, texts=0)
        yield ""
        sizes = [float(case["case"]) for case in found]
        totals = [case["total_seconds"] for case in found]
        power, last = exponent(sizes, totals), exponent(sizes[-2:], totals[-2:])
        if power is not None:
            yield f"Exponent of the total time: {power:g}; of the two largest sizes: {last:g}."
        for case in record.cases:
            if "missing" in case:
                yield f"{number(float(case['case']), 1)}: {case['missing']}."
        for case in found:
            if "measured" in case:
                yield _origin_of(number(float(case["case"]), 1), case["measured"])
        yield ""


def scaling(records: Records) -> Iterator[str]:
    """Yield a table of the efficiency of each kind of workers."""
    rows, missing = [], []
    for name, scaled in SCALINGS.items():
        record = records.get(f"workers/{name}")
        if record is None:
            yield f"*{scaled.name}: not measured yet.*"
            yield ""
            continue
        for case in record.cases:
            if "missing" in case:
                missing.append(f"{case['case']} {scaled.name} ({case['missing']})")
                continue
            rows.append(
                [
                    scaled.name,
                    case["case"],
                    number(case["replications"], 1),
                    number(case["alone_seconds"]),
                    number(case["seconds"]),
                    number(case["efficiency"], 2),
                    number(case["alone_processor_seconds"]),
                    number(case["processor_seconds"]),
                ]
            )
    head = ["workers", "number", "replications", "seconds by one", "seconds", "efficiency"]
    yield from table([*head, "processor by one", "processor"], rows)
    if missing:
        yield ""
        yield f"Not in the table: {'; '.join(missing)}."


def on_paper(records: Records) -> Iterator[str]:
    """Yield what more workers would gain, computed from the measured cost of a task."""
    record = records.get("workers/dask")
    cases = [case for case in record.cases if "missing" not in case] if record else []
    if not cases:
        yield "*Not computed: the cost of a task was not measured yet.*"
        return
    task = cases[-1]["task_seconds"]
    yield f"A task costs Dask's scheduler and client {number(1e3 * task, 2)} ms."
    yield ""
    head = ["work of all replications", *map(_workers, _WORKERS)]
    rows = [
        [name, *(number(model(work, workers, task), 2) for workers in _WORKERS)]
        for name, work in _WORKS.items()
    ]
    yield from table(head, rows)


def one_study(records: Records) -> Iterator[str]:
    """Yield which part of their time a study's workers measure, by the length of a measurement."""
    events = _by_case(records.get("growth/events"))
    known = [case for case in events.values() if "missing" not in case]
    if not known:
        yield "*Not computed: the cost of an event was not measured yet.*"
        return
    pair = 2e-6 * known[-1]["microseconds"]
    yield f"A pull and its result cost the process that writes {number(1e3 * pair, 2)} ms."
    yield ""
    head = ["a measurement takes", *map(_workers, _WORKERS)]
    rows = [
        [name, *(number(min(1.0, (length + pair) / (workers * pair)), 2) for workers in _WORKERS)]
        for name, length in _LENGTHS.items()
    ]
    yield from table(head, rows)


def _workers(count: int) -> str:
    return f"{count:,} workers" if count > 1 else "1 worker"


def coins(records: Records) -> Iterator[str]:
    """Yield the table of rules that find the best of five coins."""
    rows = [
        [
            _name(case),
            number(case["replications"], 1),
            number(case["mean"]),
            number(case["quantile_99"]),
            f"{case['wrong']} [{', '.join(map(_share, case['interval']))}]",
            number(case["undecided"], 1),
            number(case["microseconds"]),
        ]
        for case in _measured(records, "peers/coins")
    ]
    head = ["rule", "runs", "mean pulls", "99 %", "wrong", "undecided", "µs a pull"]
    yield from _peers(records, "peers/coins", head, rows)


def traffic(records: Records) -> Iterator[str]:
    """Yield the table of rules that serve traffic."""
    rows = [
        [
            _name(case),
            number(case["reward"]),
            number(case["behind"], 1),
            number(case["least_share"], 2),
            number(case["microseconds"]),
        ]
        for case in _measured(records, "peers/traffic")
    ]
    head = ["rule", "mean reward", "most behind", "least share", "µs a decision"]
    yield from _peers(records, "peers/traffic", head, rows)


def tuning(records: Records) -> Iterator[str]:
    """Yield the table of searches."""
    rows = [
        [
            _name(case),
            case["promise"],
            case["chosen"],
            number(case["fits"], 1),
            number(case["cpu_seconds"]),
        ]
        for case in _measured(records, "peers/tuning")
    ]
    head = ["search", "promise", "depth chosen", "fits", "processor seconds"]
    yield from _peers(records, "peers/tuning", head, rows, texts=2)


def looks(records: Records) -> Iterator[str]:
    """Yield the table of rules that are looked at again and again."""
    rows = [
        [
            _name(case),
            number(case["replications"], 1),
            f"{case['wrong']} [{', '.join(map(_share, case['interval']))}]",
            _share(case["found"]),
            number(case["visitors"], 4),
        ]
        for case in _measured(records, "peers/looks")
    ]
    head = ["rule", "runs", "equal: one is named", "better one found", "visitors until then"]
    yield from _peers(records, "peers/looks", head, rows)


def intervals(records: Records) -> Iterator[str]:
    """Yield the table of intervals of a mean."""
    rows = [
        [
            _name(case),
            number(case["replications"], 1),
            *(number(case[name]) for name in ("half", "rare", "narrow")),
            f"{case['missed']} [{', '.join(map(_share, case['interval']))}]",
            number(case["milliseconds"], 2),
        ]
        for case in _measured(records, "peers/intervals")
    ]
    widths = ["width: rate .5", "rate .05", "narrow"]
    head = ["interval", "runs", *widths, "missed", "processor ms a run"]
    yield from _peers(records, "peers/intervals", head, rows)


def claims(records: Records) -> Iterator[str]:
    """Yield the table of claims that a rate is above a floor."""
    rows = [
        [
            _name(case),
            number(case["replications"], 1),
            f"{case['wrong']} [{', '.join(map(_share, case['interval']))}]",
            _share(case["found"]),
            number(case["results"]),
            number(case["milliseconds"], 2),
        ]
        for case in _measured(records, "peers/claims")
    ]
    head = ["rule", "runs", "rate .3: claimed", "rate .4: claimed", "results until then"]
    yield from _peers(records, "peers/claims", [*head, "processor ms a run"], rows)


def proposals(records: Records) -> Iterator[str]:
    """Yield the table of searches for a good reaction."""
    rows = [
        [
            _name(case),
            number(case["replications"], 1),
            f"{number(case['mean'])} ({number(case['standard_error'], 2)})",
            number(case["worst"]),
            number(case["cpu_seconds"], 2),
        ]
        for case in _measured(records, "peers/proposals")
    ]
    head = ["who proposes", "runs", "mean best yield", "worst run", "processor seconds a run"]
    yield from _peers(records, "peers/proposals", head, rows)


def _peers(
    records: Records, part: str, head: list[str], rows: list[list[str]], texts: int = 1
) -> Iterator[str]:
    yield from table(head, rows, texts)
    record = records.get(part)
    for case in record.cases if record else ():
        if "missing" in case:
            yield ""
            yield f"Not in the table: {case['case']} ({case['missing']})."
    for case in _measured(records, part):
        if "measured" in case:
            yield ""
            yield _origin_of(case["case"], case["measured"])


def _origin_of(case: str, measured: dict[str, str]) -> str:
    """Return where figures come from that the last run of their part left as they were."""
    commit, date, command = measured["commit"][:10], measured["date"], measured["command"]
    return f"{case}: measured on {date}, commit `{commit}`, with `{command}`."


def _measured(records: Records, part: str) -> Iterator[Figures]:
    record = records.get(part)
    yield from (case for case in (record.cases if record else ()) if "missing" not in case)


def _name(case: Figures) -> str:
    package, _, rest = case["case"].partition(", ")
    return f"{package} {case['version']}, {rest}"


# ------------------------------------------------------------------------------ papers, limits


def papers(records: Records) -> Iterator[str]:
    """Yield the table of all comparisons with published or reference values."""
    rows = []
    for part, record in records.items():
        for case in record.cases if part.startswith("papers/") else ():
            if "missing" in case:
                rows.append([part.removeprefix("papers/"), case["missing"], "-", "-"])
            else:
                rows.append(
                    [case["title"], number(case["agree"], 1), number(case["compared"], 1),
                     number(case.get("processor_seconds"))]
                )  # fmt: skip
    if not rows:
        yield "*Not measured in this run of the evidence.*"
        return
    yield from table(["paper", "agree", "compared", "processor seconds"], rows)


def disagreements(records: Records) -> Iterator[str]:
    """Yield all comparisons that do not agree."""
    for part, record in records.items():
        for case in record.cases if part.startswith("papers/") else ():
            for line in case.get("disagree", ()):
                yield f"- {part.removeprefix('papers/')}: {line}"


def given_up(records: Records) -> Iterator[str]:
    """Yield everything that was tried and gave no figures, except what a policy refuses."""
    rows = [
        [part, case["case"], case["missing"]]
        for part, record in records.items()
        for case in record.cases
        if "missing" in case and not case["missing"].startswith("refused")
    ]
    yield from table(["part", "case", "why"], rows, texts=3)


_TABLES: dict[str, Callable[..., Iterator[str]]] = {
    "claims": claims,
    "coins": coins,
    "decisions": decisions,
    "disagreements": disagreements,
    "given_up": given_up,
    "growth": growth,
    "intervals": intervals,
    "looks": looks,
    "on_paper": on_paper,
    "one_study": one_study,
    "papers": papers,
    "proposals": proposals,
    "provenance": provenance,
    "scaling": scaling,
    "shares": shares,
    "traffic": traffic,
    "tuning": tuning,
}
"""What the places in the texts stand for: ``{{name}}`` or ``{{name argument}}``."""
