"""Methods of classes in Python whose usual calls are compiled; see `method_kernels.py`."""

from __future__ import annotations

import ctypes
import inspect
import sys
from typing import TYPE_CHECKING, Any

from chainrule.base.jit import address_of
from chainrule.features.kenlm.files import method_kernels as kernels

if TYPE_CHECKING:
    from collections.abc import Callable

_FASTCALL, _KEYWORDS = 0x80, 0x02  # how C is called: METH_FASTCALL | METH_KEYWORDS
_KERNELS = {
    "BaseScore": (kernels.score_word, kernels.SCORE_WORD),
    "BaseFullScore": (kernels.fully_score_word, kernels.FULLY_SCORE_WORD),
    "score": (kernels.score, kernels.SCORE),
}


class _Definition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_kept: list[_Definition] = []  # as long as the methods


def _has(content: Any, address: Callable[[Any], int]) -> bool:
    """Return whether this Python keeps objects as the kernels expect: their type, then an address."""
    if sys.implementation.name != "cpython":
        return False
    numbers = (ctypes.c_int64 * 3).from_address(id(content))
    return numbers[kernels.TYPE] == id(type(content)) and numbers[kernels.CONTENT] == address(content)


def compile_methods(owner: Any, state: type[ctypes.Array[Any]], result: type) -> dict[int, int]:
    """Put compiled methods in the place of those of a class.

    Returns fields of its objects' records, by their numbers; nothing if this Python has its objects in another form,
    where methods stay as they are. state: the class of states. result: that of full scores.
    """
    unopened = owner.__new__(owner)
    unopened._address = 1 << 40  # of many digits, so no other object
    if not (_has(state(), ctypes.addressof) and _has(unopened, lambda model: id(model._address))):
        return {}
    fields = {kernels.STATE_TYPE: id(state), kernels.TEXT_TYPE: id(str), kernels.RESULT_TYPE: id(result)}
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.POINTER(_Definition))
    for name, (kernel, field) in _KERNELS.items():
        function = vars(owner)[name]
        fields[field] = id(function)
        signature = inspect.signature(function)
        parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        shown = str(inspect.Signature(parameters)).replace("(self", "($self", 1)
        doc = f"{name}{shown}\n--\n\n{inspect.getdoc(function)}"
        address = address_of(kernel, 0, 0, 0, 0)
        definition = _Definition(name.encode(), address, _FASTCALL | _KEYWORDS, doc.encode())
        _kept.append(definition)
        setattr(owner, f"_{name}", function)  # kept alive, and called where a call is not the usual one
        setattr(owner, name, make(owner, definition))
    return fields
