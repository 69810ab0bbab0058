"""Named tensors of a model as one flat vector and back: names, order, shapes, dtypes, devices."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privagg._validate import describe
from privagg.errors import UsageError
from privagg.protocols.secagg import derivations

__all__ = ["Layout", "Model", "gradients", "load", "model_digest", "tensors"]

Model: TypeAlias = nn.Module | Mapping[str, Tensor]
"""A module, or named tensors such as its ``state_dict()``."""

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_PLAIN = (Tensor, nn.Parameter, nn.Buffer)


def tensors(
    model: nn.Module,
    *,
    names: str | Iterable[str] | None = None,
    trainable_only: bool = False,
    where: Callable[[str, Tensor], bool] | None = None,
) -> dict[str, Tensor]:
    """Return a module's parameters and persistent buffers by name, or some of them.

    They are the module's own, not copies; parameters that share memory each have their name.

    Parameters
    ----------
    model : torch.nn.Module
        The module. What Opacus wraps is looked at as it was before.
    names : str or iterable of str, optional
        Patterns, as of file names: ``"*.lora_*"`` takes what LoRA adds. One must match.
    trainable_only : bool
        Only what ``requires_grad``: no buffers, and nothing that is frozen.
    where : callable, optional
        Says of a name and a tensor whether to take it.

    Raises
    ------
    UsageError
        If nothing is selected, a pattern matches nothing, or the module's state holds what is no
        tensor.
    """
    if not isinstance(model, nn.Module):
        raise UsageError("model", type(model).__name__, "a torch.nn.Module")
    inner = getattr(model, "_module", None)
    if isinstance(inner, nn.Module) and type(model).__name__.startswith("GradSampleModule"):
        model = inner
    patterns = None if names is None else [names] if isinstance(names, str) else list(names)
    held: dict[str, Any] = model.state_dict(keep_vars=True)
    for pattern in patterns or ():
        if not isinstance(pattern, str) or not any(fnmatchcase(name, pattern) for name in held):
            some = ", ".join(list(held)[:4])
            raise UsageError("names", pattern, f"a pattern that matches a name, such as {some}")
    chosen: dict[str, Tensor] = {}
    for name, tensor in held.items():
        if patterns is not None and not any(fnmatchcase(name, one) for one in patterns):
            continue
        if not isinstance(tensor, Tensor):
            hint = "Leave it out by names or where."
            raise UsageError(f"model at {name}", type(tensor).__name__, "a tensor", hint)
        if trainable_only and not tensor.requires_grad:
            continue
        if where is None or where(name, tensor):
            chosen[name] = tensor
    if not chosen:
        raise UsageError("model", "no tensor that is selected", "at least one")
    return chosen


def gradients(
    model: nn.Module, *, missing: Literal["refuse", "zero"] = "refuse", **selection: Any
) -> dict[str, Tensor]:
    """Return the gradients of a module's trainable parameters by name.

    Parameters
    ----------
    model : torch.nn.Module
        After ``backward()``.
    missing : {"refuse", "zero"}
        What to do about a parameter without a gradient.
    **selection
        `names` and `where` of :func:`tensors`.

    Raises
    ------
    UsageError
        If a parameter has no gradient and they are not to be zero, or as :func:`tensors`.
    """
    if missing not in ("refuse", "zero"):
        raise UsageError("missing", missing, "'refuse' or 'zero'")
    found: dict[str, Tensor] = {}
    for name, parameter in tensors(model, **selection | {"trainable_only": True}).items():
        if parameter.grad is None and missing == "refuse":
            raise UsageError(
                f"model at {name}",
                "no gradient",
                "a gradient of every parameter that is selected",
                "Call backward() before, leave it out, or take it for zero: missing='zero'.",
            )
        found[name] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    return found


def model_digest(model: Model) -> bytes:
    """Return the digest that binds a client's masks to the model it was given.

    Names, dtypes, shapes and bytes of all tensors count, frozen and integer ones too: clients that
    were shown other weights get masks that do not cancel, and no sum.

    Parameters
    ----------
    model : module or mapping of tensors
        The model.

    Returns
    -------
    bytes
        32 bytes for ``Client.masked_input(..., model=...)`` and ``Server(..., model=...)``.

    Raises
    ------
    UsageError
        If it is no model, or holds what is no plain tensor in memory.
    """
    parts: list[NDArray[Any]] = []
    for name, tensor in sorted(named(model).items()):
        check_plain(name, tensor)
        head = json.dumps([name, str(tensor.dtype), list(tensor.shape)])
        raw = tensor.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8).numpy()
        parts += [np.frombuffer(head.encode(), np.uint8), raw]
    return derivations.model_digest(parts)


def load(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Copy named tensors into a module's own, in place: dtype, device and hooks stay.

    Parameters
    ----------
    model : module or mapping of tensors
        The model.
    state : mapping of str to tensor
        Tensors by name.

    Raises
    ------
    UsageError
        If a name or shape is another one.
    """
    own = tensors(model)
    for name, tensor in state.items():
        if name not in own:
            raise UsageError(f"state at {name}", "no such tensor in the model", "the model's names")
        if own[name].shape != tensor.shape:
            _refuse(name, f"shape {tuple(tensor.shape)}", f"shape {tuple(own[name].shape)}")
    with torch.no_grad():
        for name, tensor in state.items():
            own[name].copy_(tensor)


