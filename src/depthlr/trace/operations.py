"""Which torch functions mean what to depth counting, by the name they carry in `torch.overrides`."""

from collections.abc import Mapping
from typing import Any


def operation_name(function: Any, options: Mapping[str, Any]) -> str:
    """What the lists below call a function: `mm.default` is mm, and `interpolate` is one function a mode."""
    name = str(getattr(function, "__name__", "")).partition(".")[0]
    return f"interpolate_{options['mode']}" if name == "interpolate" and "mode" in options else name


# A weighted operation multiplies the signal by a parameter: one depth unit on a plain path.
TRANSPOSED_CONVOLUTIONS = frozenset({"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"})
CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d", "convolution"}) | TRANSPOSED_CONVOLUTIONS
OUTPUT_FIRST = frozenset({"linear", "bilinear"})  # weights of shape (out, in, ...)
LAST_CONTRACTED = frozenset({"inner", "linalg_vecdot"})  # both factors are summed along their last dimension
LOOKUPS = frozenset({"embedding", "embedding_bag", "__getitem__", "index", "index_select"})
MATRIX_WITH_BIAS = CONVOLUTIONS | frozenset(
    {"linear", "bilinear", "addmm", "addmv", "addbmm", "baddbmm", "addmm_", "baddbmm_", "_sparse_addmm"}
)
MATRIX_PRODUCTS = frozenset(
    {"matmul", "__matmul__", "__rmatmul__", "linalg_matmul", "mm", "bmm", "mv", "dot", "vdot", "inner", "linalg_vecdot",
     "einsum", "tensordot", "linalg_multi_dot", "chain_matmul", "_sparse_mm", "_grouped_mm", "grouped_mm", "_scaled_mm",
     "scaled_mm"}
)  # fmt: skip
RECURRENT_CELLS = frozenset({"lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"})
RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
IN_PROJECTION = "in_projection"  # of attention that is seen as one call
ATTENTION = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward"})

# A residual update adds two values that both depend on the input.
SCALED_ADDITIONS = frozenset({"addcmul", "addcmul_", "addcdiv", "addcdiv_", "lerp", "lerp_"})
ADDITIONS = SCALED_ADDITIONS | frozenset(
    {"add", "__add__", "__radd__", "__iadd__", "add_", "sub", "__sub__", "__rsub__", "__isub__", "sub_", "subtract",
     "rsub", "index_add", "index_add_", "scatter_add", "scatter_add_"}
)  # fmt: skip
CONCATENATIONS = frozenset(
    {"cat", "stack", "vstack", "concat", "concatenate", "hstack", "dstack", "column_stack",
     "__setitem__"}  # new values beside those that are left as they were
)  # fmt: skip

# A parameter joins the signal as a position, as a token or as a bias of attention scores, and multiplies nothing.
JOINS = (ADDITIONS - SCALED_ADDITIONS) | CONCATENATIONS | ATTENTION | frozenset({"where"})

# Results that depend on a tensor's shape, type or device, but not on its values.
SHAPE_ONLY = frozenset(
    {"ones_like", "zeros_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like", "new_ones",
     "new_zeros", "new_empty", "new_full", "new_tensor", "bernoulli_"}
)  # fmt: skip

ELEMENTWISE_PRODUCTS = frozenset({"mul", "__mul__", "__rmul__", "__imul__", "mul_", "multiply"})
MULTIPLICATIONS = ELEMENTWISE_PRODUCTS | frozenset({"div", "__truediv__"})
GATES = frozenset({"sigmoid", "sigmoid_", "softmax", "hardsigmoid", "topk", "gumbel_softmax"})
NORMS = frozenset(
    {"layer_norm", "batch_norm", "group_norm", "instance_norm", "rms_norm", "local_response_norm", "native_layer_norm",
     "native_group_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional"}
)  # fmt: skip

# Functions that pass values on without mixing features: what feeds a weight is looked for behind them.
TRANSPARENT = frozenset(
    {"view", "reshape", "flatten", "unflatten", "permute", "transpose", "transpose_", "contiguous", "squeeze",
     "unsqueeze", "expand", "repeat", "movedim", "moveaxis", "swapaxes", "swapdims", "t", "__get__", "clone", "detach",
     "to", "type_as", "float", "half", "bfloat16", "double", "dropout", "dropout1d", "dropout2d", "dropout3d",
     "alpha_dropout", "feature_alpha_dropout", "dropout_", "pad", "max_pool1d", "max_pool2d", "max_pool3d",
     "boolean_dispatch", "adaptive_max_pool2d", "__getitem__", "select", "slice", "narrow", "chunk", "split", "roll",
     "cat", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "unfold", "im2col", "interpolate_nearest",
     "interpolate_nearest-exact", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "to_sparse",
     "to_dense"}
)  # fmt: skip

LINEAR = TRANSPARENT | ADDITIONS | MULTIPLICATIONS

POWERS = frozenset({"pow", "pow_", "__pow__"})
ACTIVATIONS = POWERS | frozenset(
    {"relu", "relu_", "gelu", "silu", "silu_", "tanh", "tanh_", "sigmoid", "sigmoid_", "elu", "elu_", "leaky_relu",
     "leaky_relu_", "selu", "selu_", "celu", "celu_", "softplus", "mish", "mish_", "hardswish", "hardswish_",
     "hardtanh", "hardtanh_", "relu6", "hardsigmoid", "hardsigmoid_", "logsigmoid", "log_sigmoid", "rrelu", "rrelu_",
     "softsign", "tanhshrink", "hardshrink", "softshrink", "threshold", "threshold_", "_threshold", "clamp", "clamp_",
     "clamp_min", "clamp_min_", "clamp_max", "clamp_max_", "clip", "clip_", "sin", "cos", "erf", "square", "square_"}
)  # fmt: skip
