import math
from collections import Counter, defaultdict
from importlib.resources import files
from itertools import pairwise

import pytest

from fairtrial.data import headline_tests

RATES = {
    "51c8cece234062bbdd003366": (2, [0.0054, 0.0124, 0.0382, 0.0071]),
    "5344236b227a27552100001d": (1, [0.0212, 0.0485, 0.0239, 0.0110]),
}
"""Best headline and click rates of two strong tests, from the catalogue, to four digits."""

LEADERS = {
    "53a07538539d25f875000047": (4, 0.0211, 0.0108),
    "540a42652f301bda4b000026": (4, 0.0170, 0.0086),
    "544a6f0e018148f78c000030": (3, 0.0225, 0.0095),
}
"""Best headline, its rate, and the rate of the second."""


@pytest.fixture(scope="module")
def tests():
    table = headline_tests()
    found = defaultdict(list)
    columns = (table[name] for name in ("test", "arm", "impressions", "clicks"))
    for test, arm, impressions, clicks in zip(*columns, strict=True):
        assert arm == len(found[test])  # arms count from 0 in the order of the rows
        found[test].append((impressions, clicks))
    return found


def rates(headlines):
    return [clicks / impressions for impressions, clicks in headlines]


def test_every_test_is_there_with_its_headlines(tests):
    assert sum(map(len, tests.values())) == 8507
    assert len(tests) == 1700
    sizes = Counter(map(len, tests.values()))
    assert (min(sizes), max(sizes)) == (4, 11)
    totals = [sum(impressions for impressions, _ in headlines) for headlines in tests.values()]
    assert (min(totals), max(totals)) == (8040, 64103)


def test_the_rows_of_a_test_stand_together():
    names = headline_tests()["test"]
    assert 1 + sum(a != b for a, b in pairwise(names)) == 1700


def test_clicks_never_exceed_impressions(tests):
    counts = [pair for headlines in tests.values() for pair in headlines]
    assert all(0 <= clicks <= impressions for impressions, clicks in counts)


@pytest.mark.parametrize(("test", "expected"), RATES.items())
def test_strong_tests_have_the_catalogues_rates(tests, test, expected):
    best, published = expected
    found = rates(tests[test])
    assert found == pytest.approx(published, abs=5e-5)
    assert found.index(max(found)) == best


@pytest.mark.parametrize(("test", "expected"), LEADERS.items())
def test_leaders_are_the_catalogues(tests, test, expected):
    found = rates(tests[test])
    first, second = sorted(found, reverse=True)[:2]
    assert (found.index(first), first, second) == pytest.approx(expected, abs=5e-5)


def test_few_tests_have_a_clear_winner(tests):
    ahead = [lead_in_errors(headlines) for headlines in tests.values()]
    assert sum(lead > 2 for lead in ahead) == 168
    assert sum(lead > 3 for lead in ahead) == 46


def lead_in_errors(headlines):
    def variance(rate, impressions):
        return rate * (1 - rate) / impressions

    ordered = sorted(((c / n, n) for n, c in headlines), reverse=True)
    (first, n_first), (second, n_second) = ordered[:2]
    return (first - second) / math.sqrt(variance(first, n_first) + variance(second, n_second))


def test_origin_and_licence_travel_with_the_data():
    folder = files("fairtrial.data") / "upworthy"
    text = (folder / "ORIGIN.md").read_text(encoding="utf-8")
    assert "Upworthy Research Archive" in text
    assert "Licence" in text
    assert len((folder / "headline_tests.csv.gz").read_bytes()) < 100_000
