"""How similar representations are, between layers and between networks.

CKA (unbiased), Procrustes similarity and mutual nearest neighbours, with errors over samples and
with shuffled samples and untrained networks as nulls.

References: Kornblith et al., Similarity of neural network representations revisited, ICML 2019;
Nguyen, Raghu and Kornblith, Do wide and deep networks learn the same things?, ICLR 2021.
"""

import penchant

from penchant_representations.declarations import RepresentationSimilarity


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    """Probes this plugin offers."""
    return [RepresentationSimilarity]
