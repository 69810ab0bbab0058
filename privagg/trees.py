"""Trees of arrays, such as a model's parameters, as one flat vector and back.

A :class:`Structure` records the names, order, shapes and dtypes of a tree once; it then flattens
every tree of the same structure in the same order, and puts an aggregate back into that shape.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from privagg._validate import refuse_masked
from privagg.errors import UsageError

__all__ = ["Structure"]

Tree = Any
"""Nested dicts (string keys), lists and tuples of arrays and numbers."""

_MAX_DEPTH = 100
_EXACT_FLOAT = 2**53
"""Integers up to this magnitude are exact as float64."""


@dataclass(frozen=True)
class _Leaf:
    """One array or number. `form` is "array", "scalar" (NumPy's), "int" or "float" (Python's)."""

    path: str
    form: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    size: int

    def describe(self) -> list[object]:
        return [self.form, self.dtype.str, list(self.shape)]

    def __str__(self) -> str:
        if self.form in ("int", "float"):
            return f"a Python {self.form}"
        return f"{self.dtype.name} {self.form} of shape {self.shape}"


@dataclass(frozen=True)
class _Branch:
    """One container: `kind` is "dict", "list" or "tuple"; `keys` are a dict's."""

    path: str
    kind: str
    keys: tuple[str, ...]
    children: tuple[_Leaf | _Branch, ...]

    def describe(self) -> list[object]:
        parts = [child.describe() for child in self.children]
        if self.kind == "dict":
            return ["dict", [[key, part] for key, part in zip(self.keys, parts, strict=True)]]
        return [self.kind, parts]

    def __str__(self) -> str:
        if self.kind == "dict":
            return f"a dict with keys {', '.join(self.keys)}"
        return f"a {self.kind} of {len(self.children)}"


