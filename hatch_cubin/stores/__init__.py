"""Stores that many machines share, behind the local cache folder: fetch from them, and push to them."""
