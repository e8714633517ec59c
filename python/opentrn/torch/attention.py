"""Attention forward and backward as one op each, computed in float32: nothing of the scores' size is kept in HBM.

On the device `neuron` each is a program (src/torch/attention.cc). In a compiled graph a call of torch's attention
becomes these ops before autograd sees it, and each is written as its formula when the graph is compiled.

Shapes: query [batch, heads, L, E], key [batch, groups, S, E], value [batch, groups, S, V], where as many heads of the
query one after the other share a group's keys; bias is added to the scores and broadcasts to [batch, heads, L, S]. A
row of scores that is masked whole has weights of zero, as torch has it. Results lie in memory as the query (or the
operand that they are the gradient of) does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional
from torch.utils._python_dispatch import _disable_current_modes

from opentrn.torch.registry import NoDeviceForm

_LIBRARY = torch.library.Library("opentrn", "FRAGMENT")
_LIBRARY.define(
    "attention(Tensor query, Tensor key, Tensor value, Tensor? bias, bool is_causal, float scale) -> Tensor"
)
_LIBRARY.define(
    "attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor out, "
    "bool is_causal, float scale) -> (Tensor, Tensor, Tensor)"
)


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float32)


def _like(value: Tensor, pattern: Tensor) -> Tensor:
    """In the pattern's type and order of dimensions in memory."""
    order = sorted(range(pattern.dim()), key=lambda i: -pattern.stride(i))
    back = sorted(range(len(order)), key=order.__getitem__)
    return value.to(pattern.dtype).permute(order).contiguous().permute(back)


def _spread(tensor: Tensor, query: Tensor) -> Tensor:
    """[batch, groups, ...] as [batch, heads, ...]."""
    batch, groups, *rest = tensor.shape
    each = query.shape[1] // groups
    return tensor if each == 1 else tensor[:, :, None].expand(batch, groups, each, *rest).flatten(1, 2)


def _gathered(gradient: Tensor, tensor: Tensor) -> Tensor:
    """The gradient of what _spread() takes, from that of what it gives."""
    groups = tensor.shape[1]
    return gradient if gradient.shape[1] == groups else gradient.unflatten(1, (groups, -1)).sum(2)


def _weights(query: Tensor, key: Tensor, bias: Tensor | None, is_causal: bool, scale: float) -> Tensor:
    # In the order in which the compiler knows attention: scores, scale, masks.
    scores = query @ key.transpose(-2, -1) * scale
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = torch.where(seen, scores, float("-inf"))
    if bias is None:
        return scores.softmax(-1)
    scores = scores + _wide(bias)
    nothing = (scores == float("-inf")).all(-1, keepdim=True)
    return scores.softmax(-1).masked_fill(nothing, 0)


def forward(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, is_causal: bool, scale: float
) -> Tensor:
    """[batch, heads, L, V]."""
    k, v = (_spread(_wide(each), query) for each in (key, value))
    return _like(_weights(_wide(query), k, bias, is_causal, scale) @ v, query)


def backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, out: Tensor, is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of query, key and value."""
    g, q = map(_wide, (grad, query))
    k, v = (_spread(_wide(each), query) for each in (key, value))
    weights = _weights(q, k, bias, is_causal, scale)
    of_value = _gathered(weights.transpose(-2, -1) @ g, value)
    of_scores = weights * (g @ v.transpose(-2, -1) - (g * _wide(out)).sum(-1, keepdim=True))
    of_query = (of_scores @ k) * scale
    of_key = _gathered(of_scores.transpose(-2, -1) @ (q * scale), key)
    return _like(of_query, query), _like(of_key, key), _like(of_value, value)


# By the op's name.
FORMS: dict[str, Callable[..., Any]] = {"opentrn::attention": forward, "opentrn::attention_backward": backward}
# The number of the argument that each result lies in memory as: what _like() does, which tracing forgets.
LAYOUTS = {"opentrn::attention": (0,), "opentrn::attention_backward": (1, 2, 3)}


def _fake_forward(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, is_causal: bool, scale: float
) -> Tensor:
    return _like(query.new_empty((*query.shape[:-1], value.shape[-1])), query)


def _fake_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, out: Tensor, is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return _like(query, query), _like(key, key), _like(value, value)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    query, key, value, bias, ctx.is_causal, ctx.scale = inputs
    ctx.save_for_backward(query, key, value, bias, output)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    query, key, value, bias, out = ctx.saved_tensors
    found = torch.ops.opentrn.attention_backward(
        grad, query, key, value, bias, out, ctx.is_causal, ctx.scale
    )
    return (*found, None, None, None)


def _refuse(_ctx: Any, *_grads: Tensor) -> None:
    raise NoDeviceForm(
        "attention has no second derivative", label="torch.no_emitter",
        hint="torch.nn.attention.sdpa_kernel(SDPBackend.MATH) around the call has one",
    )  # fmt: skip


torch.library.register_fake("opentrn::attention", _fake_forward, lib=_LIBRARY)
torch.library.register_fake("opentrn::attention_backward", _fake_backward, lib=_LIBRARY)
torch.library.register_autograd("opentrn::attention", _differentiate, setup_context=_keep, lib=_LIBRARY)
torch.library.register_autograd("opentrn::attention_backward", _refuse, lib=_LIBRARY)
_LIBRARY.impl("attention", forward, "CPU")
_LIBRARY.impl("attention_backward", backward, "CPU")


def _has_form(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, causal: bool, is_grouped: bool
) -> bool:
    """As has_program() of src/torch/attention.cc."""
    given = query, key, value
    return (
        query.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and all(each.dtype == query.dtype and each.dim() == 4 for each in given)
        and query.shape[0] == key.shape[0]
        and key.shape[:2] == value.shape[:2]
        and 0 not in (*query.shape, *key.shape)
        and (query.shape[1] == key.shape[1] or (is_grouped and query.shape[1] % key.shape[1] == 0))
        and dropout == 0
        and (mask is None or (not causal and not mask.requires_grad))
    )


def attend(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """torch.nn.functional.scaled_dot_product_attention, by the op where it has a form."""
    if not _has_form(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa):
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, float("-inf"))
    return torch.ops.opentrn.attention(
        query, key, value, attn_mask, is_causal, 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    )


def choose(module: fx.GraphModule) -> None:
    """Calls of torch's attention in a graph of dynamo's become attend(); vmap and its like have no rule for the op."""
    homes = [getattr(node.target, "__module__", None) or "" for node in module.graph.nodes]
    if any(home.startswith(("torch._functorch", "torch._C._functorch")) for home in homes):
        return
    for node in module.graph.nodes:
        if node.target is torch._C._nn.scaled_dot_product_attention:
            node.target = attend
    module.recompile()


def expand(module: fx.GraphModule, table: dict[Any, Callable[..., Any]]) -> None:
    """Writes each op as its formula into the graph. table: of decompositions."""
    ops: dict[Any, Callable[..., Any]] = {
        torch.ops.opentrn.attention.default: forward,
        torch.ops.opentrn.attention_backward.default: backward,
    }
    found = [node for node in module.graph.nodes if node.target in ops]
    for node in found:
        nodes = [each for each in node.args if isinstance(each, fx.Node)]

        def form(*tensors: Tensor, node: fx.Node = node) -> Any:
            given = iter(tensors)
            return ops[node.target](*(next(given) if isinstance(each, fx.Node) else each for each in node.args))

        with _disable_current_modes(), nodes[0].meta["val"].fake_mode, torch.no_grad():
            traced = make_fx(form, decomposition_table=table)(*(each.meta["val"] for each in nodes))
        places = dict(zip(traced.graph.find_nodes(op="placeholder"), nodes, strict=True))
        with module.graph.inserting_before(node):
            for constant in traced.graph.find_nodes(op="get_attr"):
                name = f"{node.name}_{constant.target}"
                setattr(module, name, getattr(traced, constant.target))
                constant.target = name
            made = module.graph.graph_copy(traced.graph, places)
        for inner in traced.graph.nodes:
            if inner in places and isinstance(places[inner], fx.Node) and places[inner] not in nodes:
                places[inner].meta.setdefault("stack_trace", node.meta.get("stack_trace"))
        if isinstance(made, fx.Node):
            node.replace_all_uses_with(made)
        else:
            for user in list(node.users):
                user.replace_all_uses_with(made[user.args[1]])
                module.graph.erase_node(user)
        module.graph.erase_node(node)
    if found:
        module.graph.eliminate_dead_code()
        module.recompile()