@dataclass(frozen=True)
class _Slot:
    """A tensor's place in the vector; `alias` names the one whose memory it shares."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    first: int
    size: int
    alias: str

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


@dataclass(frozen=True)
class Layout:
    """The names, order, shapes, dtypes and devices of tensors; made by :meth:`of`.

    Attributes
    ----------
    size : int
        Length of the flat vector.
    dtype : numpy.dtype
        Its dtype: float64 if a tensor is, else float32, which holds the narrower floats exactly;
        int64 for integers.
    kept : tuple of str
        Tensors of the other kind, which are in no vector.
    """

    _slots: tuple[_Slot, ...]
    size: int
    dtype: np.dtype[Any]
    kept: tuple[str, ...]

    @classmethod
    def of(
        cls,
        model: Model,
        *,
        kind: Literal["float", "integer"] = "float",
        others: Literal["keep", "refuse"] = "keep",
    ) -> Layout:
        """Record the layout of a model's tensors.

        Parameters
        ----------
        model : torch.nn.Module or mapping of str to Tensor
            A ``state_dict()``, gradients, or what :func:`tensors` selects. Tensors that are the
            same memory (tied parameters) take their place once.
        kind : {"float", "integer"}
            Which tensors go into the vector.
        others : {"keep", "refuse"}
            The others, such as ``num_batches_tracked``, are left out and listed in :attr:`kept`,
            or refused.

        Returns
        -------
        Layout

        Raises
        ------
        UsageError
            If a tensor is complex, quantised, sparse, nested, without data (``meta``), of a dtype
            of fewer than 16 bits of float or wrapped by another library; or if none is left.
        """
        for name, value, allowed in (
            ("kind", kind, ("float", "integer")),
            ("others", others, ("keep", "refuse")),
        ):
            if value not in allowed:
                raise UsageError(name, value, " or ".join(map(repr, allowed)))
        wanted = _FLOATS if kind == "float" else _INTEGERS
        slots: list[_Slot] = []
        kept: list[str] = []
        seen: dict[tuple[Any, ...], str] = {}
        at = 0
        for name, tensor in named(model).items():
            check_plain(name, tensor)
            if tensor.dtype not in wanted:
                if tensor.dtype not in (*_FLOATS, *_INTEGERS, torch.bool):
                    _refuse(name, str(tensor.dtype), "floats of 16 to 64 bits, or integers")
                if others == "refuse":
                    hint = "Leave it out, or pass others='keep'."
                    raise UsageError(f"tensor {name}", str(tensor.dtype), f"{kind}s", hint)
                kept.append(name)
                continue
            alias = seen.setdefault(_memory(tensor), name) if tensor.numel() else name
            slots.append(
                _Slot(
                    name=name,
                    shape=tuple(tensor.shape),
                    dtype=tensor.dtype,
                    device=tensor.device,
                    first=at,
                    size=tensor.numel(),
                    alias="" if alias == name else alias,
                )
            )
            at += 0 if alias != name else tensor.numel()
        if not at:
            raise UsageError("model", f"no {kind} in any tensor", "at least one")
        dtype: np.dtype[Any] = np.dtype(np.int64)
        if kind == "float":
            wide = any(slot.dtype == torch.float64 for slot in slots)
            dtype = np.dtype(np.float64 if wide else np.float32)
        return cls(tuple(slots), at, dtype, tuple(kept))

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors in the vector, tied ones too."""
        return tuple(slot.name for slot in self._slots)

    def flatten(self, model: Model) -> NDArray[Any]:
        """Return a model's tensors as one new (size,) vector of :attr:`dtype`, on the host.

        Tensors of other names are not looked at. The device may be another one.

        Parameters
        ----------
        model : module or mapping of tensors
            The model.

        Raises
        ------
        UsageError
            If a tensor is missing, or of another shape or dtype; a number is NaN or infinite (the
            message is for the client, not to be forwarded); or tensors that were tied differ.
        """
        held = named(model)
        out = np.empty(self.size, self.dtype)
        for slot in self._slots:
            if slot.name not in held:
                raise UsageError(f"tensor {slot.name}", "missing", str(slot))
            tensor = held[slot.name]
            check_plain(slot.name, tensor)
            if tuple(tensor.shape) != slot.shape or tensor.dtype != slot.dtype:
                _refuse(slot.name, f"{tensor.dtype} of shape {tuple(tensor.shape)}", str(slot))
            if slot.alias:
                other = held[slot.alias]
                if _memory(other) != _memory(tensor) and not torch.equal(other, tensor):
                    hint = "They were one tensor when the layout was made."
                    _refuse(slot.name, f"other numbers than in {slot.alias}", "the same", hint)
                continue
            part = out[slot.first : slot.first + slot.size]
            part[:] = _numbers(tensor, self.dtype)
            if self.dtype.kind == "f" and not np.isfinite(part).all():
                place = int(np.argmin(np.isfinite(part)))
                _refuse(slot.name, f"{part[place]} at index {place}", "finite numbers")
        return out

    def unflatten(self, vector: NDArray[Any]) -> dict[str, Tensor]:
        """Return new tensors with the numbers of `vector`, rounded to their dtypes.

        Each has its shape, dtype and device; tied ones are one tensor under several names.

        Raises
        ------
        UsageError
            If the vector has another shape or kind, or a number does not fit its tensor's dtype.
        """
        fits = isinstance(vector, np.ndarray) and vector.shape == (self.size,)
        if not fits or vector.dtype.kind != self.dtype.kind:
            kind = "integers" if self.dtype.kind == "i" else "floats"
            raise UsageError("vector", describe(vector), f"a ({self.size},) array of {kind}")
        made: dict[str, Tensor] = {}
        for slot in self._slots:
            if slot.alias:
                made[slot.name] = made[slot.alias]
                continue
            part = vector[slot.first : slot.first + slot.size].reshape(slot.shape)
            if self.dtype.kind == "i" and part.size:
                info = torch.iinfo(slot.dtype)
                if int(part.min()) < info.min or int(part.max()) > info.max:
                    _refuse(slot.name, "an integer that does not fit", str(slot.dtype))
            wide = torch.from_numpy(np.array(part, order="C"))
            tensor = wide.to(slot.dtype)
            if slot.dtype in _FLOATS and bool((tensor.isinf() & wide.isfinite()).any()):
                _refuse(slot.name, "a number too large", f"numbers that fit {slot.dtype}")
            made[slot.name] = tensor.to(slot.device)
        return made

    def describe(self) -> str:
        """Return the layout as canonical JSON text; devices do not count."""
        rows = [[s.name, str(s.dtype), list(s.shape), s.alias] for s in self._slots]
        return json.dumps(rows, separators=(",", ":"))

    def __repr__(self) -> str:
        return f"Layout({len(self._slots)} tensors, size {self.size}, {self.dtype.name})"


