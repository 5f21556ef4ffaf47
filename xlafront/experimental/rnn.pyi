# Written by `python -m tests.stubs`.
from xlafront.nn.recurrent import get_num_params_in_lstm as get_num_params_in_lstm
from xlafront.nn.recurrent import init_lstm_weight as init_lstm_weight
from xlafront.nn.recurrent import lstm as lstm
from xlafront.nn.recurrent import lstm_bwd as lstm_bwd
from xlafront.nn.recurrent import lstm_fwd as lstm_fwd
from xlafront.nn.recurrent import lstm_ref as lstm_ref
from xlafront.nn.recurrent import rnn_abstract_eval as rnn_abstract_eval
from xlafront.nn.recurrent import rnn_bwd_abstract_eval as rnn_bwd_abstract_eval
from xlafront.nn.recurrent import swap_lstm_gates as swap_lstm_gates
from xlafront.nn.recurrent import unpack_lstm_weights as unpack_lstm_weights

