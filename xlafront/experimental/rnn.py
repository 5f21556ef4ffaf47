"""Recurrent networks."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.nn.recurrent": """get_num_params_in_lstm init_lstm_weight lstm lstm_bwd lstm_fwd lstm_ref rnn_abstract_eval
        rnn_bwd_abstract_eval swap_lstm_gates unpack_lstm_weights""",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
