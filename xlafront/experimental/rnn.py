"""Recurrent networks."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.nn.recurrent": """get_num_params_in_lstm init_lstm_weight lstm lstm_bwd lstm_fwd lstm_ref rnn_abstract_eval
        rnn_bwd_abstract_eval swap_lstm_gates unpack_lstm_weights""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
