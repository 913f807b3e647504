import pytest
from penchant import testing


@pytest.mark.parametrize("offer", testing.offers("penchant-example"), ids=testing.label)
def test_component_conforms(offer):
    testing.check_component(offer)


def test_probe_conforms_and_spread_matches_its_law(tmp_path):
    result = testing.check_probe(
        "output-spread", tmp_path, architecture="perceptron", dataset="two-blobs", networks=70
    )
    assert result.quantities["spread"].value == pytest.approx(
        result.arrays["means"].std(ddof=1), rel=1e-5
    )
