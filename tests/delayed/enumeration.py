"""Exact error rates of races, over all orders of the rows of many small tables at once."""

import copy
from collections import Counter


def error_rates(policy, tables, is_wrong, fits=lambda place, row: True):
    """Return the probability for each table that a race over its rows in random order errs.

    Tables share the races over common beginnings of their orders, so each beginning is raced once.
    A race that goes on until the last row is not counted: sums are exact then.

    Parameters
    ----------
    policy : PairedRacing
        A race before its first pull.
    tables : sequence of sequence of tuple
        Rows of scores, the same number in each table. A row can have a category in the end.
    is_wrong : callable
        ``is_wrong(rows, arm)`` says whether an answer is wrong.
    fits : callable
        ``fits(place, row)`` says whether a row can be in a place of the order.
    """
    rates = [0.0] * len(tables)

    def walk(policy, pull, rows, left):
        place = len(rows)
        if place == len(tables[0]) - 1:
            return
        for row in {row for rows_left, _ in left.values() for row in rows_left}:
            if not fits(place, row):
                continue
            after = {
                at: (rows_left - Counter([row]), chance * share_of(row, rows_left, place))
                for at, (rows_left, chance) in left.items()
                if rows_left[row]
            }
            branch = copy.deepcopy(policy, {id(policy.problem): policy.problem})
            following = tell_block(branch, pull, [*rows, row])
            if following is not None:
                walk(branch, following, [*rows, row], after)
                continue
            arm = int(branch.recommend().arm)
            for at, (_, chance) in after.items():
                rates[at] += chance * is_wrong(tables[at], arm)

    def share_of(row, rows_left, place):
        return rows_left[row] / sum(n for other, n in rows_left.items() if fits(place, other))

    walk(policy, policy.ask(), [], {at: (Counter(rows), 1.0) for at, rows in enumerate(tables)})
    return rates


def tell_block(policy, pull, rows):
    """Tell the scores of rows; return the first pull on a later block, None if the race ends."""
    while pull.tag < len(rows):
        policy.tell(pull, float(rows[pull.tag][pull.action]))
        if policy.stopped:
            return None
        pull = policy.ask()
    return pull
