"""The simulated runtime: event loop, network, disks and trace."""