@dataclass(frozen=True)
class Structure:
    """The names, order, shapes and dtypes of a tree of arrays; made by :meth:`of`.

    Structures are equal, and hash alike, if their trees are.

    Attributes
    ----------
    size : int
        Length of the flat vector.
    dtype : numpy.dtype
        Dtype of the flat vector: int64 if all leaves are integers; the widest of the leaves' dtypes
        if all are floats; float64 if there are both.
    """

    _root: _Leaf | _Branch
    size: int
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, tree: Tree) -> Structure:
        """Record the structure of `tree`.

        Parameters
        ----------
        tree : dict, list, tuple, array or number
            Containers may be nested. Keys are strings; a dict keeps its order. Leaves are NumPy
            arrays of any shape, NumPy scalars, and Python ints and floats; dtypes are the integers
            and floats of at most 64 bits.

        Returns
        -------
        Structure

        Raises
        ------
        UsageError
            If the tree, a container or an array is empty; a leaf is None, a bool, a string or of
            another dtype (object, complex, ...); a key is no string; or the tree contains itself.
            The path at fault is named, for example ``layer1.weight``.
        """
        root = _read(tree, "", ())
        leaves = list(_leaves(root))
        kinds = {leaf.dtype.kind == "f" for leaf in leaves}
        if kinds == {True}:
            dtype = np.result_type(*{leaf.dtype.newbyteorder("=") for leaf in leaves})
        else:
            dtype = np.dtype(np.float64 if True in kinds else np.int64)
        return cls(root, sum(leaf.size for leaf in leaves), dtype)

    def flatten(self, tree: Tree) -> NDArray[Any]:
        """Return the leaves of `tree` as one new ``(size,)`` vector of :attr:`dtype`.

        Dicts are read by key: their order may differ.

        Raises
        ------
        UsageError
            If `tree` has another structure (the path at fault is named), an integer does not fit
            int64, or, where integers and floats are mixed, an integer is beyond ``2**53`` and would
            be rounded.
        """
        if _read(tree, "", ()) != self._root:
            _match(self._root, tree)
        out = np.empty(self.size, self.dtype)
        at = 0
        for leaf, value in _pairs(self._root, tree):
            if leaf.dtype.kind in "iu":
                self._check_integers(leaf, value)
            out[at : at + leaf.size].reshape(leaf.shape)[...] = value
            at += leaf.size
        return out

    def unflatten(
        self, vector: NDArray[Any], keep_dtype: bool = True, *, widen: bool = False
    ) -> Tree:
        """Return a tree of this structure, with the numbers of `vector`.

        Parameters
        ----------
        vector : (size,) array of integers or floats
            A flat vector, such as a decoded sum or mean.
        keep_dtype : bool
            Cast float leaves back to their own dtype. Otherwise every leaf has the vector's dtype.
        widen : bool
            Where a finite number does not fit the float dtype of its leaf, give this leaf float64
            instead of refusing: a sum of float16 is soon beyond 65504.

        Returns
        -------
        tree
            New arrays. An integer leaf does not get its own dtype back, as a sum may not fit it: it
            is int64 if `vector` holds integers, and float64 if it holds floats, as a mean need not
            be whole.

        Raises
        ------
        UsageError
            If the vector has another shape or dtype or is masked, or a finite number does not fit
            the float dtype of its leaf and `widen` is not set.
        """
        refuse_masked("vector", vector)
        if (
            not isinstance(vector, np.ndarray)
            or vector.shape != (self.size,)
            or vector.dtype.kind not in "iuf"
            or vector.dtype.itemsize > 8
        ):
            found = _name(vector)
            if isinstance(vector, np.ndarray):
                found += f" of shape {vector.shape}"
            raise UsageError("vector", found, f"a ({self.size},) array of integers or floats")
        for name, flag in (("keep_dtype", keep_dtype), ("widen", widen)):
            if not isinstance(flag, bool):
                raise UsageError(name, flag, "True or False")
        if vector.dtype.kind == "u" and int(vector.max()) >= 2**63:
            raise UsageError("vector", f"an integer of {int(vector.max())}", "integers below 2**63")
        wide = np.dtype(np.float64 if vector.dtype.kind == "f" else np.int64)
        position = 0

        def build(node: _Leaf | _Branch) -> Tree:
            nonlocal position
            if isinstance(node, _Branch):
                parts = [build(child) for child in node.children]
                if node.kind == "dict":
                    return dict(zip(node.keys, parts, strict=True))
                return tuple(parts) if node.kind == "tuple" else parts
            part = vector[position : position + node.size].reshape(node.shape)
            position += node.size
            if not keep_dtype:
                return _restore(node, part.astype(vector.dtype))
            return _restore(
                node, _cast(node, part, widen) if node.dtype.kind == "f" else part.astype(wide)
            )

        return build(self._root)

    def describe(self) -> str:
        """Return the structure as canonical JSON text: equal if, and only if, structures are.

        A leaf is ``[form, dtype, shape]``, a container ``[kind, children]``; a dict's children are
        ``[key, child]`` pairs.
        """
        return json.dumps(self._root.describe(), separators=(",", ":"))

    def __repr__(self) -> str:
        count = sum(1 for _ in _leaves(self._root))
        return f"Structure({count} leaves, size {self.size}, {self.dtype.name})"

    def _check_integers(self, leaf: _Leaf, value: Any) -> None:
        limit = _EXACT_FLOAT if self.dtype.kind == "f" else 2**63 - 1
        if leaf.form != "int" and np.iinfo(leaf.dtype).max <= limit:
            return
        low, high = (value, value) if leaf.form == "int" else (int(value.min()), int(value.max()))
        if low < (-limit if self.dtype.kind == "f" else -(2**63)) or high > limit:
            found = high if high > limit else low
            if self.dtype.kind == "f":
                _refuse(leaf.path, str(found), "integers up to 2**53, as the tree also has floats")
            _refuse(leaf.path, str(found), "integers that fit int64")


