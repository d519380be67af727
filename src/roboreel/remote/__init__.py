"""Clients of object stores, web servers and the Hub: the one place that talks to them (extra: remote)."""
