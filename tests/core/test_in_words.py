"""Every problem's question in words."""

import numpy as np
import pytest

from fairtrial import allocation, causal, delayed, linear, subpopulations

TWO = ["old", "new"]


@pytest.mark.parametrize(
    "problem",
    [
        subpopulations.Problem(TWO, 2, noise_std=1.0, control="old"),
        delayed.Problem(TWO, noise_std=1.0, control="old"),
        linear.Problem(np.eye(2), arms=TWO, noise_std=1.0, control="old"),
    ],
    ids=lambda problem: problem.family,
)
def test_the_control_is_named(problem):
    assert problem.in_words()["Control"] == "old"


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (
            subpopulations.Problem(TWO, {"f": 0.4, "m": 0.6}, floors=300, reward_range=(0, 1200)),
            {
                "Question": "Which of old, new has the largest mean, among those whose mean in "
                "every group is at least 300?",
                "Weight of each group": "f 40.0%, m 60.0%",
                "Rewards": "A reward lies between 0 and 1,200",
            },
        ),
        (
            subpopulations.Problem(
                TWO, 1, floors=1.5, ceilings=-1, noise_std=2, direction="minimize", tolerance=0.1
            ),
            {
                "Question": "Which of old, new has the smallest mean, or within 0.1 of it, among "
                "those whose mean is at most 1.5 and at least -1?",
                "Rewards": "A reward has a standard deviation of 2",
            },
        ),
        (
            subpopulations.Problem(
                TWO, ["f", "m"], floors=[[0, None], [1, 2]], noise_std=[[1, 2], [3, 4]]
            ),
            {
                "Question": "Which of old, new has the largest mean, among those whose mean in "
                "every group is at least the limit of its cell, where there is one?",
                "Weight of each group": "f 50.0%, m 50.0%",
                "Rewards": "A reward has a standard deviation between 1 and 4, as stated",
            },
        ),
        (
            linear.Problem(np.eye(3), arms=["a", "b", "c"], noise_std="estimated"),
            {
                "Question": "Which of a, b, c has the largest mean, if means are linear in "
                "3 features?",
                "Rewards": "A reward has a standard deviation that is estimated from the data",
            },
        ),
        (
            delayed.Problem(30, top=3, noise_std=1, feedback="unbiased", reading_std=0.5),
            {
                "Question": "Which 3 of the 30 from 0 to 29 have the largest means?",
                "Readings": "They come before the outcome; their kind is 'unbiased'",
                "Outcomes": "An outcome has a standard deviation of 1",
            },
        ),
        (
            allocation.Problem(TWO, ["1/5", "3/10"]),
            {
                "Question": "Which arm for each visitor, so that rewards are large and every arm "
                "always has its share?",
                "Guaranteed shares": "old 20.0%, new 30.0%",
                "Rewards": "A reward lies between 0 and 1",
            },
        ),
        (
            allocation.Problem(3, {"0": "1/5"}, groups={"late": ("2/5", ["1", "2"])}),
            {
                "Question": "Which arm for each visitor, so that rewards are large and every arm "
                "always has its share?",
                "Guaranteed shares": "0 20.0%, 1 0.0%, 2 0.0%, late (1, 2 together) 40.0%",
                "Rewards": "A reward lies between 0 and 1",
            },
        ),
    ],
    ids=["limits", "minimised", "limits by cell", "linear", "delayed", "shares", "joint shares"],
)
def test_a_problem_says_in_words_what_it_asks(problem, said):
    assert problem.in_words() == said


def test_a_causal_problem_says_what_is_fair():
    problem, _ = causal.chain(0.4, {"a": [[1, 0], [0, 1]], "b": [[0, 1], [1, 0]]}, [0.1, 0.9], 0.2)
    words = problem.in_words()
    assert words["Question"].startswith("Which way to set ")
    assert words["Ways to set it"] == "a, b"
    assert words["Fair"].endswith(" alone differ by at most 0.2")
