"""Machines without a common disk, on this one: a Ray cluster of namespaces.

Every machine has network, mounts, name and process ids of its own (`unshare`), an address on a bridge
that reaches nothing else, and private memory over `/tmp`, `/dev/shm` and the folders that are named.
The head has no CPUs. A machine that is switched off takes all of its processes with it.
"""

import contextlib
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

ADDRESS = "10.77.0.1:6379"
BIN = Path(sys.executable).parent
SECONDS_TO_START = 240.0  # on a busy machine


def obstacle():
    """Why machines cannot be made here; empty where they can."""
    call = ["unshare", "-n", "-m", "-p", "--fork", "--kill-child", "ip", "link", "show", "lo"]
    try:
        tried = subprocess.run(call, capture_output=True, text=True)
    except OSError as error:
        return str(error)
    return tried.stderr.strip() if tried.returncode else ""


class Machine:
    """One machine: a process that does nothing holds its namespaces."""

    def __init__(self, number, folders, environment):
        self.number = number
        self.environment = environment
        self.ip = f"10.77.0.{number}"
        mounts = ["/tmp", "/dev/shm", *folders]
        script = [f"mkdir -p {each} && mount -t tmpfs tmpfs {each}" for each in mounts]
        hosts = f"127.0.0.1 localhost\\n{self.ip} machine-{number}\\n"
        script += [
            f"printf '{hosts}' > /tmp/hosts",
            "mount --bind /tmp/hosts /etc/hosts",
            f"hostname machine-{number}",
            "ip link set lo up",
            "echo ready",
            "exec sleep infinity",
        ]
        call = ["unshare", "-n", "-m", "-u", "-p", "--fork", "--kill-child", "--mount-proc"]
        self._holder = subprocess.Popen(
            [*call, "bash", "-ec", "\n".join(script)], stdout=subprocess.PIPE, text=True
        )
        assert self._holder.stdout.readline() == "ready\n"
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        self.process = int(children.read_text().split()[0])
        self._running = []

    def command(self, *call):
        """The call that runs another one on this machine."""
        return ["nsenter", "-t", str(self.process), "-n", "-m", "-u", "-p", *map(str, call)]

    def start(self, *call, **more):
        """Start a process on this machine."""
        environment = {**os.environ, **self.environment, **more.pop("env", {})}
        started = subprocess.Popen(self.command(*call), env=environment, **more)
        self._running.append(started)
        return started

    def run(self, *call, **more):
        """What a process on this machine gives."""
        more = {"capture_output": True, "text": True, "check": True, **more}
        environment = {**os.environ, **self.environment, **more.pop("env", {})}
        return subprocess.run(self.command(*call), env=environment, **more)

    def write(self, path, content):
        """Write a file on this machine."""
        content = content if isinstance(content, bytes) else content.encode()
        self.run("mkdir", "-p", Path(path).parent)
        self.run("tee", path, input=content, text=False)

    def read(self, path):
        """The content of a file of this machine."""
        return self.run("cat", path, text=False).stdout

    def switch_off(self):
        """End the machine with everything on it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, 9)
        self._holder.wait()
        self._holder.stdout.close()
        for each in self._running:
            each.wait()


class Cluster:
    """A Ray cluster of a head without CPUs and of nodes with some."""

    def __init__(self, log, folders, nodes=2, cpus=2, memory=200_000_000):
        self._log = open(log, "ab")  # noqa: SIM115  open as long as the cluster
        self._folders = folders
        self._cpus = cpus
        self._memory = memory
        self._count = 1
        # Ray asks for a token; this one lives as long as the cluster.
        self._environment = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_DISABLE_IMPORT_WARNING": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
        }
        self.machines = []
        try:
            self._start(nodes)
        except BaseException:
            self.close()
            raise

    def _start(self, nodes):
        self.head = self._machine()
        self.head.run("ip", "link", "add", "bridge0", "type", "bridge")
        self.head.run("ip", "addr", "add", f"{self.head.ip}/24", "dev", "bridge0")
        self.head.run("ip", "link", "set", "bridge0", "up")
        self._ray(self.head, "--head", "--port=6379", "--num-cpus=0", "--include-dashboard=false")
        for _ in range(nodes):
            self.join(wait=False)
        self.wait(nodes + 1)

    def _machine(self):
        machine = Machine(self._count, self._folders, self._environment)
        self._count += 1
        self.machines.append(machine)
        return machine

    def _ray(self, machine, *arguments):
        machine.start_ray = lambda: self._ray(machine, *arguments)
        machine.ray = machine.start(
            BIN / "ray",
            "start",
            "--block",
            f"--node-ip-address={machine.ip}",
            f"--object-store-memory={self._memory}",
            *arguments,
            stdout=self._log,
            stderr=self._log,
        )

    def join(self, wait=True):
        """A node comes."""
        machine = self._machine()
        name, other = f"veth{machine.number}", f"node{machine.number}"
        self.head.run("ip", "link", "add", name, "type", "veth", "peer", "name", other)
        # Moved from here, where both processes can be seen.
        link = ["ip", "link", "set", other, "netns", str(machine.process)]
        subprocess.run(["nsenter", "-t", str(self.head.process), "-n", *link], check=True)
        self.head.run("ip", "link", "set", name, "master", "bridge0", "up")
        machine.run("ip", "addr", "add", f"{machine.ip}/24", "dev", other)
        machine.run("ip", "link", "set", other, "up")
        self._ray(machine, f"--address={ADDRESS}", f"--num-cpus={self._cpus}")
        if wait:
            self.wait(len(self.machines))
        return machine

    def leave(self, machine):
        """A node is switched off."""
        self.machines.remove(machine)
        machine.switch_off()

    def wait(self, count):
        """Wait until this many nodes, the head among them, are there."""
        script = (
            "import ray, sys, time\n"
            f"ray.init(address={ADDRESS!r}, log_to_driver=False, logging_level=40)\n"
            "for _ in range(100):\n"
            f"    if sum(node['Alive'] for node in ray.nodes()) >= {count}: sys.exit(0)\n"
            "    time.sleep(0.2)\n"
            "sys.exit(1)\n"
        )
        deadline = time.monotonic() + SECONDS_TO_START
        while True:
            with contextlib.suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
                self.head.run(sys.executable, "-c", script, timeout=60.0)
                return
            assert time.monotonic() < deadline, "the nodes do not come"
            for machine in self.machines:
                # On a busy machine Ray gives up its own start.
                if machine.ray.poll() is not None:
                    machine.start_ray()

    def close(self):
        """Switch everything off."""
        for machine in reversed(self.machines):
            machine.switch_off()
        self._log.close()


def kill_inside(process, number):
    """Send a signal to what `nsenter` runs: its child."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    for child in children or [process]:
        os.kill(int(child), number)
