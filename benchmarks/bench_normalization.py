"""Softmax, normalisation and dropout."""

from .harness import suite, table

CASES = table(
    "normalization",
    """
softmax | m.softmax(a, -1)
log_softmax | m.log_softmax(a, -1)
F.softmax | F.softmax(a, dim=-1)
F.softmin | F.softmin(a, dim=-1)
F.batch_norm | F.batch_norm(x2, g, g, g, g)
F.batch_norm train | F.batch_norm(x2, g, g, g, g, training=True)
F.group_norm | F.group_norm(x2, 2, g, g)
F.instance_norm | F.instance_norm(x2)
F.layer_norm | F.layer_norm(t, (4,), g, g)
F.local_response_norm | F.local_response_norm(x2, 2)
F.normalize | F.normalize(a)
F.rms_norm | F.rms_norm(t, (4,), g)
F.dropout | F.dropout(a, 0.5, True)
F.dropout eval | F.dropout(a, 0.5, False)
F.dropout2d | F.dropout2d(x2, 0.5, True)
F.alpha_dropout | F.alpha_dropout(a, 0.5, True)
F.feature_alpha_dropout | F.feature_alpha_dropout(x2, 0.5, True)
F.dropout3d | F.dropout3d(x3, 0.5, True)
native_batch_norm | m.native_batch_norm(x2, g, g, g, g, False, 0.1, 1e-5)
native_group_norm | m.native_group_norm(x2, g, g, 1, 4, 64, 2, 1e-5)
native_layer_norm | m.native_layer_norm(t, (4,), g, g, 1e-5)
""",
)

Normalization = suite(CASES)
