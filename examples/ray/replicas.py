"""Replicas on a Ray cluster, behind one gateway: Ray places them, watches them and starts them again; no request passes Ray.

    pip install lamina "ray[serve]"                                    # on all nodes, with LAMINA_APP_KEY in their environment
    lamina serve --replicas-join 0.0.0.0:8081 --port 8080              # the gateway, anywhere that they reach
    python replicas.py gateway.example:8081 --replicas 4 --cpus 8 -- /models/model.gguf --context 8192
"""

import argparse
import subprocess
import sys

from ray import serve


class Engine:
    """A `lamina serve` that has joined the gateway, as long as this actor lives."""

    def __init__(self, gateway, options):
        command = [sys.executable, "-m", "lamina", "serve", *options, "--gateway", gateway, "--exit-with-parent"]
        # It ends when its input is closed: with this actor, however that ends.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE)

    def check_health(self):
        """Ray asks again and again; after an error it starts another one."""
        code = self.process.poll()
        if code is not None:
            raise RuntimeError(f"lamina serve has ended with code {code}")

    def __del__(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway", help="HOST:PORT, as its --replicas-join says")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--cpus", type=int, default=1, help="of each replica: its threads, and what Ray reserves")
    parser.add_argument("--name", default="lamina", help="of the application in Ray Serve")
    parser.add_argument("options", nargs="*", help="models and options of `lamina serve`, behind --")
    given = parser.parse_args()
    engine = serve.deployment(
        Engine,
        num_replicas=given.replicas,
        ray_actor_options={"num_cpus": given.cpus},
        health_check_period_s=2,
    )
    options = [*given.options, "--threads", str(given.cpus)]
    serve.run(engine.bind(given.gateway, options), name=given.name, route_prefix=None)


if __name__ == "__main__":
    main()
