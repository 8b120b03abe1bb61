"""Readers: text to plans and routers, with a Site for every field that they can write."""
