"""Pictures of a simulation, a study or a policy's progress, and a report on one page.

Every function draws on a `matplotlib.figure.Figure` of its own, or where you tell it to,
and returns the figure: nothing is shown, and no global state of matplotlib is touched.
`write_report` needs no matplotlib.
"""

from fairtrial.plots._allocation import allocation
from fairtrial.plots._evidence import evidence
from fairtrial.plots._means import means
from fairtrial.plots._overview import overview
from fairtrial.plots._page.report import write_report
from fairtrial.plots._stopping_times import stopping_times

__all__ = ["allocation", "evidence", "means", "overview", "stopping_times", "write_report"]
