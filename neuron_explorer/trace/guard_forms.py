"""The forms that a failed guard's text can have, and what each says.

An expression is Python that Dynamo would evaluate (``L['n'] == 3``), a condition on sizes
(``2 <= L['x'].size()[0]``), or a sentence of the C++ guards (``tensor 'x' dtype mismatch. …``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Final

from neuron_explorer.trace.guard_names import is_global, is_module_state, user_name
from neuron_explorer.trace.outside_quotes import outermost

_MOST_VALUE: Final = 200

DTYPES: Final = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexHalf": "complex32",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "UInt16": "uint16",
    "UInt32": "uint32",
    "UInt64": "uint64",
}

GLOBAL_STATE: Final = {
    "grad_mode": "grad mode",
    "autocast": "autocast",
    "autocast_cache_enabled": "autocast cache",
    "torch_function": "torch functions enabled",
    "deterministic_algorithms": "deterministic algorithms",
    "deterministic_algorithms_warn_only": "deterministic algorithms",
    "allow_tf32": "TF32 allowed",
    "allow_fp16_reduce": "fp16 reduction allowed",
    "allow_bf16_reduce": "bf16 reduction allowed",
    "num_threads": "number of threads",
    "default_dtype": "default dtype",
}

_NUMBER_TYPES: Final = ("int", "float", "complex", "bool", "str", "bytes", "NoneType")
_VALUE_TYPES: Final = (*_NUMBER_TYPES, "list", "tuple", "dict", "set", "frozenset", "range", "slice", "ellipsis")


VALUE: Final = "value"
"""A guard on a value; which cause it is depends on where the value lives."""

_Known = tuple[str, str, str, str, int]
_Form = tuple[re.Pattern[str], Callable[[re.Match[str]], "_Known | None"]]


def known_form(expression: str) -> _Known | None:
    """(cause, source as Dynamo names it, expected, actual, dimension) of an expression."""
    if not expression:
        return "no_reason", "", "", "", -1
    for pattern, read in _FORMS:
        match = pattern.match(expression)
        if match:
            found = read(match)
            if found is not None:
                return found
    return _condition(expression)


def short(value: str) -> str:
    """A value, cut where it is long."""
    value = value.strip()
    return value if len(value) <= _MOST_VALUE else value[: _MOST_VALUE - 1] + "…"


def _size(match: re.Match[str]) -> _Known:
    index = int(match[3])
    if match[2] == "size":
        return "size", f"{match[1]}.size()[{index}]", match[4], match[5], index
    return "stride", f"{match[1]}.stride()[{index}]", match[4], match[5], index


def _rank(match: re.Match[str]) -> _Known:
    return "size", match[1], _count(match[2], "dimension"), _count(match[3], "dimension"), -1


def _count(number: str, what: str) -> str:
    return f"{number} {what}" + ("" if number == "1" else "s")


def _dtype(match: re.Match[str]) -> _Known:
    return "dtype", match[1], dtype_name(match[2]), dtype_name(match[3]), -1


def dtype_name(name: str) -> str:
    """The Python name of a C++ scalar type: ``float32`` of ``Float``."""
    return DTYPES.get(name.strip(), name.strip().lower().replace("torch.", ""))


def _requires_grad(match: re.Match[str]) -> _Known:
    needs = match[2] in ("1", "True", "true")
    words = ("requires gradient", "no gradient")
    return "requires_grad", match[1], words[not needs], words[needs], -1


_LAYOUT_KEYS: Final = ("Sparse", "Nested", "Quantized", "Mkldnn")
_NO_DEVICE_KEYS: Final = (
    "BackendSelect",
    "ADInplaceOrView",
    "Autograd",
    "Python",
    "FuncTorch",
    "Functionalize",
    "Conjugate",
    "Negative",
    "ZeroTensor",
    "Named",
    "Batched",
    "Autocast",
    "Tracer",
    "PreDispatch",
)


def _key_set(match: re.Match[str]) -> _Known:
    sets = [[k.strip() for k in match[i].split(",") if k.strip()] for i in (2, 3)]
    backends = [next((k for k in keys if not k.startswith(_NO_DEVICE_KEYS)), "") for keys in sets]
    plain = [_without_layout(k) for k in backends]
    if plain[0] != plain[1] and all(plain):
        return "device", match[1], _device_name(plain[0]), _device_name(plain[1]), -1
    if backends[0] != backends[1]:
        return "other", match[1], *(_layout(k) for k in backends), -1  # type: ignore[return-value]
    inference = ["ADInplaceOrView" not in keys for keys in sets]
    only = [", ".join(k for k in keys if k not in sets[1 - i]) for i, keys in enumerate(sets)]
    if inference[0] != inference[1]:
        words = ("a tensor made in inference mode", "an ordinary tensor")
        return "grad_mode", match[1], words[not inference[0]], words[not inference[1]], -1
    return "other", match[1], only[0] or "none of " + only[1], only[1] or "none of " + only[0], -1


def _without_layout(key: str) -> str:
    for layout in _LAYOUT_KEYS:
        if key.startswith(layout):
            return key[len(layout) :].removeprefix("Csr") or "CPU"
    return key


def _layout(key: str) -> str:
    return next((name.lower() for name in _LAYOUT_KEYS if key.startswith(name)), "dense") + " layout"


def _device_name(key: str) -> str:
    names = {"PrivateUse1": "neuron", "PrivateUse2": "privateuseone"}
    return names.get(key, key.lower())


def _tensor_type(match: re.Match[str]) -> _Known:
    expected, found = _type_name(match[2]), _type_name(match[3])
    expected = "a tensor" if "tensor type" in match[2] else expected
    if found.rsplit(".", 1)[-1] in _VALUE_TYPES:
        return VALUE, match[1], expected, "None" if found == "NoneType" else f"a value of type {found}", -1
    return "object_identity", match[1], expected, found, -1


def _type_name(text: str) -> str:
    named = re.search(r"<class '([^']*)'", text)
    name = (named[1] if named else text.strip().rstrip(",")).replace("torch.nn.parameter.Parameter", "nn.Parameter")
    return name.split("<locals>.")[-1].removeprefix("__main__.").removeprefix("builtins.")


def _duplicate(match: re.Match[str]) -> _Known:
    names = re.findall(r'"([^"]*)"', match[1]) or re.findall(r"tensor '(.+?)' ?should", match[1])
    first = names[0] if names else ""
    same = user_name(names[1]) if len(names) > 1 else "another"
    return "object_identity", first, "tensors of their own", f"the same tensor as {same}", -1


def _global_state(match: re.Match[str]) -> _Known:
    names: list[str] = []
    for token in match[1].split():
        autocast = re.match(r"autocast\((\w+)\)_(enabled|dtype)", token)
        name = f"autocast on {autocast[1]}" if autocast else GLOBAL_STATE.get(token, token.replace("_", " "))
        if name not in names:
            names.append(name)
    return "grad_mode", ", ".join(names), "", "", -1


def _state(name: str, expected: str = "") -> Callable[[re.Match[str]], _Known]:
    return lambda match: ("grad_mode", name, match.expand(expected), "", -1)


def _backend(match: re.Match[str]) -> _Known:
    names = [match[1], match[2]]
    compilers = [re.search(r"compiler='([^']*)'", n) for n in names]
    shown = [(c[1] if c else n.split(" (id=")[0]) for c, n in zip(compilers, names, strict=True)]
    if shown[0] == shown[1]:
        shown[1] = "another object of that name"
    return "object_identity", "backend", shown[0], shown[1], -1


def _object(match: re.Match[str]) -> _Known:
    source, kind = match[1], _type_name(match[2] or "")
    if kind == "NoneType":
        return VALUE, source, "None", "not None", -1
    if kind == "bool":
        return VALUE, source, "a bool", "", -1
    if source.endswith((".__code__",)):
        return "object_identity", source, "the function that was compiled for", "another function", -1
    cause = VALUE if is_global(source) or is_module_state(source) else "object_identity"
    expected = f"one object of type {kind}" if kind and kind != "type" else "one object"
    return cause, source, expected, "another object", -1


def _type(match: re.Match[str]) -> _Known:
    source, kind = match[1], _type_name(match[2] or "")
    value = kind in _VALUE_TYPES or is_global(source) or is_module_state(source)
    return VALUE if value else "object_identity", source, f"type {kind}" if kind else "one type", "another type", -1


def _gone(match: re.Match[str]) -> _Known:
    return "object_identity", match[1], "the object that was compiled for", "it was deleted", -1


def _missing(match: re.Match[str]) -> _Known:
    return VALUE, match[1], "present", "absent", -1


def _length(match: re.Match[str]) -> _Known:
    source = re.sub(r"\._(?:modules|parameters|buffers)$", "", match[1])
    if is_module_state(match[1]) and source == match[1]:
        source = match[1]
    cause = "module_state" if is_module_state(match[1]) else VALUE
    return cause, source, _count(match[2], "item"), "", -1


def _empty(match: re.Match[str]) -> _Known | None:
    return (VALUE, match[1], "0 items", "", -1) if _is_source(match[1]) else None


def _contains(match: re.Match[str]) -> _Known:
    absent = bool(match[1])
    words = (f"with {short(match[2])}", f"without {short(match[2])}")
    return VALUE, match[3].removesuffix(".__dict__"), words[absent], words[not absent], -1


def _has(match: re.Match[str]) -> _Known:
    absent = bool(match[1]) or "False" in (match[4] or "")
    if "_dynamo_" in match[3]:
        return _marking(match[2])
    words = (f"with attribute {match[3]}", f"without attribute {match[3]}")
    return VALUE, match[2], words[absent], words[not absent], -1


def _marking(source: str) -> _Known:
    return "other", source, "no marked dimension", "a dimension marked by mark_dynamic or mark_static", -1


def _identity(match: re.Match[str]) -> _Known | None:
    left, negated, right = match[1], bool(match[2]), match[3].strip()
    if not _is_source(left):
        return None
    if right == "None":
        return VALUE, left, "not None" if negated else "None", "None" if negated else "not None", -1
    if not _is_source(right):
        return None
    words = (f"the same object as {user_name(right)}", f"another object than {user_name(right)}")
    return "object_identity", left, words[negated], words[not negated], -1


def _nan(match: re.Match[str]) -> _Known:
    return VALUE, match[1], "nan", "", -1


def _iterator(match: re.Match[str]) -> _Known:
    return VALUE, match[1], f"{match[2].strip()} left to iterate", "", -1


def _keys(match: re.Match[str]) -> _Known:
    return VALUE, match[1], f"keys {match[2].strip()}", "", -1


_T: Final = r"^tensor '(.+?)' "
_FORMS: Final[tuple[_Form, ...]] = tuple(
    (re.compile(pattern, re.DOTALL), read)
    for pattern, read in (
        (_T + r"(size|stride) mismatch at index (\d+)\. expected ([^,]*), actual ([^.\s]*)", _size),
        (_T + r"rank mismatch\. expected (\d+), actual (\d+)", _rank),
        (_T + r"dtype mismatch\. expected ([\w.]+), actual ([\w.]+)", _dtype),
        (_T + r"requires_grad mismatch\. expected requires_grad=(\w+)", _requires_grad),
        (
            _T + r"dispatch key set mismatch\. expected DispatchKeySet\(([^)]*)\), actual DispatchKeySet\(([^)]*)\)",
            _key_set,
        ),
        (
            _T + r"Tensor device index mismatch\. Expected device index to be (-?\d+), actual (-?\d+)",
            lambda m: ("device", m[1], f"index {m[2]}", f"index {m[3]}", -1),
        ),
        (r"^expected type of '(.+?)' to be (.+?),? '? ?but found (.*)", _tensor_type),
        (r"^Duplicate tensors? found(?: where not expected!)?:?(.*)", _duplicate),
        (r"^GLOBAL_STATE changed: ?(.*)", _global_state),
        (r"^___check_torch_function_mode_stack\(\)", _state("torch function modes (a default device among them)")),
        (r"^___check_global_state\(\)", _state("global state of torch")),
        (r"^(not )?___is_grad_enabled\(\)", _state("grad mode")),
        (r"^(not )?___are_deterministic_algorithms_enabled\(\)", _state("deterministic algorithms")),
        (r"^(not )?___is_torch_function_enabled\(\)", _state("torch functions enabled")),
        (r"^utils_device\.CURRENT_DEVICE == (.*)", _state("default device", r"\1")),
        (r"^torch\.autograd\.forward_ad\._current_level == (.*)", _state("forward-mode AD level", r"\1")),
        (r"^torch\._functorch\.pyfunctorch\.compare_functorch_state\(", _state("functorch transforms")),
        (r"^torch\._functorch\.aot_autograd\.utils\.top_saved_tensors_hooks", _state("saved-tensor hooks")),
        (r"^BACKEND_MATCH failure.*?Cached backend: (.*?)\. New backend: (.*?)\. If this", _backend),
        (
            r"^___skip_backend_check\(\)|^___check_current_backend\(",
            lambda m: ("object_identity", "backend", "", "", -1),
        ),
        (r"^Cache line invalidated because (.+?) got deallocated", _gone),
        (
            r"^(?:Unexpected recompilation|Unable to find recompilation reasons|unknown reason|None$)",
            lambda m: ("no_reason", "", "", "", -1),
        ),
        (r"^(?:getattr failed on source|KeyError on|IndexError on) (\S+)", _missing),
        (r"^len\((.+)\) (?:==|!=) (\d+)$", _length),
        (r"^___check_obj_id\((.+?), \d+\)(?:, type=(.*))?$", _object),
        (r"^___check_(?:type_id|fake_script_type)\((.+?), \d+\)(?:, type=(.*))?$", _type),
        (r"^(not )?___dict_contains\((.+?), ([^,]*)\)$", _contains),
        (r"^(not )?set\.__contains__\(([^,]*), (.+)\)$", lambda m: _contains_in_set(m)),
        (r"^(not )?hasattr\((.+?), '([^']*)'\)( == False)?", _has),
        (r"^(?:(.*) )?_has_dynamo_dim_marking is present", lambda m: _marking(m[1] or "")),
        (r"^\(?(?:type\(.+?\) is \w+ and )?_*(?:math|numpy)_isnan\(([^()]+)\)", _nan),
        (r"^___(?:tuple_iterator_len|normalize_range_iter|normalize_count_iter)\((.+?)\) == (.*)", _iterator),
        (r"^___dict_version\((.+?)\) == \d+", lambda m: (VALUE, m[1], "an unchanged dictionary", "a changed one", -1)),
        (r"^list\(dict\.keys\((.+?)\)\) == (.*)", _keys),
        (r"^list\((.+?)\.keys\(\)\) == (.*)", _keys),
        (r"^not (\S+)$", _empty),
        (r"^(\S+) is (not )?(.+)$", _identity),
    )
)


def _contains_in_set(match: re.Match[str]) -> _Known:
    absent = bool(match[1])
    words = (f"with {short(match[3])}", f"without {short(match[3])}")
    return VALUE, match[2], words[absent], words[not absent], -1


# --- conditions

_PARTS: Final = ((".size()[", "size"), (".stride()[", "stride"), (".storage_offset()", "stride"))
_IN_NAME: Final = re.compile(r"[\w.\[\]'\"]")
_INDEX: Final = re.compile(r"(\d{1,4})\]")
_SYMPY: Final = re.compile(r"^(Eq|Ne|Le|Lt|Ge|Gt)\((.+?), (.+)\)$")
_OPERATORS: Final = {"Eq": "==", "Ne": "!=", "Le": "<=", "Lt": "<", "Ge": ">=", "Gt": ">"}
COMPARED: Final = re.compile(r"==|!=|<=|>=|<|>")


def _condition(expression: str) -> _Known | None:
    """``x == value``, or a condition on sizes, strides or numbers."""
    sympy = _SYMPY.match(expression)
    if sympy:
        expression = f"{sympy[2]} {_OPERATORS[sympy[1]]} {sympy[3]}"
    left, right = _equality(expression)
    part = _part(expression)
    if left and _is_source(left):
        value = _literal(right)
        if value is not None and part and part[1] == left:
            return part[0], left, value, "", part[2]
        if value is not None and not part:
            return VALUE, left, value, "", -1
    if part:
        return part[0], part[1], user_name(expression), "", part[2]
    if COMPARED.search(expression):
        for word in re.findall(
            r"(?<![\w'\"])(?:[LG]\[['\"][^'\"\]]*['\"]\]|[^\W\d]\w*)(?:\.\w+|\[[^\]]*\])*", expression
        ):
            if word not in (
                "Mod",
                "Max",
                "Min",
                "FloorDiv",
                "PythonMod",
                "CeilDiv",
                "math",
                "and",
                "or",
                "not",
                "type",
                "is",
            ):
                if re.fullmatch(r"[suz]\d+", word):
                    return "size", "", expression, "", -1
                return VALUE, word, user_name(expression), "", -1
    if left and right:
        return VALUE, left, right, "", -1
    return None


def _part(expression: str) -> tuple[str, str, int] | None:
    """(cause, size or stride of a tensor, dimension): the first in the expression."""
    for mark, cause in _PARTS:
        at = expression.find(mark)
        if at < 0:
            continue
        first = at
        while first and _IN_NAME.match(expression[first - 1]):
            first -= 1
        index = _INDEX.match(expression, at + len(mark))
        if not mark.endswith("["):
            return cause, expression[first : at + len(mark)], -1
        if index and first < at:
            return cause, expression[first : index.end()], int(index[1])
    return None


def _equality(expression: str) -> tuple[str, str]:
    """The two sides of the first ``==`` outside quotes and brackets, or two empty texts."""
    at = outermost(expression, " == ")
    return (expression[:at].strip(), expression[at + 4 :].strip()) if at >= 0 else ("", "")


_SOURCE: Final = re.compile(
    r"(?:[LG]\[(?:'[^'\n]*'|\"[^\"\n]*\")\]|[^\W\d][\w.]*\([^()]*(?:\([^()]*\)[^()]*)*\)|[^\W\d]\w*)"
    r"(?:\.\w+(?:\(\))?|\[(?:'[^'\n]*'|\"[^\"\n]*\"|[^\[\]]*)\])*"
)


def _is_source(text: str) -> bool:
    """It is one value, not a calculation with several."""
    return len(text) <= 2_000 and _SOURCE.fullmatch(text) is not None


def _literal(text: str) -> str | None:
    """The value as Python writes it, None where it is an expression (of sizes, say)."""
    if re.fullmatch(r"-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan)|True|False|None|torch\.\w+|<.*>", text):
        return text
    try:
        ast.literal_eval(text[:4_000])
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        found = re.fullmatch(r"(?:device\(.*\)|torch\.device\(.*\)|\w+\(.*\)|\w+\.\w+)", text)
        return text if found and ".size()" not in text else None
    return text
