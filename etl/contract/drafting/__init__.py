"""Draft a first pipeline file from sample events and master tables."""
