"""Losses and distances."""

from .harness import suite, table

CASES = table(
    "losses",
    """
F.binary_cross_entropy | F.binary_cross_entropy(a, b)
F.binary_cross_entropy_with_logits | F.binary_cross_entropy_with_logits(a, b)
F.cosine_embedding_loss | F.cosine_embedding_loss(a, b, two)
F.cosine_similarity | F.cosine_similarity(a, b)
F.cross_entropy | F.cross_entropy(a, j)
F.cross_entropy probabilities | F.cross_entropy(a, b)
F.ctc_loss | F.ctc_loss(t, target, (2, 2, 2), (1, 1, 1))
F.gaussian_nll_loss | F.gaussian_nll_loss(a, b, 1.0)
F.hinge_embedding_loss | F.hinge_embedding_loss(a, b)
F.huber_loss | F.huber_loss(a, b)
F.kl_div | F.kl_div(a, b, reduction="batchmean")
F.l1_loss | F.l1_loss(a, b)
F.margin_ranking_loss | F.margin_ranking_loss(two, two, two)
F.mse_loss | F.mse_loss(a, b)
F.multi_margin_loss | F.multi_margin_loss(a, j)
F.multilabel_margin_loss | F.multilabel_margin_loss(a, i)
F.multilabel_soft_margin_loss | F.multilabel_soft_margin_loss(a, b)
F.nll_loss | F.nll_loss(a, j)
F.pairwise_distance | F.pairwise_distance(a, b)
F.pdist | F.pdist(a)
F.poisson_nll_loss | F.poisson_nll_loss(a, b)
F.smooth_l1_loss | F.smooth_l1_loss(a, b)
F.soft_margin_loss | F.soft_margin_loss(a, b)
F.triplet_margin_loss | F.triplet_margin_loss(a, b, c)
F.triplet_margin_with_distance_loss | F.triplet_margin_with_distance_loss(a, b, c)
F.linear_cross_entropy | F.linear_cross_entropy(a, s, j)
""",
)

Losses = suite(CASES)
