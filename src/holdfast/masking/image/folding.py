"""Batch normalisations of a module that are computed by the convolutions before them: memory is read once, not twice.

Modules are written as ``norm(conv(images))``, or as one statement after the other. Nobody but the normalisation can see
what the convolution gave then. So a ``forward`` is compiled again with such pairs replaced by one function, which folds
with the numbers of the moment, and does what is written where anything is unusual. Modules, their classes and all that
they refer to stay as they are: it is only our own call that runs the other function.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from contextlib import suppress
from copy import deepcopy
from functools import cache, lru_cache
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, cast
from warnings import catch_warnings, simplefilter

from holdfast.masking.torch import import_torch

_CALL, _CHAIN, _JOIN = "holdfast_call", "holdfast_chain", "holdfast_join"
"""What the functions that are called instead are named in code that is compiled again."""

_LEAST_NUMBERS = 1 << 12
"""Of the images of a call: with fewer, to fold takes as long as it saves."""


def call_folded(module: Any, /, *values: Any, **fields: Any) -> Any:
    """What a module gives, rounding aside: with batch normalisations folded where that is known to be right."""
    images = next(iter([*values, *fields.values()]))
    if images.numel() < _LEAST_NUMBERS or images.device.type != "cpu" or not _is_torch_usual():
        return module(*values, **fields)
    return _call(module, *values, **fields)


def _call(part: Any, /, *values: Any, **fields: Any) -> Any:
    """What is called in place of a part or a method: its other ``forward``, if it has one that may run here."""
    owner = part.__self__ if type(part) is MethodType else part
    kind: Any = type(part)
    if _has_no_pairs(kind) or not _has_plain_calls(owner):
        return part(*values, **fields)
    function = _forward_of(type(owner)) if owner is part else part.__func__
    if function is import_torch().nn.Sequential.forward and len(values) == 1 and not fields:
        return _call_in_turn(owner, *values)
    if type(function) is not FunctionType or (again := _compiled_again(function, code := function.__code__)) is None:
        return part(*values, **fields)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True)) | _OWN_CELLS
    closure = tuple(cells[name] for name in again.co_freevars)
    other = FunctionType(again, function.__globals__, code.co_name, function.__defaults__, closure)
    other.__kwdefaults__ = function.__kwdefaults__
    return other(owner, *values, **fields)


def _call_in_turn(parts: Any, images: Any) -> Any:
    """``nn.Sequential(*parts)(images)``; of a tuple the last part is called first, as in ``first(second(images))``."""
    torch, is_ours = import_torch(), False  # nobody else has what was folded just now
    usual, left = torch.nn.Conv2d, iter(parts[::-1] if type(parts) is tuple else parts)
    for part in left:
        norm = next(left, usual) if type(part) is usual else usual  # which stands for none
        if norm is not usual and _can_fold(norm, part, images):
            images, is_ours = _fold(norm, part, images), True
        elif is_ours and (part is torch.nn.functional.relu or (type(part) is torch.nn.ReLU and _has_plain_calls(part))):
            images, is_ours = torch.relu_(images), False
        else:
            images, is_ours = _call(part, images), False
            images = images if norm is usual else _call(norm, images)
    return images


def _call_joined(module: Any, name: str, conv: Any, images: Any) -> Any:
    """``maps = conv(images)``, and then ``maps = module.name(maps)``, whatever has this name by then."""
    usual = import_torch().nn
    if type(conv) is usual.Conv2d and isinstance(module, usual.Module) and not hasattr(type(module), name):
        norm = None if name in vars(module) else module._modules.get(name)  # where looking it up runs nothing
        if type(module).__getattr__ is usual.Module.__getattr__ and _can_fold(norm, conv, images):
            return _fold(norm, conv, images)
    maps = _call(conv, images)
    return _call(getattr(module, name), maps)


_OWN_CELLS = {_CALL: CellType(_call), _CHAIN: CellType(_call_in_turn), _JOIN: CellType(_call_joined)}


def _fold(norm: Any, conv: Any, images: Any) -> Any:
    """``norm(conv(images))``."""
    torch, own, learnt, seen = import_torch(), conv._parameters, norm._parameters, norm._buffers
    scale = seen["running_var"].add(norm.eps).rsqrt() * learnt["weight"]
    mean = seen["running_mean"] if own["bias"] is None else seen["running_mean"] - own["bias"]
    shift = torch.addcmul(learnt["bias"], mean, scale, value=-1)
    steps = conv.stride, conv.padding, conv.dilation, conv.groups
    return torch.conv2d(images, own["weight"] * scale.view(-1, 1, 1, 1), shift, *steps)


def _can_fold(norm: Any, conv: Any, images: Any) -> bool:
    """Whether both compute as torch has them, in float32 and without gradients, and folding takes less time."""
    torch = import_torch()
    if type(conv) is not torch.nn.Conv2d or type(norm) is not torch.nn.BatchNorm2d or norm.training:
        return False
    of_conv, of_norm = vars(conv), vars(norm)
    if of_conv["padding_mode"] != "zeros" or not (_is_plain(of_conv, _OF_PAIRS) and _is_plain(of_norm, _OF_PAIRS)):
        return False
    own, learnt, seen = of_conv["_parameters"], of_norm["_parameters"].get, of_norm["_buffers"].get
    weight, bias = own.get("weight"), own.get("bias", False)
    numbers = [weight, learnt("weight"), learnt("bias"), seen("running_mean"), seen("running_var")]
    if bias is not None:
        numbers.append(bias)
    tensor, parameter, single = torch.Tensor, torch.nn.Parameter, torch.float32
    for values in numbers:
        if (type(values) is not parameter and type(values) is not tensor) or values.dtype is not single:
            return False
    width = weight.shape[:1]
    if not (type(images) is tensor and images.dtype is single and images.dim() == 4):
        return False
    if any(values.shape != width for values in numbers[1:]) or images.numel() < weight.numel():
        return False  # with few images and large weights it would take longer than to normalise
    return not (torch.is_autocast_enabled("cpu") or torch.is_grad_enabled() or _n_modes() or _has_global_hooks())


_OF_CALLS = frozenset({"forward", "_call_impl"})
_OF_PAIRS = _OF_CALLS | {"_conv_forward", "_check_input_dim", "weight", "bias", "running_mean", "running_var"}
"""What classes or lists of numbers have, and single parts have only where somebody changed them."""


def _is_plain(own: dict[str, Any], names: frozenset[str]) -> bool:
    """Whether a part of these attributes has no hooks, and nothing of these names to itself."""
    hooks = own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]
    return not hooks and own.keys().isdisjoint(names) and own.get("_compiled_call_impl") is None


def _has_plain_calls(part: Any) -> bool:
    """Whether to call a part is to call the ``forward`` of its class."""
    module, kind = import_torch().nn.Module, cast(Any, type(part))
    if not isinstance(part, module) or kind.__call__ is not module.__call__ or _has_global_hooks():
        return False
    if kind._call_impl is not module._call_impl or kind.__getattribute__ is not object.__getattribute__:
        return False
    return _is_plain(vars(part), _OF_CALLS)


@lru_cache(maxsize=1024)
def _has_no_pairs(kind: Any) -> bool:
    """Whether parts of a class are torch's own and call no others in turn."""
    return str(kind.__module__).startswith("torch.nn.") and not issubclass(kind, import_torch().nn.Sequential)


