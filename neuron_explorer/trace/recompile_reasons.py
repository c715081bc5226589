"""Why Dynamo compiled again: the text that it gives, read.

The texts are the code of the guard that failed, or a sentence of the C++ guards; their forms
differ between versions of torch (2.9 to 2.14 are in the tests, with older forms beside them).
Nothing here raises: a text of a form that is not known is a reason with the cause ``other``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from neuron_explorer.trace.compiles import Place, Reason
from neuron_explorer.trace.guard_names import is_global, is_module_state, tensor_of, user_name

MOST_TEXT: Final = 20_000
"""Characters of a text that are read; the rest is kept but not looked at."""

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

_ENTRY: Final = re.compile(r"^\s*(?:- )?\[?(!?\d+(?:/\d+)+(?:_\d+)?|None)\]?:[ \t]?")
_STACK: Final = "\nUser stack trace:"
_STACK_FRAME: Final = re.compile(r'^\s*File "([^"\n]*)", line (\d+), in ([^\n]*)$', re.MULTILINE)
_PLACE: Final = re.compile(r"# (?:[^\n]*?# )??([^\s#][^#\n]*?):(\d+) in ([^\s(]+)")
_HINT: Final = re.compile(r"\(HINT: (.*?)\)\s*$", re.DOTALL)
_CLOSURE_HINT: Final = re.compile(r'guard on "([^"\n]*)"([^\s,)]*)')
_LIBRARY: Final = ("site-packages", "dist-packages", "/lib/python3", "<frozen")

_NUMBER_TYPES: Final = ("int", "float", "complex", "bool", "str", "bytes", "NoneType")
_VALUE_TYPES: Final = (*_NUMBER_TYPES, "list", "tuple", "dict", "set", "frozenset", "range", "slice", "ellipsis")


def parse_reason(text: str) -> Reason:
    """Read one reason. Never raises; ``text`` is kept whole."""
    try:
        return _parse(text)
    except (ValueError, RecursionError, OverflowError, IndexError):
        return Reason(text, "other", str(text).strip())


def closest(reasons: Sequence[Reason]) -> int:
    """Index of the reason of the entry that nearly fitted, -1 without reasons.

    Dynamo reports the first guard that failed in each cache entry, and looks at global state,
    then types, then dtypes, then sizes from the first dimension on, and at conditions on
    dynamic sizes last: the later the guard, the more was equal. Of equals the newest entry's.
    """
    best, best_key = -1, (-1, -1, -1, -1)
    for index, reason in enumerate(reasons):
        key = (*_nearness(reason), _entry_number(reason.entry), -index)
        if key > best_key:
            best, best_key = index, key
    return best


def with_actual(reason: Reason, guards: Iterable[str]) -> Reason:
    """The reason with its found value from the guards of the new compilation, where it lacks one.

    The new compilation guards on what it found, so its guard on the same source says so.
    """
    if reason.actual or not reason.source:
        return reason
    tensor = tensor_of(reason.source)
    for guard in guards:
        checked = _CHECK_TENSOR.search(guard[:MOST_TEXT])
        if checked:
            if user_name(checked[1]) == tensor:
                found = _checked_property(reason, checked)
                if found:
                    return replace(reason, actual=found)
            continue
        other = parse_reason(guard)
        if other.source == reason.source and other.expected and other.expected != reason.expected:
            return replace(reason, actual=other.expected)
    return reason


# --- the parts of a text


def _parse(text: str) -> Reason:
    read = text[:MOST_TEXT]
    entry = ""
    prefix = _ENTRY.match(read)
    if prefix:
        entry = "" if prefix[1] == "None" else prefix[1]
        read = read[prefix.end() :]
    read, _, stack = read.partition(_STACK)
    guard = read.strip()
    expression, comment = _split_comment(guard)
    hint = _HINT.search(comment)
    frames = [(m[1], int(m[2]), m[3].strip()) for m in _STACK_FRAME.finditer(stack)]
    place = _place(frames, comment)
    known = _known(expression)
    if known is None:
        return Reason(text, "other", guard, entry=entry, place=place)
    cause, source, expected, actual, dimension = known
    if cause == _VALUE:
        cause = _value_cause(source, hint[1] if hint else "", frames, place)
    closure = _CLOSURE_HINT.search(hint[1]) if hint else None
    if closure:
        source = closure[1] + closure[2]
    return Reason(
        text,
        cause,
        guard,
        user_name(source),
        _short(expected),
        _short(actual),
        dimension,
        entry,
        place,
    )


def _split_comment(guard: str) -> tuple[str, str]:
    """The expression, and the line of code behind it (a ``#`` inside quotes is none)."""
    quote, index = "", 0
    while index < len(guard):
        char = guard[index]
        if quote:
            if char == "\\":
                index += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "#" and index and guard[index - 1] == " ":
            return guard[:index].strip(), guard[index:]
        index += 1
    hint = guard.rfind("(HINT: ")
    if hint > 0 and guard.endswith(")"):
        return guard[:hint].strip(), guard[hint:]
    return guard, ""


def _place(frames: list[tuple[str, int, str]], comment: str) -> Place | None:
    """The user's line: the innermost outside libraries, else the innermost."""
    for file, line, function in reversed(frames):
        if not any(part in file for part in _LIBRARY):
            return Place(file, line, function)
    if frames:
        return Place(*frames[-1])
    last = None
    for last in _PLACE.finditer(comment):
        if last.end() < len(comment) and comment[last.end() :].lstrip().startswith(("(", "and ")):
            break
    if last is None:
        return None
    return Place(last[1].split("# ")[-1].strip(), int(last[2]), last[3])


def _value_cause(source: str, hint: str, frames: list[tuple[str, int, str]], place: Place | None) -> str:
    if is_global(source):
        return "global_value"
    if is_module_state(source) or "nn.Module" in hint:
        return "module_state"
    functions = {function for _, _, function in frames} | ({place.function} if place else set())
    if re.match(r"(?:L\[['\"]self['\"]\]|self)[.\[]", source) and functions & {"forward", "_call_impl", "__call__"}:
        return "module_state"
    return "python_value"


def _short(value: str) -> str:
    value = value.strip()
    return value if len(value) <= _MOST_VALUE else value[: _MOST_VALUE - 1] + "…"


# --- the forms

_VALUE: Final = "value"
"""A guard on a value; which cause it is depends on where the value lives."""

_Known = tuple[str, str, str, str, int]
_Form = tuple[re.Pattern[str], Callable[[re.Match[str]], "_Known | None"]]


def _known(expression: str) -> _Known | None:
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
        return _VALUE, match[1], expected, "None" if found == "NoneType" else f"a value of type {found}", -1
    return "object_identity", match[1], expected, found, -1


def _type_name(text: str) -> str:
    named = re.search(r"<class '([^']*)'", text)
    name = (named[1] if named else text.strip().rstrip(",")).replace("torch.nn.parameter.Parameter", "nn.Parameter")
    return name.split("<locals>.")[-1].removeprefix("__main__.").removeprefix("builtins.")


def _duplicate(match: re.Match[str]) -> _Known:
    names = re.findall(r'"([^"]*)"', match[1]) or [n.strip() for n in match[1].strip(" .[]").split(",") if n.strip()]
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
        return _VALUE, source, "None", "not None", -1
    if kind == "bool":
        return _VALUE, source, "a bool", "", -1
    if source.endswith((".__code__",)):
        return "object_identity", source, "the function that was compiled for", "another function", -1
    cause = _VALUE if is_global(source) or is_module_state(source) else "object_identity"
    expected = f"one object of type {kind}" if kind and kind != "type" else "one object"
    return cause, source, expected, "another object", -1


def _type(match: re.Match[str]) -> _Known:
    source, kind = match[1], _type_name(match[2] or "")
    value = kind in _VALUE_TYPES or is_global(source) or is_module_state(source)
    return _VALUE if value else "object_identity", source, f"type {kind}" if kind else "one type", "another type", -1


def _gone(match: re.Match[str]) -> _Known:
    return "object_identity", match[1], "the object that was compiled for", "it was deleted", -1


def _missing(match: re.Match[str]) -> _Known:
    return _VALUE, match[1], "present", "absent", -1


def _length(match: re.Match[str]) -> _Known:
    source = re.sub(r"\._(?:modules|parameters|buffers)$", "", match[1])
    if is_module_state(match[1]) and source == match[1]:
        source = match[1]
    cause = "module_state" if is_module_state(match[1]) else _VALUE
    return cause, source, _count(match[2], "item"), "", -1


def _empty(match: re.Match[str]) -> _Known | None:
    return (_VALUE, match[1], "0 items", "", -1) if _is_source(match[1]) else None


def _contains(match: re.Match[str]) -> _Known:
    absent = bool(match[1])
    words = (f"with {_short(match[2])}", f"without {_short(match[2])}")
    return _VALUE, match[3].removesuffix(".__dict__"), words[absent], words[not absent], -1


def _has(match: re.Match[str]) -> _Known:
    absent = bool(match[1]) or "False" in (match[4] or "")
    if "_dynamo_" in match[3]:
        return _marking(match[2])
    words = (f"with attribute {match[3]}", f"without attribute {match[3]}")
    return _VALUE, match[2], words[absent], words[not absent], -1


def _marking(source: str) -> _Known:
    return "other", source, "no marked dimension", "a dimension marked by mark_dynamic or mark_static", -1


def _identity(match: re.Match[str]) -> _Known | None:
    left, negated, right = match[1], bool(match[2]), match[3].strip()
    if not _is_source(left):
        return None
    if right == "None":
        return _VALUE, left, "not None" if negated else "None", "None" if negated else "not None", -1
    if not _is_source(right):
        return None
    words = (f"the same object as {user_name(right)}", f"another object than {user_name(right)}")
    return "object_identity", left, words[negated], words[not negated], -1


def _nan(match: re.Match[str]) -> _Known:
    return _VALUE, match[1], "nan", "", -1


def _iterator(match: re.Match[str]) -> _Known:
    return _VALUE, match[1], f"{match[2].strip()} left to iterate", "", -1


def _keys(match: re.Match[str]) -> _Known:
    return _VALUE, match[1], f"keys {match[2].strip()}", "", -1


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
        (r"^___dict_version\((.+?)\) == \d+", lambda m: (_VALUE, m[1], "an unchanged dictionary", "a changed one", -1)),
        (r"^list\(dict\.keys\((.+?)\)\) == (.*)", _keys),
        (r"^list\((.+?)\.keys\(\)\) == (.*)", _keys),
        (r"^not (\S+)$", _empty),
        (r"^(\S+) is (not )?(.+)$", _identity),
    )
)


