"""Recurrent layers: whole sequences and single steps."""

from .harness import suite, table

CASES = table(
    "recurrent",
    """
gru_cell | m.gru_cell(a, b, w9, w9, b9, b9)
lstm_cell | m.lstm_cell(a, (b, c), w12, w12, b12, b12)
rnn_relu_cell | m.rnn_relu_cell(a, b, s, s, row, row)
rnn_tanh_cell | m.rnn_tanh_cell(a, b, s, s, row, row)
gru | m.gru(seq, state, [w9, w9, b9, b9], True, 1, 0.0, False, False, True)
lstm | m.lstm(seq, (state, state), [w12, w12, b12, b12], True, 1, 0.0, False, False, True)
rnn_relu | m.rnn_relu(seq, state, [s, s, row, row], True, 1, 0.0, False, False, True)
rnn_tanh | m.rnn_tanh(seq, state, [s, s, row, row], True, 1, 0.0, False, False, True)
""",
)

Recurrent = suite(CASES)