def _has_global_hooks() -> bool:
    own = import_torch().nn.modules.module
    before = own._global_forward_pre_hooks or own._global_backward_pre_hooks
    return bool(before or own._global_forward_hooks or own._global_backward_hooks)


def _forward_of(kind: type) -> Any:
    """What a class has as ``forward``, as it stands there."""
    return next((vars(each)["forward"] for each in kind.__mro__ if "forward" in vars(each)), None)


def _is_torch_usual() -> bool:
    """Whether nobody looks into every module or function there is, or has changed how torch computes these parts."""
    is_traced = import_torch()._C._get_tracing_state() is not None
    return not (_has_global_hooks() or is_traced or _n_modes()) and _methods() == _methods_of_torch()


def _n_modes() -> int:
    """How many modes of torch watch or change what functions do."""
    inside = import_torch()._C
    return int(inside._len_torch_function_stack() + inside._len_torch_dispatch_stack())


def _methods() -> tuple[Any, ...]:
    """How torch calls parts and computes convolutions and normalisations."""
    torch = import_torch()
    parts, functional = torch.nn, torch.nn.functional
    functions = torch.conv2d, functional.conv2d, functional.batch_norm, torch.batch_norm, functional.relu, torch.relu
    of_conv = parts.Conv2d.forward, parts.Conv2d._conv_forward, parts.Conv2d.__call__
    of_norm = parts.BatchNorm2d.forward, parts.BatchNorm2d._check_input_dim, parts.BatchNorm2d.__call__
    of_all = parts.ReLU.forward, parts.Module._call_impl, parts.Sequential.forward, parts.Sequential.__iter__
    return parts.Module.__call__, *functions, *of_conv, *of_norm, *of_all


