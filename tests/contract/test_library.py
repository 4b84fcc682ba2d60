"""The library's own answer to an exercise is switched off while an answer is checked."""

from collections.abc import Mapping

from torch import nn

from contract.kit import graded
from course_grader.exercises import Card
from course_grader.records import Answer
from course_lib.cluster import collectives
from course_lib.parallel import data as data_parallel
from course_lib.parallel.schedules import GENERATORS
from tests.tables import each_card

Answers = tuple[Answer, ...]


def _rows(*named: tuple[object, ...]) -> Answers:
    """Functions that return the rows of the library's schedules of these names."""
    return tuple(
        lambda *sizes, _name=name, _more=more: GENERATORS[_name](*sizes[:2], *_more).rows for name, *more in named
    )


LIBRARY: Mapping[str, Answers] = {
    "ring-all-reduce": (collectives.ring_all_reduce,),
    "halving-doubling": (collectives.halving_doubling_all_reduce,),
    "reduce-scatter-half": (collectives.ring_reduce_scatter,),
    "average-gradients": (
        lambda comm, grads, examples: data_parallel.average_gradients(comm, map(nn.Parameter, grads)),
    ),
    "ddp-hooks": (lambda comm, model: data_parallel.DataParallel(comm, model).finish,),
    "ddp-buckets": (lambda comm, model, nbytes: data_parallel.DataParallel(comm, model, nbytes).finish,),
    "mean-metrics": (lambda comm, batches: data_parallel.mean_metrics(comm, loss=(1.0, 1.0), accuracy=(1.0, 1.0)),),
    "sampler": (lambda *given: data_parallel.indices_of(*given),),
    "three-schedules": _rows(("naive",), ("gpipe",), ("one_f_one_b",)),
    "interleaved-rows": _rows(("interleaved", 2)),
    "beat-1f1b": _rows(("zb_h1",)),
}
REFUSES = ("interleaved-rows",)  # one of its cases asks for a refusal, which an error may seem to be


@each_card(lambda card: card.id in LIBRARY)
def test_the_librarys_own_answer_is_switched_off(card: Card) -> None:
    report = graded(card.id, *LIBRARY[card.id])
    assert report.points <= (0.1 * report.maximum if card.id in REFUSES else 0)
    assert "switched off" in report.verdicts[0].message
