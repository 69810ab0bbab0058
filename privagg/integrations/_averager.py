"""Federated averaging for a training loop of one's own: what clients and the server do each round.

No I/O: parties take and give bytes, and the user's transport carries them.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from privagg import keys
from privagg.entropy import OS, Entropy
from privagg.errors import PeerError, UsageError
from privagg.integrations._tensors import Layout, Model, gradients, load, model_digest, tensors
from privagg.protocols import secagg
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.messages import Message

__all__ = ["AveragingClient", "AveragingServer", "SecureAverager"]


class SecureAverager:
    """What all parties of a federated training agree on; it makes both halves of each round.

    Guarantee: that of :class:`secagg.Client` and :class:`secagg.Server` under ``params.threat``.
    The masks are bound to the layout and to the digest of the model that a client was given (all of
    it, frozen tensors too), so that a server which gives one client another model gets no sum, nor
    do parties that take other tensors, or in another order, for the same. The mean itself
    is not hidden, and says something about who is in it: see :mod:`privagg.integrations.opacus`.

    Parameters
    ----------
    params : secagg.Params
        The round's; see :meth:`recommend`.
    layout : Layout
        The tensors that are averaged: ``Layout.of(model)``, or of a part,
        ``Layout.of(tensors(model, names="*.lora_*"))``. Integer tensors are not averaged.

    Raises
    ------
    UsageError
        If `params` are not for floats, or for vectors of another length.
    """

    def __init__(self, params: secagg.Params, layout: Layout) -> None:
        if not isinstance(params, secagg.Params):
            raise UsageError("params", type(params).__name__, "secagg.Params")
        if not isinstance(layout, Layout) or layout.dtype.kind != "f":
            raise UsageError("layout", type(layout).__name__, "a Layout of floats")
        if params.encoding.clip is None:
            raise UsageError("params", "integers", "floats", "Pass clip to Params.recommend.")
        if params.dim != layout.size:
            raise UsageError("params", f"dim={params.dim}", f"dim={layout.size}, the layout's size")
        self.params, self.layout = params, layout

    @classmethod
    def recommend(
        cls, layout: Layout, *, clients: int, clip: float, **choices: Any
    ) -> SecureAverager:
        """Return an averager with recommended parameters.

        Parameters
        ----------
        layout : Layout
            The tensors that are averaged.
        clients : int
            Clients in a round.
        clip : float
            Bound on every number of an update.
        **choices
            The rest of :meth:`secagg.Params.recommend`, ``weighted`` and ``max_weight`` for
            example.
        """
        if not isinstance(layout, Layout):
            raise UsageError("layout", type(layout).__name__, "a Layout")
        dim = layout.size
        return cls(secagg.Params.recommend(clients=clients, dim=dim, clip=clip, **choices), layout)

    def client(
        self,
        *,
        policy: secagg.Policy | None = None,
        identity: secagg.Signer | None = None,
        entropy: Entropy = OS,
    ) -> AveragingClient:
        """Return a client's half of one round; the arguments are those of `secagg.Client`.

        Parameters
        ----------
        policy : secagg.Policy, optional
            What the client insists on.
        identity : secagg.Signer, optional
            Its identity, where messages are signed.
        entropy : Entropy
            Where randomness comes from: the operating system, unless it is to be repeatable.
        """
        party = secagg.Client(self.params, policy, identity=identity, entropy=entropy)
        return AveragingClient(self, party)

    def server(
        self, model: Model, *, roster: secagg.Directory | None = None, **settings: Any
    ) -> AveragingServer:
        """Return the server's half of one round.

        Parameters
        ----------
        model : torch.nn.Module or mapping
            The model that all clients are given.
        roster : Directory, optional
            The clients' identities, where messages are signed.
        **settings
            ``session``, ``round_number``, ``entropy``, ``workers`` of :class:`secagg.Server`.
        """
        party = secagg.Server(self.params, roster=roster, model=self.digest(model), **settings)
        return AveragingServer(self, party)

    def digest(self, model: Model) -> bytes:
        """Return the 32 bytes that masks are bound to: of the layout and all of the model.

        Parameters
        ----------
        model : module or mapping of tensors
            The model.
        """
        layout = self.layout.describe().encode()
        return keys.digest(b"privagg averaged model", layout, model_digest(model))


_METHODS: dict[type[Message], str] = {
    messages.Start: "advertise_keys",
    messages.GraphRequest: "commit_graph",
    messages.GraphChallenge: "reveal_graph",
    messages.KeyRoster: "share_keys",
    messages.SignatureSet: "unmasking",
}


class AveragingClient:
    """One client's half of a round: an update goes in, messages are answered.

    Say the update before the masked input is due, at the latest when the roster has been answered.

    Parameters
    ----------
    averager : SecureAverager
        What all parties agreed on.
    party : secagg.Client
        The client of the round.
    """

    def __init__(self, averager: SecureAverager, party: secagg.Client) -> None:
        self._averager, self._party = averager, party
        self._update: tuple[NDArray[Any], int, bytes] | None = None

    @property
    def clipped(self) -> int:
        """How many numbers of the update lay outside the clip; never sent to anyone."""
        return self._party.clipped

    @property
    def party(self) -> secagg.Client:
        """The client of the protocol, for its state."""
        return self._party

    def update(self, before: Model, after: Model, *, weight: int = 1) -> None:
        """Contribute what training changed: `after` less `before`.

        Parameters
        ----------
        before : torch.nn.Module or mapping
            All of the model that the server gave: the masks are bound to its digest. A copy, as
            training changes the module: ``copy.deepcopy(model.state_dict())``.
        after : torch.nn.Module or mapping
            The model after training.
        weight : int
            The number of examples, where the round is weighted.

        Raises
        ------
        UsageError
            As :meth:`Layout.flatten`; or if they are the same memory, where no change can be seen.
        """
        layout = self._averager.layout
        was, became = _mapping(before), _mapping(after)
        if all(was[n].data_ptr() == became[n].data_ptr() for n in layout.names if n in was):
            hint = "Keep a copy before training: copy.deepcopy(model.state_dict())."
            raise UsageError("before", "the same memory as after", "a copy from before", hint)
        change = layout.flatten(became) - layout.flatten(was)
        self._contribute(change, weight, self._averager.digest(before))

    def gradient(
        self,
        model: nn.Module,
        *,
        weight: int = 1,
        missing: Any = "refuse",
        before: Model | None = None,
    ) -> None:
        """Contribute the gradients that a module has after ``backward()``.

        Parameters
        ----------
        model : torch.nn.Module
            After ``backward()``.
        weight : int
            The number of examples, where the round is weighted.
        missing : {"refuse", "zero"}
            As in :func:`gradients`.
        before : torch.nn.Module or mapping, optional
            All of the model that the server gave, as in :meth:`update`; `model` itself if left out.
            A module that learns in its forward pass (batch norm's running means) needs it.

        Raises
        ------
        UsageError
            As :func:`gradients` and :meth:`Layout.flatten`; or if the module learns in its forward
            pass and `before` is left out.
        """
        found = gradients(model, missing=missing)
        if before is None:
            for name, part in model.named_modules():
                if part.training and getattr(part, "track_running_stats", False):
                    raise UsageError(
                        "before",
                        f"none, where {name or 'the module'} has changed its running statistics",
                        "a copy of what the server gave",
                        "Keep it before the forward pass: copy.deepcopy(model.state_dict()).",
                    )
            before = model
        averager = self._averager
        self._contribute(averager.layout.flatten(found), weight, averager.digest(before))

    def _contribute(self, vector: NDArray[Any], weight: int, digest: bytes) -> None:
        if self._update is not None:
            raise UsageError("update", "a second one", "one update for each round")
        self._update = vector, weight, digest

    def answer(self, data: bytes) -> bytes:
        """Answer a message of the server.

        Parameters
        ----------
        data : bytes
            The message's bytes.

        Returns
        -------
        bytes
            The answer, to be sent back.

        Raises
        ------
        UsageError
            If the update is due and there is none, or it does not fit the parameters.
        PeerError
            If the server misbehaves.
        Abort
            If too few are left.
        """
        params, party = self._averager.params, self._party
        message: Any = messages.decode(data, params, peer="server")
        if isinstance(message, messages.ShareBundle):
            if self._update is None:
                raise UsageError("update", "none", "an update before the masked input is due")
            vector, weight, digest = self._update
            reply: Message = party.masked_input(message, vector, weight=weight, model=digest)
            return bytes(reply.encode())
        if isinstance(message, messages.SurvivorSet):
            name = "consistency_check" if params.signed else "unmasking"
        elif type(message) in _METHODS:
            name = _METHODS[type(message)]
        else:
            reason = f"{type(message).__name__}, which only clients send"
            raise PeerError("server", "any", reason)
        reply = getattr(party, name)(message)
        return bytes(reply.encode())

    def delivered(self) -> None:
        """Say that the server has the last answer; see :meth:`secagg.Client.delivered`."""
        self._party.delivered()

    def __repr__(self) -> str:
        return f"AveragingClient({self._party.state.value})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client holds secrets of one round and cannot be pickled")


class AveragingServer:
    """The server's half of a round: it collects answers and applies the mean.

    Parameters
    ----------
    averager : SecureAverager
        What all parties agreed on.
    party : secagg.Server
        The server of the round.
    """

    def __init__(self, averager: SecureAverager, party: secagg.Server) -> None:
        self._averager, self._party = averager, party

    @property
    def done(self) -> bool:
        """Whether the mean is there."""
        return self._party.phase is secagg.Phase.DONE

    @property
    def party(self) -> secagg.Server:
        """The server of the protocol: its phase, survivors and blame."""
        return self._party

    def waiting_for(self) -> list[int]:
        """Return the clients that get a message in the round being collected."""
        return [int(client) for client in self._party.alive()]

    def message_for(self, client: int) -> bytes:
        """Return what to send to a client now.

        Parameters
        ----------
        client : int
            Its index.
        """
        return bytes(self._party.message_for(client).encode())

    def receive(self, client: int, data: bytes) -> None:
        """Take a client's answer.

        Parameters
        ----------
        client : int
            Its index, as the transport authenticated it.
        data : bytes
            The answer's bytes.

        Raises
        ------
        PeerError
            If it is malformed, or contradicts the protocol; the round goes on without it.
        """
        self._party.receive(client, messages.decode(data, self._averager.params, peer=client))

    def close(self) -> None:
        """End the round being collected with those who answered; see `secagg.Server.close`."""
        self._party.close()

    def mean(self) -> dict[str, Tensor]:
        """Return the (weighted) mean of the updates, in the layout's dtypes.

        Raises
        ------
        UsageError
            If the round is not over.
        """
        return self._averager.layout.unflatten(np.asarray(self._party.result().mean, np.float64))

    def apply(self, model: nn.Module, *, learning_rate: float = 1.0) -> None:
        """Add the mean update, times `learning_rate`, to the model's tensors, in place.

        It is added in float64 and rounded once to each tensor's dtype.

        Parameters
        ----------
        model : module or mapping of tensors
            The model.
        learning_rate : float
            Factor of the update.

        Raises
        ------
        UsageError
            If the round is not over, or the sum does not fit a tensor's dtype.
        """
        layout = self._averager.layout
        update = np.asarray(self._party.result().mean, np.float64)
        load(model, layout.unflatten(layout.flatten(model) + learning_rate * update))

    def set_gradients(self, model: nn.Module) -> None:
        """Make the mean of the gradients the model's own, for its optimiser's step.

        Parameters
        ----------
        model : module or mapping of tensors
            The model.

        Raises
        ------
        UsageError
            If the result is not there yet, or the model has other tensors.
        """
        own = tensors(model)
        for name, tensor in self.mean().items():
            if name not in own:
                raise UsageError(f"model at {name}", "no such parameter", "the layout's names")
            own[name].grad = tensor.to(own[name].device)

    def __repr__(self) -> str:
        return f"AveragingServer({self._party.phase.title})"


def _mapping(model: Model) -> dict[str, Tensor]:
    return tensors(model) if isinstance(model, nn.Module) else dict(model)
