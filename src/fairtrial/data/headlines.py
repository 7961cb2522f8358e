"""Headline tests as experiments: how often each headline was shown, and clicked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairtrial.core.tables import read_table

__all__ = ["headline_tests"]


def headline_tests() -> dict[str, list[Any]]:
    """Return 1,700 randomised headline tests of a news site as columns.

    A row is one headline of a test; the rows of a test are consecutive. A test has 4 to 11
    headlines and 8,040 to 64,103 impressions. In most tests no headline is clearly best: only in
    168 is the first more than two standard errors ahead of the second.

    Returns
    -------
    dict of str to list
        ``test`` (text), ``arm`` (integer, from 0 in every test), ``impressions`` and
        ``clicks`` (integers).

    References
    ----------
    Matias, Munger, Aubin Le Quere and Ebersole, "The Upworthy Research Archive, a time
    series of 32,487 experiments in U.S. media", Scientific Data 8, 2021. The data's origin
    and licence are in ``ORIGIN.md`` beside them.

    Examples
    --------
    >>> headlines = headline_tests()
    >>> len(headlines["arm"]), len(set(headlines["test"]))
    (8507, 1700)
    >>> headlines["clicks"][0], headlines["impressions"][0]
    (49, 3019)
    """
    path = Path(__file__).parent / "upworthy" / "headline_tests.csv.gz"
    table = read_table(path, text=["test_id"])
    return {
        "test": table["test_id"],
        "arm": [int(number) for number in table["arm"]],
        "impressions": [int(number) for number in table["impressions"]],
        "clicks": [int(number) for number in table["clicks"]],
    }
