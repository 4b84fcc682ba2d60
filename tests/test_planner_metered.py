"""The planner's bytes by axis against the metered cluster, on which the small transformer really trains."""

import pytest

from course_lib.estimate.memory import Layout
from course_lib.parallel import planner
from course_lib.parallel.mesh.training import Job as Training
from course_lib.parallel.mesh.training import bytes_by_axis
from tests.tables import each_of

WIDTH = 8  # bytes: the metered training computes in fp64


@pytest.mark.slower
@each_of(
    "sizes",
    [{"dp": 2}, {"cp": 2}, {"pp": 2}, {"tp": 2}, {"dp": 2, "cp": 2}, {"dp": 2, "pp": 2, "cp": 2, "tp": 2}],
    ids=str,
)
def test_bytes_by_axis_are_the_metered_ones(sizes):
    training = Training()
    got = bytes_by_axis(sizes, training)
    dp, pp, cp, tp = (sizes.get(axis, 1) for axis in ("dp", "pp", "cp", "tp"))
    job = planner.Job(
        model=training.config,
        seq=training.config.seq_len,
        sequences=training.sequences,
        software=planner.Software(split_messages=False),
    )
    where = Layout(tp=tp, cp=cp, pp=pp, dp=dp, microbatches=training.microbatches)
    said = {name: float(each) for name, each in planner.traffic(job, where, WIDTH, gradient=WIDTH).items()}
    assert got["pp"] == pytest.approx(said["pp"], abs=33)
    assert got["cp"] == pytest.approx(said["cp"])
    residual = WIDTH * training.sequences * training.config.seq_len / dp / cp * training.config.hidden
    ends = 4 * (tp - 1) / tp * residual / pp  # the embedding's all-reduce on the first stage, the head's on the last
    assert got["tp"] == pytest.approx(said["tp"] + ends, rel=0.02)  # and three numbers a token of the loss
    if pp == 1:
        assert got["dp"] == pytest.approx(said["dp"], rel=0.02)  # the final norm and learned positions are left out