def _read(tree: Tree, path: str, parents: tuple[int, ...]) -> _Leaf | _Branch:
    """Return the structure below `path`; `parents` are the ids of the containers around it."""
    if not isinstance(tree, dict | list | tuple):
        return _read_leaf(tree, path)
    if id(tree) in parents:
        _refuse(path, "a container that contains itself", "trees")
    if len(parents) >= _MAX_DEPTH:
        _refuse(path, "deeper nesting", f"at most {_MAX_DEPTH} levels")
    if not isinstance(tree, dict) and type(tree) not in (list, tuple):
        _refuse(path, type(tree).__name__, "dict, list, tuple, array or number", "Convert it.")
    if not tree:
        _refuse(path, f"an empty {type(tree).__name__}", "containers with at least one leaf")
    inside = (*parents, id(tree))
    if isinstance(tree, dict):
        for key in tree:
            if not isinstance(key, str):
                _refuse(path, f"key {key!r}", "string keys")
        children = tuple(_read(tree[key], _join(path, key), inside) for key in tree)
        return _Branch(path, "dict", tuple(tree), children)
    children = tuple(_read(item, f"{path}[{i}]", inside) for i, item in enumerate(tree))
    return _Branch(path, type(tree).__name__, (), children)


def _read_leaf(value: object, path: str) -> _Leaf:
    if type(value) is int:
        return _Leaf(path, "int", np.dtype(np.int64), (), 1)
    if type(value) is float:
        return _Leaf(path, "float", np.dtype(np.float64), (), 1)
    scalar = isinstance(value, np.integer | np.floating)
    # Other subclasses may carry more than numbers: a masked array's mask would be lost.
    if not scalar and type(value) not in (np.ndarray, np.memmap):
        hint = "Convert it with numpy.asarray." if hasattr(value, "__array__") else ""
        if isinstance(value, np.ma.MaskedArray):
            hint = "Say what stands for the masked numbers: array.filled(0), for example."
        _refuse(path, type(value).__name__, "arrays and numbers", hint)
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        _refuse(path, f"dtype {array.dtype}", "integers and floats of at most 64 bits")
    if array.size == 0:
        _refuse(path, f"an empty array of shape {array.shape}", "arrays with at least one number")
    return _Leaf(path, "scalar" if scalar else "array", array.dtype, array.shape, array.size)


def _match(node: _Leaf | _Branch, tree: Tree) -> None:
    """Find the first place, in the order of the structure, where `tree` differs from `node`."""
    found = _read(tree, node.path, ())
    if isinstance(node, _Leaf) or isinstance(found, _Leaf):
        if node != found:
            _refuse(node.path, str(found), str(node))
        return
    if (
        node.kind != found.kind
        or set(node.keys) != set(found.keys)
        or len(node.children) != len(found.children)
    ):
        _refuse(node.path, str(found), str(node))
    for child, item in _items(node, tree):
        _match(child, item)


def _items(node: _Branch, tree: Tree) -> Iterator[tuple[_Leaf | _Branch, Tree]]:
    items = [tree[key] for key in node.keys] if node.kind == "dict" else tree
    return zip(node.children, items, strict=True)


def _pairs(node: _Leaf | _Branch, tree: Tree) -> Iterator[tuple[_Leaf, Any]]:
    if isinstance(node, _Leaf):
        yield node, tree
        return
    for child, item in _items(node, tree):
        yield from _pairs(child, item)


def _leaves(node: _Leaf | _Branch) -> Iterator[_Leaf]:
    if isinstance(node, _Leaf):
        yield node
        return
    for child in node.children:
        yield from _leaves(child)


def _cast(leaf: _Leaf, part: NDArray[Any], widen: bool) -> NDArray[Any]:
    """Cast to the leaf's float dtype; refuse, or leave in float64, what would become infinite."""
    with np.errstate(over="ignore"):
        cast = part.astype(leaf.dtype)
    if np.any(np.isinf(cast) & np.isfinite(part)):
        if widen:
            return part.astype(np.float64)
        _refuse(
            leaf.path,
            "a number too large",
            f"numbers that fit {leaf.dtype.name}",
            "Pass widen=True, or keep_dtype=False.",
            argument="vector",
        )
    return cast


def _restore(leaf: _Leaf, part: NDArray[Any]) -> Any:
    """Return an array leaf as it is, a NumPy scalar as one, and a Python number as one."""
    if leaf.form == "array":
        return part
    return part[()] if leaf.form == "scalar" else part.item()


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _name(value: object) -> str:
    return f"{value.dtype} array" if isinstance(value, np.ndarray) else type(value).__name__


def _refuse(
    path: str, found: str, allowed: str, hint: str = "", argument: str = "tree"
) -> NoReturn:
    raise UsageError(f"{argument} at {path}" if path else argument, found, allowed, hint)
