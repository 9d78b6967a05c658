"""Which torch functions mean what to depth counting, by the name they carry in `torch.overrides`."""

# A weighted operation multiplies the signal by a parameter: one depth unit on a plain path.
TRANSPOSED_CONVOLUTIONS = frozenset({"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"})
CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d"}) | TRANSPOSED_CONVOLUTIONS
OUTPUT_FIRST = frozenset({"conv1d", "conv2d", "conv3d", "linear", "bilinear"})  # weights of shape (out, in, ...)
LOOKUPS = frozenset({"embedding", "embedding_bag", "__getitem__", "index_select"})
MATRIX_WITH_BIAS = CONVOLUTIONS | frozenset(
    {"linear", "bilinear", "addmm", "addmv", "addbmm", "baddbmm", "addmm_", "baddbmm_"}
)
MATRIX_PRODUCTS = frozenset(
    {"matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "dot", "inner", "einsum", "tensordot", "multi_dot",
     "_grouped_mm", "grouped_mm", "_scaled_mm", "scaled_mm"}
)  # fmt: skip
RECURRENT_CELLS = frozenset({"lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"})
RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
ATTENTION = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward"})

# A residual update adds two values that both depend on the input.
ADDITIONS = frozenset(
    {"add", "__add__", "__radd__", "__iadd__", "add_", "sub", "__sub__", "__rsub__", "__isub__", "sub_", "subtract",
     "addcmul", "addcmul_", "rsub", "lerp", "lerp_", "addcdiv", "addcdiv_", "index_add", "index_add_", "scatter_add",
     "scatter_add_"}
)  # fmt: skip
CONCATENATIONS = frozenset(
    {"cat", "stack", "vstack", "concat", "concatenate", "hstack", "dstack", "column_stack",
     "__setitem__"}  # new values beside those that are left as they were
)  # fmt: skip

# Results that depend on a tensor's shape, type or device, but not on its values.
SHAPE_ONLY = frozenset(
    {"ones_like", "zeros_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like", "new_ones",
     "new_zeros", "new_empty", "new_full", "new_tensor", "bernoulli_"}
)  # fmt: skip

MULTIPLICATIONS = frozenset({"mul", "__mul__", "__rmul__", "__imul__", "mul_", "multiply", "div", "__truediv__"})
GATES = frozenset({"sigmoid", "sigmoid_", "softmax", "hardsigmoid", "topk", "gumbel_softmax"})
NORMS = frozenset({"layer_norm", "batch_norm", "group_norm", "instance_norm", "rms_norm", "local_response_norm"})

# Functions that pass values on without mixing features: what feeds a weight is looked for behind them.
TRANSPARENT = frozenset(
    {"view", "reshape", "flatten", "unflatten", "permute", "transpose", "transpose_", "contiguous", "squeeze",
     "unsqueeze", "expand", "repeat", "movedim", "moveaxis", "swapaxes", "swapdims", "t", "__get__", "clone", "detach",
     "to", "type_as", "float", "half", "bfloat16", "double", "dropout", "dropout1d", "dropout2d", "dropout3d",
     "alpha_dropout", "feature_alpha_dropout", "dropout_", "pad", "max_pool1d", "max_pool2d", "max_pool3d",
     "boolean_dispatch", "adaptive_max_pool2d", "__getitem__", "select", "narrow", "chunk", "split", "roll", "cat"}
)  # fmt: skip

LINEAR = TRANSPARENT | ADDITIONS | MULTIPLICATIONS

ACTIVATIONS = frozenset(
    {"relu", "relu_", "gelu", "silu", "silu_", "tanh", "tanh_", "sigmoid", "sigmoid_", "elu", "elu_", "leaky_relu",
     "leaky_relu_", "selu", "selu_", "celu", "celu_", "softplus", "mish", "hardswish", "hardtanh", "hardtanh_",
     "relu6", "hardsigmoid", "logsigmoid", "prelu", "rrelu", "rrelu_", "softsign", "tanhshrink", "sin", "cos", "erf",
     "square"}
)  # fmt: skip
