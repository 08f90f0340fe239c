"""Trials: pairs of slices that answer one question, and checks of the answer's trustworthiness."""
