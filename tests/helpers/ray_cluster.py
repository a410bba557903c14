"""A Ray cluster of several nodes on this machine, in a process of its own, to be grown, shrunk and stopped by tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from types import TracebackType
from typing import Any

MEMORY = 80 * 2**20


class RayCluster:
    """A cluster whose head has so many CPUs; it ends with the block, whatever happens in it."""

    def __init__(self, n_cpus: int) -> None:
        # Sockets have short names; Ray's own folder must be there before it is written to.
        self._folder = tempfile.mkdtemp(prefix="hf-", dir="/tmp")
        os.mkdir(os.path.join(self._folder, "ray"))
        quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": self._folder}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.ray_cluster", str(n_cpus)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | quiet,
        )
        self.address = self._answer()

    def __enter__(self) -> RayCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def add_node(self, n_cpus: int) -> None:
        """One more node."""
        assert self._ask(f"add {n_cpus}") == "added"

    def kill_node(self) -> None:
        """The node that was added last is gone, without a word."""
        assert self._ask("kill") == "killed"

    def stop(self) -> None:
        """End every process of the cluster; more than once does no harm."""
        if self._process.poll() is None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, order: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        assert answer, "the cluster did not start"
        return answer


def main(n_cpus: str) -> None:
    """Tell the address, then do what is asked until nobody asks any more."""
    from ray.cluster_utils import Cluster

    quiet: dict[str, Any] = {"include_dashboard": False, "object_store_memory": MEMORY}
    cluster = Cluster(initialize_head=True, head_node_args=quiet | {"num_cpus": int(n_cpus)})
    nodes = []
    print(cluster.address, flush=True)
    for line in sys.stdin:
        order, *numbers = line.split()
        if order == "add":
            nodes.append(cluster.add_node(num_cpus=int(numbers[0]), object_store_memory=MEMORY))
            print("added", flush=True)
        else:
            cluster.remove_node(nodes.pop(), allow_graceful=False)
            print("killed", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