def _contains_in_set(match: re.Match[str]) -> _Known:
    absent = bool(match[1])
    words = (f"with {_short(match[3])}", f"without {_short(match[3])}")
    return _VALUE, match[2], words[absent], words[not absent], -1


# --- conditions

_SIZE_PART: Final = re.compile(r"[\w.\[\]'\"]+\.size\(\)\[(\d+)\]")
_STRIDE_PART: Final = re.compile(r"[\w.\[\]'\"]+\.stride\(\)\[(\d+)\]")
_OFFSET_PART: Final = re.compile(r"[\w.\[\]'\"]+\.storage_offset\(\)")
_SYMPY: Final = re.compile(r"^(Eq|Ne|Le|Lt|Ge|Gt)\((.+?), (.+)\)$")
_OPERATORS: Final = {"Eq": "==", "Ne": "!=", "Le": "<=", "Lt": "<", "Ge": ">=", "Gt": ">"}
_COMPARED: Final = re.compile(r"==|!=|<=|>=|<|>")


def _condition(expression: str) -> _Known | None:
    """``x == value``, or a condition on sizes, strides or numbers."""
    sympy = _SYMPY.match(expression)
    if sympy:
        expression = f"{sympy[2]} {_OPERATORS[sympy[1]]} {sympy[3]}"
    left, right = _equality(expression)
    if left and _is_source(left):
        value = _literal(right)
        if value is not None and not _SIZE_PART.search(left) and ".stride()" not in left:
            return _VALUE, left, value, "", -1
        if value is not None:
            part = _SIZE_PART.fullmatch(left) or _STRIDE_PART.fullmatch(left)
            if part:
                return "size" if ".size()" in left else "stride", left, value, "", int(part[1])
    for pattern, cause in ((_SIZE_PART, "size"), (_STRIDE_PART, "stride"), (_OFFSET_PART, "stride")):
        part = pattern.search(expression)
        if part:
            dimension = int(part[1]) if pattern.groups else -1
            return cause, part[0], user_name(expression), "", dimension
    if _COMPARED.search(expression):
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
                return _VALUE, word, user_name(expression), "", -1
    if left and right:
        return _VALUE, left, right, "", -1
    return None


