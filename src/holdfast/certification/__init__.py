"""A masked model and an explanation → certificates; each verb is in one file with its result."""
