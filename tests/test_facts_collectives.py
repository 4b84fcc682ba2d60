"""Measured collectives: every value says what it is, and agrees with what else is known of the devices."""

import pytest

from course_lib.cluster import collectives
from course_lib.estimate import facts
from course_lib.estimate.facts import collectives as measured
from tests.tables import each_of

EVERY = [(key, each) for key, many in measured.all_series().items() for each in many]


@each_of("key, each", EVERY)
def test_a_measurement_says_what_it_is(key, each):
    rate = each.bus_bandwidth
    assert all((rate.unit, rate.source, rate.date, rate.condition)) and each.url.startswith("https://")
    assert each.collective in collectives.BUS_FACTORS and each.ranks == each.nodes * 8
    assert facts.device(each.device) and each.nbytes >= 32_768 and rate > 0


def test_a_larger_message_is_never_much_slower_in_bandwidth():
    for key in ("8 × A100", "8 × H200, switch sums"):
        rates = [each.bus_bandwidth for each in measured.series(key)]
        assert all(later > 0.9 * earlier for earlier, later in zip(rates, rates[1:], strict=False))


def test_a_ring_stays_below_the_link_and_sums_in_the_switch_do_not():
    link = facts.device("H200 SXM").link_one_way
    assert measured.one("8 × H200, ring").bus_bandwidth < link < measured.one("8 × H200, NVLS").bus_bandwidth


def test_more_nodes_are_slower():
    rates = [measured.one("H100 nodes", nodes=nodes).bus_bandwidth for nodes in (1, 2, 4, 8, 16, 32, 64)]
    assert rates == sorted(rates, reverse=True)


def test_an_unknown_or_ambiguous_measurement_is_refused_in_words():
    with pytest.raises(ValueError, match="8 × A100"):
        measured.series("8 × A10")
    with pytest.raises(ValueError, match="read the whole series"):
        measured.one("8 × A100")