def _equality(expression: str) -> tuple[str, str]:
    """The two sides of the first ``==`` outside quotes and brackets, or two empty texts."""
    quote, depth, index = "", 0, 0
    while index < len(expression):
        char = expression[index]
        if quote:
            if char == "\\":
                index += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif depth == 0 and expression.startswith(" == ", index):
            return expression[:index].strip(), expression[index + 4 :].strip()
        index += 1
    return "", ""


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


# --- what a new compilation found

_CHECK_TENSOR: Final = re.compile(
    r"check_tensor\((.+?), (\w+), DispatchKeySet\(([^)]*)\), torch\.(\w+), device=(\w+), "
    r"requires_grad=(\w+), size=\[([^\]]*)\], stride=\[([^\]]*)\]\)"
)


def _checked_property(reason: Reason, checked: re.Match[str]) -> str:
    if reason.cause == "dtype":
        return checked[4]
    if reason.cause == "requires_grad":
        return "requires gradient" if checked[6] == "True" else "no gradient"
    values = [v.strip() for v in checked[7 if reason.cause == "size" else 8].split(",")]
    if reason.cause in ("size", "stride") and 0 <= reason.dimension < len(values):
        value = values[reason.dimension]
        return "" if value == "None" else value
    return ""


# --- which entry is closest

_RANKS: Final = {
    "no_reason": 0,
    "grad_mode": 1,
    "other": 2,
    "object_identity": 3,
    "device": 4,
    "dtype": 5,
    "requires_grad": 6,
    "module_state": 7,
    "global_value": 7,
    "python_value": 8,
    "size": 9,
    "stride": 12,
}


def _nearness(reason: Reason) -> tuple[int, int]:
    rank = _RANKS.get(reason.cause, 2)
    if reason.cause == "size":
        if reason.dimension < 0 and not _COMPARED.search(reason.expected):
            return 7, 0
        if _COMPARED.search(reason.expected):
            return 11, 0
        return rank, reason.dimension
    return rank, max(reason.dimension, 0)


def _entry_number(entry: str) -> int:
    number = re.search(r"/(\d+)(?:_\d+)?$", entry)
    return int(number[1]) if number else -1
