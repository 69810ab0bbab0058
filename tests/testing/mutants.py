"""Clients and servers with one thing wrong each: what the kit must report."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from privagg.errors import PeerError
from privagg.protocols.secagg import Client, Server


@contextmanager
def patched(module, name, other):
    """Put `other` in the place of a module's function, for a while."""
    original = getattr(module, name)
    setattr(module, name, other)
    try:
        yield original
    finally:
        setattr(module, name, original)


class Wrapped:
    """A party that does all its work while something is patched."""

    def __init__(self, make, *patch):
        self._patch = patch
        with patched(*patch):
            self._party = make()

    def __getattr__(self, name):
        found = getattr(self._party, name)
        if not callable(found):
            return found

        def call(*args, **options):
            with patched(*self._patch):
                return found(*args, **options)

        return call


def client_with(module, name, other):
    """Return a factory of clients for which `module.name` is `other`."""

    def make(params, policy, *, identity, entropy):
        def client():
            return Client(params, policy, identity=identity, entropy=entropy)

        return Wrapped(client, module, name, other)

    return make


def client_without(module, name, result=None):
    """Return a factory of clients that skip one function."""
    return client_with(module, name, lambda *args, **options: result)


def server_with(module, name, other):
    """Return a factory of servers for which `module.name` is `other`."""

    def make(params, **options):
        return Wrapped(lambda: Server(params, **options), module, name, other)

    return make


class Lenient(Client):
    """Goes on after a lie: the state is put back, so that an honest message is still answered."""

    def _forgiving(self, method, message, *args, **options):
        memory = self._memory
        state = self.dump_state()
        try:
            return method(message, *args, **options)
        except PeerError:
            self._memory = (
                type(self)
                .load_state(state, self._params, self._policy, identity=self._identity)
                ._memory
            )
            assert memory is not self._memory
            raise

    def share_keys(self, roster):
        return self._forgiving(super().share_keys, roster)


class OnSecondThought(Client):
    """Refuses a lie once, and answers when it is said again."""

    def share_keys(self, roster):
        state = self.dump_state()
        try:
            return super().share_keys(roster)
        except PeerError:
            refused = getattr(self, "_refused", False)
            self._refused = True
            self._memory = (
                type(self)
                .load_state(state, self._params, self._policy, identity=self._identity)
                ._memory
            )
            if not refused:
                raise
            # What it answers is what it would have answered to an honest roster.
            own = np.flatnonzero(roster.members == self.index)
            from privagg.protocols.secagg.messages import ShareKeys

            count = len(roster.members) - len(own)
            return ShareKeys(
                tag=roster.tag, commitment=bytes(32), ciphertexts=np.zeros((count, 62), np.uint8)
            )


class Untyped(Client):
    """Calls every lie a ValueError."""

    def share_keys(self, roster):
        try:
            return super().share_keys(roster)
        except PeerError as error:
            raise ValueError(str(error)) from None


class Paranoid(Client):
    """Refuses every roster."""

    def share_keys(self, roster):
        raise PeerError("server", "share-keys", "I trust nobody")


class Talkative(Client):
    """Answers unmasking however often it is asked, with whatever set: both kinds of share."""

    def unmasking(self, message):
        state = self.dump_state()
        before = getattr(self, "_before", None)
        if before is not None:
            self._memory = (
                type(self)
                .load_state(before, self._params, self._policy, identity=self._identity)
                ._memory
            )
        else:
            self._before = state
        return super().unmasking(message)


class Inventive(Client):
    """Makes up the shares that it could not open."""

    def unmasking(self, message):
        reply = super().unmasking(message)
        return replace(reply, missing=np.zeros_like(reply.missing))