@cache
def _methods_of_torch() -> tuple[Any, ...] | None:
    """They as they were when they were first asked for; None if somebody had changed them before."""
    methods = _methods()
    names = (str(getattr(method, "__module__", None) or "torch") for method in methods)
    are_own = all(name.split(".")[0] == "torch" for name in names)
    return methods if are_own and not any(hasattr(method, "__wrapped__") for method in methods) else None


# -- a method compiled again ------------------------------------------------------------------------------


_MOST_CODES = 4096

_AGAIN: dict[int, tuple[CodeType, CodeType | None]] = {}
"""By the id of a code: that code, and the one with pairs and calls of parts replaced, if it has any."""


def _compiled_again(function: Any, code: CodeType) -> CodeType | None:
    """A function's code with pairs and calls of parts replaced; None if it has none, or its source is not at hand."""
    known, again = _AGAIN.get(id(code), (None, None))
    if known is not code:
        with suppress(Exception), catch_warnings():  # what cannot be read or compiled runs as it is
            simplefilter("ignore")  # the user has seen what there is to say of this source
            if not str(function.__module__).startswith("torch.nn."):  # which has no such pairs
                again = _rewritten(code, "".join(inspect.findsource(function)[0]))
        if len(_AGAIN) >= _MOST_CODES:
            _AGAIN.clear()
        _AGAIN[id(code)] = code, again
    return again


def _rewritten(code: CodeType, source: str) -> CodeType | None:
    definitions, imports = _read(source)
    definition = deepcopy(definitions.get((code.co_name, code.co_firstlineno)))
    if definition is None or not definition.args.args or any(map(_reads_its_frame, ast.walk(definition))):
        return None
    definition.decorator_list = []
    if not _are_same(_compiled(deepcopy(definition), imports, code.co_freevars, code.co_filename), code):
        return None  # it is not what runs: it was changed since, or is wrapped, or means something else here
    rewriter = _Rewriter(definition.args.args[0].arg, code)
    definition.body = rewriter.rewrite(definition.body)
    if not rewriter.has_changed:
        return None
    again = _compiled(definition, imports, (*code.co_freevars, *_OWN_CELLS), code.co_filename)
    return again.replace(co_qualname=code.co_qualname)


@lru_cache(maxsize=8)
def _read(source: str) -> tuple[dict[tuple[str, int], ast.FunctionDef], list[ast.stmt]]:
    """Functions by name and first line, and the imports of a module: compilers read attributes of these otherwise."""
    definitions, imports, waiting = {}, list[ast.stmt](), list[ast.AST]([ast.parse(source)])
    for node in waiting:  # which grows
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
                definitions[child.name, first] = child
            if isinstance(child, (ast.Import, ast.ImportFrom)):
                imports.append(child)
            waiting.append(child)
    inside = {id(node) for definition in definitions.values() for node in ast.walk(definition)}
    outside = [node for node in imports if id(node) not in inside]
    is_later = {id(node): getattr(node, "module", None) != "__future__" for node in outside}
    return definitions, sorted(outside, key=lambda node: is_later[id(node)])


def _reads_its_frame(node: ast.AST) -> bool:
    """Whether the names that a function has are seen by what it calls, or it shares them with others."""
    reads = isinstance(node, ast.Name) and node.id in ("locals", "vars", "dir", "eval", "exec")
    return reads or isinstance(node, (ast.Global, ast.Nonlocal))


def _compiled(definition: ast.FunctionDef, imports: list[ast.stmt], free: Iterable[str], file: str) -> CodeType:
    """A definition as code, of which some names belong to a function around it; nothing is run."""
    around = ast.parse(f"def around({', '.join(free)}): pass")
    outer = around.body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body, around.body = [definition], [*imports, outer]
    whole = compile(ast.fix_missing_locations(around), file, "exec", dont_inherit=True)
    consts = (const for const in whole.co_consts if isinstance(const, CodeType))
    inner = next(const for const in consts if const.co_name == "around").co_consts
    return next(const for const in inner if isinstance(const, CodeType) and const.co_name == definition.name)


