"""Recordings of ROS and MCAP: containers of messages, their types, and what becomes a stream."""