def named(model: Model) -> dict[str, Tensor]:
    """Return a model's tensors by name; UsageError if it is none."""
    if isinstance(model, nn.Module):
        return tensors(model)
    if not isinstance(model, Mapping) or not model:
        allowed = "a torch.nn.Module, or a mapping of names to tensors that is not empty"
        raise UsageError("model", type(model).__name__, allowed)
    for name, tensor in model.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise UsageError(f"model at {name}", type(tensor).__name__, "a name and its tensor")
    return dict(model)


def check_plain(name: str, tensor: Tensor) -> None:
    """Refuse a tensor whose numbers are not plainly in memory."""
    if isinstance(tensor, nn.UninitializedParameter | nn.UninitializedBuffer):
        _refuse(name, "a lazy tensor", "tensors", "Run the module once before.")
    if tensor.device.type == "meta":
        hint = "Load the weights: model.to_empty(device=...), then load_state_dict()."
        _refuse(name, "a meta tensor", "tensors with data", hint)
    if tensor.is_complex():
        _refuse(name, "complex numbers", "real ones", "Pass torch.view_as_real(tensor).")
    if tensor.is_quantized:
        _refuse(name, "a quantised tensor", "floats and integers", "Pass tensor.dequantize().")
    if tensor.layout != torch.strided or tensor.is_nested:
        _refuse(name, f"layout {tensor.layout}", "dense tensors", "Pass tensor.to_dense().")
    if type(tensor) not in _PLAIN:
        hint = "Gather it on one device: full_tensor(), for a distributed one."
        _refuse(name, f"a {type(tensor).__name__}", "plain tensors", hint)


def _memory(tensor: Tensor) -> tuple[Any, ...]:
    """Return what tells whether two tensors are the same numbers in the same memory."""
    start = tensor.untyped_storage().data_ptr()
    view = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
    return (str(tensor.device), start, *view)


def _numbers(tensor: Tensor, dtype: np.dtype[Any]) -> NDArray[Any]:
    wide = {"float32": torch.float32, "float64": torch.float64, "int64": torch.int64}[dtype.name]
    host = tensor.detach().to("cpu", wide).contiguous().reshape(-1)
    return host.resolve_neg().numpy()


def _refuse(name: str, found: str, allowed: str, hint: str = "") -> NoReturn:
    raise UsageError(f"tensor {name}", found, allowed, hint)