def _are_same(one: CodeType, other: CodeType) -> bool:
    """Whether two codes do the same."""
    names = ["co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_exceptiontable", "co_argcount"]
    names += ["co_posonlyargcount", "co_kwonlyargcount"]
    if any(getattr(one, name) != getattr(other, name) for name in names) or len(one.co_consts) != len(other.co_consts):
        return False
    for const, wanted in zip(one.co_consts, other.co_consts, strict=True):
        if isinstance(const, CodeType) and isinstance(wanted, CodeType):
            if not _are_same(const, wanted):
                return False
        elif repr(const) != repr(wanted):
            return False
    return True


_COMPREHENSIONS = ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp
_INSIDE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, *_COMPREHENSIONS)


class _Rewriter(ast.NodeTransformer):
    """Replaces calls of what belongs to the module of this name in the code; functions inside stay as they are."""

    def __init__(self, module: str, code: CodeType) -> None:
        self.has_changed, self._names, self._joins, self._code = False, {module}, True, code

    def rewrite(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Statements, two of which become one if the second normalises what the first has computed, and nobody else."""
        done: list[ast.stmt] = []
        for statement in body:
            joined = self._joined(done[-1], statement) if self._joins and done else None
            done[-1 if joined is not None else len(done) :] = [joined or statement]
        return [self.visit(statement) for statement in done]

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, _INSIDE):
            return node
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and self._belongs(node.iter):
            self._names.add(node.target.id)
        before = self._joins
        # Who handles an error may look at what was computed before it.
        self._joins = before and not isinstance(node, (ast.Try, ast.TryStar, ast.With))
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, field, self.rewrite(value))
            elif isinstance(value, list):
                setattr(node, field, [self.visit(item) if isinstance(item, ast.AST) else item for item in value])
            elif isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
        self._joins = before
        return self._replaced(node) if isinstance(node, ast.Call) else node

    def _replaced(self, call: ast.Call) -> ast.Call:
        """A call of a part, or ``relu`` of one, by what is called instead; its arguments are replaced already."""
        is_relu = isinstance(call.func, ast.Attribute) and call.func.attr == "relu" and _is_replaced(call.args)
        if not (self._belongs(call.func) or is_relu):
            return call
        if isinstance(call.func, ast.Attribute) and call.func.attr == self._code.co_name:
            return call  # a function that calls itself may do so many times
        self.has_changed = True
        match call:
            case ast.Call(args=[ast.Call(func=ast.Name(id=name), args=[inner, images], keywords=[])], keywords=[]):
                if name in (_CALL, _CHAIN) and not isinstance(images, ast.Starred):
                    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                    chain = ast.copy_location(ast.Tuple([call.func, *parts], ast.Load()), call)
                    return _call_of(_CHAIN, call, [chain, images], [])
        return _call_of(_CALL, call, [call.func, *call.args], call.keywords)

    def _joined(self, first: ast.stmt, second: ast.stmt) -> ast.stmt | None:
        """``x = conv(…)`` and ``x = norm(x)`` as ``x = norm(conv(…))``; None if they are anything else."""
        if not (isinstance(first, ast.Assign) and isinstance(second, ast.Assign)):
            return None
        names = [each.targets[0].id for each in (first, second) if _is_to_name(each)]  # type: ignore[attr-defined]
        if len(names) != 2 or names[0] != names[1] or names[0] in (*self._names, *self._code.co_cellvars):
            return None
        match first.value, second.value:
            case (
                ast.Call(func=conv, args=[images], keywords=[]) as call,
                ast.Call(func=ast.Attribute(ast.Name() as module, norm), args=[ast.Name(id=taken)], keywords=[]),
            ) if taken == names[0] and self._belongs(conv) and self._belongs(module):
                if isinstance(images, ast.Starred):
                    return None
                self.has_changed = True
                both = _call_of(_JOIN, call, [module, ast.copy_location(ast.Constant(norm), call), conv, images], [])
                return ast.copy_location(ast.Assign(first.targets, both), first)
        return None

    def _belongs(self, node: ast.AST) -> bool:
        """Whether this is a name of the module or of one of its parts, such as ``self.layers[0]``."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            if isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Constant, ast.Name)):
                return False
            node = node.value
        return isinstance(node, ast.Name) and node.id in self._names


def _is_replaced(values: list[ast.expr]) -> bool:
    match values:
        case [ast.Call(func=ast.Name(id=name))]:
            return name in (_CALL, _CHAIN)
    return False


def _is_to_name(statement: ast.Assign) -> bool:
    return len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)


def _call_of(name: str, place: ast.AST, values: list[ast.expr], fields: list[ast.keyword]) -> ast.Call:
    return ast.copy_location(ast.Call(ast.copy_location(ast.Name(name, ast.Load()), place), values, fields), place)
