"""Drills: what a crash costs, found by really breaking the server and looking afterwards."""
