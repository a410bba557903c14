"""A Ray cluster → workers: actors are asked for places, listened to, and told apart from nodes when they are lost."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import StudyError
from holdfast.study.engines.crew import DONE, EVENT, Died, Hand, Message
from holdfast.study.engines.ray_actor import Actor, Home, Place
from holdfast.study.items import Task
from holdfast.study.spec import StudySpec

if TYPE_CHECKING:
    from holdfast.study.engines.on_ray import Ray

_SECONDS_OF_DOUBT = 60.0
"""How long an actor may be out of reach before it counts as lost."""

_SECONDS_TO_FETCH = 60.0
"""How long an answer that is there may take to be copied to this machine."""

RESUME = "What was stored is kept: run the same study with the same file to go on, on this engine or another."


class RaySite:
    """The cluster that this process is connected to."""

    def __init__(self, engine: Ray, spec: StudySpec) -> None:
        import ray

        self.engine, self.spec, self.home = engine, spec, Home.here()
        self.own_node = ray.get_runtime_context().get_node_id()
        # Nodes take turns, so that the loss of one is the loss of few; Ray itself restarts nothing.
        asked = {"num_cpus": engine.cpus_per_worker, "num_gpus": engine.gpus_per_worker}
        self.actors = ray.remote(Actor).options(**asked, max_restarts=0, scheduling_strategy="SPREAD")
        self._placed = time.monotonic()

    def hire(self) -> RayHand:
        """An actor, which may have to wait for its place."""
        return RayHand(self)

    def wait(self, hands: list[RayHand], seconds: float) -> Iterable[RayHand]:
        """Those that have something to say."""
        import ray

        self._check_places(hands)
        talking = [hand for hand in hands if hand.said]
        calls = {hand.call: hand for hand in hands if not hand.said}
        if calls:
            ready, _ = ray.wait(list(calls), num_returns=1, timeout=0 if talking else seconds)
            if ready and len(calls) > 1:
                ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0)
            talking += [calls[call] for call in ready if calls[call].listen()]
        return talking

    def _check_places(self, hands: list[RayHand]) -> None:
        """An actor that nothing has room for waits forever, unless nodes are added."""
        if any(hand.place is not None for hand in hands):
            self._placed = time.monotonic()
        elif time.monotonic() - self._placed > self.engine.patience:
            raise StudyError(f"No worker got a place within {self.engine.patience:g} s: {self.shortage()} {RESUME}")

    def shortage(self) -> str:
        """What is asked for, and what there is."""
        return f"each asks for {self.engine.request}, and the nodes have {_listed(alive_nodes().values())}."

    def judge(self, place: Place | None, error: Exception) -> Died:
        """Whether a worker died of its task, or with its node; the loss of this process's own node ends the study."""
        alive = alive_nodes()
        if self.own_node not in alive:
            raise StudyError(f"The node of the Ray cluster that this process is on was lost. {RESUME}")
        if place is None:
            return Died(_last_line(error), counts=getattr(error, "actor_init_failed", False))
        if place.node not in alive or getattr(error, "preempted", False):
            return Died(f"its node {place.host} was lost", counts=False)
        return Died(f"its process on {place.host} was killed or crashed, as when memory runs out")


class RayHand(Hand):
    """One actor, and the call that it has not answered yet."""

    def __init__(self, site: RaySite) -> None:
        self._site, self._actor = site, site.actors.remote(site.home)
        self.call: Any = self._actor.place.remote()
        self.place: Place | None = None
        self.said: deque[Message | Died] = deque()
        self._stopping = False
        self._doubted: float | None = None

    def give(self, task: Task) -> None:
        self.call = self._actor.begin.remote(task)

    def stop(self) -> None:
        self._stopping = True

    def hear(self) -> Message:
        said = self.said.popleft()
        if isinstance(said, Died):
            raise said
        return said

    def end(self) -> None:
        import ray

        ray.kill(self._actor)

    def listen(self) -> bool:
        """Take the answer to its call, or its death; whether there is something to tell."""
        try:
            self._take(self._answer())
        except Died as death:
            self.said.append(death)
        return bool(self.said)

    def _answer(self) -> Any:
        """What its call brought; None if that cannot be told yet."""
        import ray
        from ray import exceptions

        try:
            return ray.get(self.call, timeout=_SECONDS_TO_FETCH)
        except exceptions.ActorUnavailableError:
            return self._ask_again()
        except exceptions.ActorDiedError as error:
            raise self._site.judge(self.place, error) from None
        except exceptions.OutOfMemoryError:
            raise Died("Ray ended it because its node ran out of memory") from None
        except exceptions.RayTaskError as error:
            raise StudyError(f"A worker on Ray failed: {_last_line(error)}") from error
        except exceptions.RayError as error:
            raise Died(f"its answer was lost ({type(error).__name__})", counts=False) from None

    def _ask_again(self) -> None:
        """Out of reach: whether it is dead, and of what, is known a little later."""
        now = time.monotonic()
        self._doubted = self._doubted or now
        if now - self._doubted > _SECONDS_OF_DOUBT:
            raise Died("it could not be reached any more", counts=False)
        self.call = self._actor.place.remote()

    def _take(self, answer: Place | list[Message] | None) -> None:
        if isinstance(answer, Place):
            self._settle(answer)
        elif answer is not None:
            self.said.extend(answer)
            if answer[-1][0] == EVENT:
                self._go_on()

    def _settle(self, place: Place) -> None:
        """It has its place, and may load; one that was asked whether it lives has lost an answer on the way."""
        if self._doubted is not None:
            raise Died(f"the connection to {place.host} broke", counts=False)
        self.place = place
        _check_version(place)
        engine = self._site.engine
        self.call = self._actor.load.remote(self._site.spec, engine.load, max(1, int(engine.cpus_per_worker)))

    def _go_on(self) -> None:
        """It computes the next item while the last ones are stored, unless it is to stop."""
        if self._stopping:
            self.said.append((DONE, None))
        else:
            self.call = self._actor.step.remote()


def alive_nodes() -> dict[str, Mapping[str, float]]:
    """What each node has, by its id."""
    import ray

    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def room_for(request: Mapping[str, float], nodes: Iterable[Mapping[str, float]]) -> int:
    """How many workers fit on nodes with these resources.

    Examples
    --------
    >>> room_for({"CPU": 2, "GPU": 0.5}, [{"CPU": 16, "GPU": 2}, {"CPU": 5, "GPU": 8}, {"CPU": 64}])
    6
    """
    asked = {name: amount for name, amount in request.items() if amount}
    # A tenth that is not one, in binary, must not cost a place.
    return sum(int(min(node.get(name, 0) / amount + 1e-9 for name, amount in asked.items())) for node in nodes)


def _check_version(place: Place) -> None:
    from holdfast import __version__

    if place.version != __version__:
        raise StudyError(
            f"Every node must have the holdfast of this process, {__version__}; {place.host} has {place.version}."
        )


def _listed(nodes: Iterable[Mapping[str, float]]) -> str:
    """CPUs and GPUs of nodes, in words."""
    return ", ".join(f"{node.get('CPU', 0):g} CPUs and {node.get('GPU', 0):g} GPUs" for node in nodes) or "nothing"


def _last_line(error: Exception) -> str:
    """What an error of Ray says, without the traces and the advice around it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
