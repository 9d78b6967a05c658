"""What torch functions mean for depth counting, by their names in `torch.overrides`, and the fan-in of a call."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from torch import Tensor

OPERATORS = {
    **{"radd": "add", "iadd": "add", "rsub": "sub", "isub": "sub", "rmul": "mul", "imul": "mul"},
    **{"itruediv": "truediv", "ipow": "pow", "rmatmul": "matmul"},
}


def operation_name(function: Any, options: Mapping[str, Any]) -> str:
    """The name of a torch function in the lists below.

    Every form of an operation has one name: `add`, `add_`, `__add__`, `__radd__` and `__iadd__` are "add", and
    `torch.ops.aten.mm.default` is "mm". `interpolate` with mode="nearest" is "interpolate_nearest".
    """
    name = _written_name(function).strip("_")
    name = OPERATORS.get(name, name)
    return f"interpolate_{options['mode']}" if name == "interpolate" and "mode" in options else name


def writes_in_place(function: Any) -> bool:
    """Does a torch function write into its first argument, judged by its name?"""
    name = _written_name(function)
    return name.startswith("__i") or name.endswith("_")


def _written_name(function: Any) -> str:
    return str(getattr(function, "__name__", "")).partition(".")[0]


# A weighted operation multiplies the signal by a parameter: one depth unit on a plain path.
TRANSPOSED_CONVOLUTIONS = frozenset({"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"})
CONVOLUTION_NAMES = frozenset({"conv1d", "conv2d", "conv3d", "convolution"}) | TRANSPOSED_CONVOLUTIONS
OUTPUT_FIRST = frozenset({"linear", "bilinear"})  # weights of shape (out, in, ...)
LAST_CONTRACTED = frozenset({"inner", "linalg_vecdot"})  # both factors are summed along their last dimension
LOOKUPS = frozenset({"embedding", "embedding_bag", "getitem", "index", "index_select"})
MATRIX_WITH_BIAS = CONVOLUTION_NAMES | frozenset(
    {"linear", "bilinear", "addmm", "addmv", "addbmm", "baddbmm", "sparse_addmm"}
)
MATRIX_PRODUCTS = frozenset(
    {"matmul", "linalg_matmul", "mm", "bmm", "mv", "dot", "vdot", "inner", "linalg_vecdot", "einsum", "tensordot",
     "linalg_multi_dot", "chain_matmul", "sparse_mm", "grouped_mm", "scaled_mm"}
)  # fmt: skip
RECURRENT_CELLS = frozenset({"lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"})
RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
IN_PROJECTION = "in_projection"  # of attention that is seen as one call
ATTENTION = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward"})

# A residual update adds two values that both depend on the input.
SCALED_ADDITIONS = frozenset({"addcmul", "addcdiv", "lerp"})
ADDITIONS = SCALED_ADDITIONS | frozenset({"add", "sub", "subtract", "index_add", "scatter_add"})
CONCATENATIONS = frozenset(
    {"cat", "stack", "vstack", "concat", "concatenate", "hstack", "dstack", "column_stack",
     "setitem"}  # new values beside those that are left as they were
)  # fmt: skip

# Operations that add a parameter to the signal, or put it beside the signal, without a product. Examples are positional
# embeddings, class tokens and biases of attention scores.
JOINS = (ADDITIONS - SCALED_ADDITIONS) | CONCATENATIONS | ATTENTION | frozenset({"where"})

# Results that depend on a tensor's shape, type or device, but not on its values.
SHAPE_ONLY = frozenset(
    {"ones_like", "zeros_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like", "new_ones",
     "new_zeros", "new_empty", "new_full", "new_tensor", "bernoulli"}
)  # fmt: skip

ELEMENTWISE_PRODUCTS = frozenset({"mul", "multiply"})
MULTIPLICATIONS = ELEMENTWISE_PRODUCTS | frozenset({"div", "divide", "truediv", "true_divide"})
GATES = frozenset({"sigmoid", "softmax", "hardsigmoid", "topk", "gumbel_softmax"})
TOKEN_NORMS = frozenset({"layer_norm", "rms_norm", "native_layer_norm"})
BATCH_NORMS = frozenset(
    {"batch_norm", "native_batch_norm", "native_batch_norm_legit", "native_batch_norm_legit_functional"}
)
NORMS = TOKEN_NORMS | BATCH_NORMS | frozenset(
    {"group_norm", "instance_norm", "local_response_norm", "native_group_norm"}
)  # fmt: skip

# Functions that pass values on without mixing features: what feeds a weight is looked for behind them.
TRANSPARENT = frozenset(
    {"view", "reshape", "flatten", "unflatten", "permute", "transpose", "contiguous", "squeeze", "unsqueeze", "expand",
     "repeat", "movedim", "moveaxis", "swapaxes", "swapdims", "t", "get", "clone", "detach", "to", "type_as", "float",
     "half", "bfloat16", "double", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
     "feature_alpha_dropout", "pad", "max_pool1d", "max_pool2d", "max_pool3d", "boolean_dispatch",
     "adaptive_max_pool2d", "getitem", "select", "slice", "narrow", "chunk", "split", "roll", "cat", "pixel_shuffle",
     "pixel_unshuffle", "channel_shuffle", "unfold", "im2col", "interpolate_nearest", "interpolate_nearest-exact",
     "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "to_sparse", "to_dense"}
)  # fmt: skip

LINEAR = TRANSPARENT | ADDITIONS | MULTIPLICATIONS

ACTIVATION_NAMES = frozenset(
    {"relu", "gelu", "silu", "tanh", "sigmoid", "elu", "leaky_relu", "selu", "celu", "softplus", "mish", "hardswish",
     "hardtanh", "relu6", "hardsigmoid", "logsigmoid", "log_sigmoid", "rrelu", "softsign", "tanhshrink", "hardshrink",
     "softshrink", "threshold", "clamp", "clamp_min", "clamp_max", "clip", "sin", "cos", "erf", "square", "pow"}
)  # fmt: skip


def is_token_norm(name: str) -> bool:
    """Does this operation or module class normalise every token by itself, as LayerNorm and RMSNorm do?"""
    return name in TOKEN_NORMS or "LayerNorm" in name or "RMSNorm" in name


def constant_factor(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> float:
    """The number by which a call multiplies its tensor, or the second term of a sum; 1 for none, or for a tensor."""
    if name in ADDITIONS:
        alpha = kwargs.get("alpha", 1)
        return float(alpha) if isinstance(alpha, int | float) and alpha else 1.0
    if name not in MULTIPLICATIONS:
        return 1.0
    divided = name not in ELEMENTWISE_PRODUCTS
    factors = (*args[divided:], kwargs.get("other"))  # a number that is divided by the tensor is none
    number = next((float(one) for one in factors if isinstance(one, int | float) and one), 1.0)
    return 1 / number if divided else number


def fan_in(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], operands: list[Tensor]) -> int:
    """The number of inputs to one feature, if a call multiplies the signal by a parameter; else 0.

    Args:
        name: The operation.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        operands: Those of its arguments that come from parameters.
    """
    if name in RECURRENT_CELLS or name in RECURRENT:
        return int(operands[0].shape[-1])
    if name in MATRIX_WITH_BIAS:
        operands = [t for t in operands if t.dim() > 1]  # a bias is added, not multiplied
    elif name not in MATRIX_PRODUCTS:
        return 0
    if not operands:
        return 0
    weight = operands[0]
    if name in CONVOLUTION_NAMES:
        return _convolution(name, args, kwargs, weight)
    if name in OUTPUT_FIRST:
        return weight.numel() // weight.shape[0]
    if name == "einsum":
        return _einsum(args, weight)
    if name == "tensordot":
        return _tensordot(args, kwargs, weight)
    if name in LAST_CONTRACTED:
        return int(weight.shape[kwargs.get("dim", -1)])
    chain = args[0] if args and isinstance(args[0], list | tuple) else args
    factors = [t for t in chain if isinstance(t, Tensor)]
    right = len(factors) < 2 or factors[-1] is weight
    return int(weight.shape[-2] if right and weight.dim() > 1 else weight.shape[-1])


def _convolution(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], weight: Tensor) -> int:
    """Channels times kernel places; of a transposed one, times those of its places that fall on one output."""

    def option(name: str, place: int, otherwise: Any) -> Any:
        return kwargs.get(name, args[place] if len(args) > place else otherwise)

    any_kind = name == "convolution"
    transposed = option("transposed", 6, False) if any_kind else name in TRANSPOSED_CONVOLUTIONS
    if not transposed:
        return weight.numel() // weight.shape[0]
    stride, groups = option("stride", 3, 1), option("groups", 8 if any_kind else 6, 1)
    strides = [stride] if isinstance(stride, int) else list(stride)
    places = prod(strides if len(strides) > 1 else strides * (weight.dim() - 2))
    # Weights of shape (in, out / groups, ...). A kernel smaller than its stride leaves outputs that see nothing at all.
    return max(1, weight.numel() // weight.shape[1] // (int(groups) * places))


def _einsum(args: tuple[Any, ...], weight: Tensor) -> int:
    """The sizes of the weight's indices that the result no longer has."""
    equation = args[0]
    if not isinstance(equation, str):
        return int(weight.shape[-1])
    sources, arrow, result = equation.replace(" ", "").partition("->")
    tensors = args[1] if isinstance(args[1], list | tuple) else args[1:]
    for letters, tensor in zip(sources.split(","), tensors, strict=False):
        if tensor is weight:
            if not arrow:  # implicit: letters that occur once stay
                result = "".join(c for c in letters if sources.count(c) == 1)
            letters = letters.replace("...", "")
            return prod(size for c, size in zip(letters, weight.shape[-len(letters) :], strict=True) if c not in result)
    return int(weight.shape[-1])


def _tensordot(args: tuple[Any, ...], kwargs: dict[str, Any], weight: Tensor) -> int:
    dims = kwargs.get("dims", args[2] if len(args) > 2 else 2)
    left = len(args) > 0 and args[0] is weight
    if not isinstance(dims, int):
        contracted = dims[0] if left else dims[1]
        return prod(weight.shape[d] for d in contracted)
    return prod(weight.shape[-dims:] if left else weight.shape[:dims])
