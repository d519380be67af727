"""What we claim about speed, runnable, each claim beside a peer.

Peers run from their own environment and import parts of this package there, so this file and
``benchmarks.peers`` import nothing.
"""
