"""Topologies: how the devices of a node, and nodes, are connected; each figure with its source.

`topology` returns the topology that a text such as ``"64xH100"`` describes, `topologies` the names of the systems of this
package, such as ``"dgx-h100"``. `Topology.route` tells which links a group of ranks uses. ``docs/many-devices.md`` describes
the texts and the files.
"""

from metatensor.devices.topologies.loading import load_system
from metatensor.devices.topologies.parsing import topologies, topology
from metatensor.devices.topologies.topology import Interconnect, Network, Route, Topology, TopologyError

__all__ = ["Interconnect", "Network", "Route", "Topology", "TopologyError", "load_system", "topologies", "topology"]
